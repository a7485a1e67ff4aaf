"""A question in Spark's SQL, as DuckDB understands it. Pure; the text is parsed, never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.connectors.files import FORMATS
from headrace.errors import SqlError

if TYPE_CHECKING:
    from sqlglot import exp


def translated(text: str, view_of: Callable[[str, str], str]) -> str:
    """`view_of(name, space)` says which view stands for a table; `space` is what is before the dot.

    Names of common table expressions are the question's own, and stay.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    try:
        statements = [s for s in sqlglot.parse(text, read="spark") if s is not None]
    except SqlglotError as exc:
        raise _not_understood(exc) from exc
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SqlError(
            "The text is not one query.",
            why=f"It holds {len(statements)} statements."
            if len(statements) != 1
            else "It has to be a SELECT (or WITH … SELECT): looking changes nothing.",
            fix="Ask one SELECT at a time.",
            slug="not-a-query",
        )
    asked = statements[0]
    seen: set[int] = set()
    for scope in traverse_scope(asked):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and id(source) not in seen and source.name:
                seen.add(id(source))
                _point(source, view_of(source.name, source.db))
    try:
        return asked.sql("duckdb")
    except SqlglotError as exc:
        raise _not_understood(exc) from exc


def _point(table: exp.Table, view: str) -> None:
    """The view in the table's place, under the name by which the rest of the text calls it."""
    from sqlglot import exp

    if not table.alias and table.db.lower() not in FORMATS:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(view, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _not_understood(exc: Exception) -> SqlError:
    errors = getattr(exc, "errors", None) or [{}]
    first = errors[0]
    told = first.get("description") or str(exc).splitlines()[0]
    line, column = first.get("line"), first.get("col")
    near_text = first.get("highlight")
    return SqlError(
        f"The SQL is not understood: {told.rstrip('.')}.",
        why=f"At {near_text!r}." if near_text else None,
        where=f"line {line}, column {column}" if line else None,
        fix="Spark may know more: headrace sql --spark",
        slug="sql-syntax",
    )
