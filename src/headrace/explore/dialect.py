"""Translates a query in Spark's SQL for DuckDB, or for Spark with our tables as views. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.files import FORMATS
from headrace.define.sql_names import is_too_deep, too_deep
from headrace.errors import SqlError
from headrace.explore.catalog import column

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Translation:
    """A query for DuckDB, as a syntax tree. `tables` pairs its tables with their views."""

    tree: exp.Query
    tables: tuple[tuple[exp.Table, str], ...]

    def sql(self, texts: Mapping[str, str] | None = None) -> str:
        """With `texts`, each view is replaced by its SQL."""
        from sqlglot import exp
        from sqlglot.errors import SqlglotError

        for table, view in self.tables:
            given = exp.Var(this=f"({texts[view]})") if texts else None
            table.set("this", given or exp.to_identifier(view, quoted=True))
        try:
            return self.tree.sql("duckdb", comments=False)
        except SqlglotError as exc:
            raise _syntax_error(exc) from exc
        except RecursionError as exc:
            raise too_deep(SqlError) from exc


def translate(text: str, view_of: Callable[[tuple[str, ...]], str]) -> Translation:
    """For DuckDB. `view_of` returns the view of a table; its parts are separated by dots."""
    try:
        query = _parse(text)
        tables = tuple((table, view_of(_parts(table))) for table in _tables(query))
    except RecursionError as exc:
        raise too_deep(SqlError) from exc
    for table, _ in tables:
        _rename(table)
    return Translation(query, tables)


def translate_for_spark(text: str, view_of: Callable[[tuple[str, ...]], str | None]) -> str:
    """For Spark: the text with views in place of the tables that have one.

    Spark may understand SQL that our parser does not; `view_of` then gets every word.
    """
    try:
        tables = _tables(_parse(text))
    except (SqlError, RecursionError) as exc:
        if isinstance(exc, SqlError) and exc.code != "sql-syntax":
            raise
        for word in dict.fromkeys(re.findall(r"\w+", text)):
            with suppress(SqlError):  # the word may not be the name of a table
                view_of((word,))
        return text
    places = []
    for table in tables:
        parts = _parts(table)
        view = view_of(parts)
        if view is not None and (view,) != parts:
            alias = "" if table.alias else f" AS {column(parts[-1])}"
            marks = [part.meta for part in table.parts]
            begin, end = marks[0]["start"], marks[-1]["end"] + 1
            places.append((begin, end, column(view) + alias))
    for begin, end, instead in sorted(places, reverse=True):
        text = text[:begin] + instead + text[end:]
    return text


def _parse(text: str) -> exp.Query:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if is_too_deep(text):
        raise too_deep(SqlError)
    try:
        statements = [s for s in sqlglot.parse(text, read="spark") if s is not None]
    except SqlglotError as exc:
        raise _syntax_error(exc) from exc
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SqlError(
            "Only a single SELECT query is allowed.",
            why=f"The text contains {len(statements)} statements."
            if len(statements) != 1
            else "The statement is not a SELECT (or WITH … SELECT).",
            fix="Write one SELECT.",
            slug="not-a-query",
        )
    return statements[0]


def _tables(query: exp.Query) -> list[exp.Table]:
    """Without common table expressions."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    sources = [source for scope in traverse_scope(query) for source in scope.sources.values()]
    tables = {id(s): s for s in sources if isinstance(s, exp.Table) and s.name}
    return list(tables.values())


def _parts(table: exp.Table) -> tuple[str, ...]:
    return tuple(part.name for part in table.parts)


def _rename(table: exp.Table) -> None:
    """Keeps the table's name as an alias, because the rest of the query uses it."""
    from sqlglot import exp

    if not table.alias and table.db.lower() not in FORMATS:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("db", None)
    table.set("catalog", None)


def _syntax_error(exc: Exception) -> SqlError:
    first = (getattr(exc, "errors", None) or [{}])[0]
    message = first.get("description") or str(exc).splitlines()[0]
    line, near = first.get("line"), first.get("highlight")
    return SqlError(
        f"SQL syntax error: {message.rstrip('.')}.",
        why=f"The error is at {near!r}." if near else None,
        where=f"line {line}, column {first.get('col')}" if line else None,
        fix="If this is valid Spark SQL, use headrace sql --spark.",
        slug="sql-syntax",
    )
