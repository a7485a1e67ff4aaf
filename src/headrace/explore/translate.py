"""A question in Spark's SQL, as DuckDB understands it, or Spark with our tables as its views.

Pure; the text is parsed, never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.files import FORMATS
from headrace.define.sql import is_too_deep, too_deep
from headrace.errors import SqlError

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Translated:
    """A question for DuckDB, as a tree. `tables` are its places for tables, by their views."""

    tree: exp.Query
    tables: tuple[tuple[exp.Table, str], ...]

    def sql(self, texts: Mapping[str, str] | None = None) -> str:
        """With `texts`, the SQL of each view in the view's place."""
        from sqlglot import exp
        from sqlglot.errors import SqlglotError

        for table, view in self.tables:
            given = exp.Var(this=f"({texts[view]})") if texts else None
            table.set("this", given or exp.to_identifier(view, quoted=True))
        try:
            return self.tree.sql("duckdb", comments=False)
        except SqlglotError as exc:
            raise _not_understood(exc) from exc
        except RecursionError as exc:
            raise too_deep(SqlError) from exc


def translated(text: str, view_of: Callable[[tuple[str, ...]], str]) -> Translated:
    """For DuckDB. `view_of(parts)` says which view stands for a table; parts are between dots."""
    try:
        asked = _parsed(text)
        tables = tuple((table, view_of(_parts(table))) for table in _tables(asked))
    except RecursionError as exc:
        raise too_deep(SqlError) from exc
    for table, _ in tables:
        _rename(table)
    return Translated(asked, tables)


def for_spark(text: str, view_of: Callable[[tuple[str, ...]], str | None]) -> str:
    """For Spark: the text as it stands, but views in place of the tables that have one.

    What is not understood here is left to Spark, which may: `view_of` then sees every word.
    """
    try:
        asked = _parsed(text)
        found = _tables(asked)
    except (SqlError, RecursionError) as exc:
        if isinstance(exc, SqlError) and exc.code != "sql-syntax":
            raise
        for word in dict.fromkeys(re.findall(r"\w+", text)):
            with suppress(SqlError):  # the word may be something else than a table's name
                view_of((word,))
        return text
    places = []
    for table in found:
        parts = _parts(table)
        view = view_of(parts)
        if view is not None and (view,) != parts:
            alias = "" if table.alias else f" AS {_backticked(parts[-1])}"
            marks = [part.meta for part in table.parts]
            begin, end = marks[0]["start"], marks[-1]["end"] + 1
            places.append((begin, end, _backticked(view) + alias))
    for begin, end, instead in sorted(places, reverse=True):
        text = text[:begin] + instead + text[end:]
    return text


def _parsed(text: str) -> exp.Query:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if is_too_deep(text):
        raise too_deep(SqlError)
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
    return statements[0]


def _tables(asked: exp.Query) -> list[exp.Table]:
    """Without common table expressions: their names are the question's own."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    sources = [one for scope in traverse_scope(asked) for one in scope.sources.values()]
    tables = {id(one): one for one in sources if isinstance(one, exp.Table) and one.name}
    return list(tables.values())


def _parts(table: exp.Table) -> tuple[str, ...]:
    return tuple(part.name for part in table.parts)


def _rename(table: exp.Table) -> None:
    """Whatever takes the table's place, the rest of the text calls it by the table's name."""
    from sqlglot import exp

    if not table.alias and table.db.lower() not in FORMATS:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("db", None)
    table.set("catalog", None)


def _backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
