"""A question in Spark's SQL, as DuckDB understands it, or Spark with our tables as its views.

Pure; the text is parsed, never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.connectors.files import FORMATS
from headrace.errors import SqlError

if TYPE_CHECKING:
    from sqlglot import exp

# DuckDB's own: of files, of settings, of other databases, and SQL inside a text.
_LOOKS_AROUND = re.compile(
    r"(?i:read_?.*|scan_.*|.*_scan|parquet_.*|sniff_.*|arrow_.*|duckdb_.*|pragma_.*|st_read.*"
    r"|glob|query|query_table|getvariable|getenv|which_secret|current_setting)"
)
# Spark's functions that give rows, where a table may stand.
_ROWS = (
    "range", "sequence", "explode", "explode_outer", "posexplode", "posexplode_outer",
    "inline", "inline_outer", "stack", "unnest", "generate_series",
)  # fmt: skip


def translated(text: str, view_of: Callable[[tuple[str, ...]], str]) -> str:
    """For DuckDB. `view_of(parts)` says which view stands for a table; parts are between dots."""
    from sqlglot.errors import SqlglotError

    asked = _parsed(text)
    _refuse_files(asked)
    for table in _tables(asked):
        _point(table, view_of(_parts(table)))
    try:
        return asked.sql("duckdb")
    except SqlglotError as exc:
        raise _not_understood(exc) from exc


def for_spark(text: str, view_of: Callable[[tuple[str, ...]], str | None]) -> str:
    """For Spark: the text as it stands, but views in place of the tables that have one.

    What is not understood here is left to Spark, which may: `view_of` then sees every word.
    """
    try:
        asked = _parsed(text)
    except SqlError as exc:
        if exc.code != "sql-syntax":
            raise
        for word in dict.fromkeys(re.findall(r"\w+", text)):
            with suppress(SqlError):  # the word may be something else than a table's name
                view_of((word,))
        return text
    places = []
    for table in _tables(asked):
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


def _refuse_files(asked: exp.Query) -> None:
    """Functions that open files or look around: only tables are read here, and by their names."""
    from sqlglot import exp

    for call in asked.find_all(exp.Func):
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        is_table = isinstance(call.parent, exp.Table | exp.Lateral)
        if _LOOKS_AROUND.fullmatch(name) or (is_table and name.lower() not in _ROWS):
            raise SqlError(
                f"{name.lower()}(…) is not answered here.",
                why="Only tables are read, and of their files only those that are committed.",
                fix="Name the table, or the folder: SELECT * FROM parquet.`data/metrics`",
                slug="not-a-table",
            )


def _tables(asked: exp.Query) -> list[exp.Table]:
    """Without common table expressions: their names are the question's own."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    sources = [one for scope in traverse_scope(asked) for one in scope.sources.values()]
    tables = {id(one): one for one in sources if isinstance(one, exp.Table) and one.name}
    return list(tables.values())


def _parts(table: exp.Table) -> tuple[str, ...]:
    return tuple(part.name for part in table.parts)


def _point(table: exp.Table, view: str) -> None:
    """The view in the table's place, under the name by which the rest of the text calls it."""
    from sqlglot import exp

    if not table.alias and table.db.lower() not in FORMATS:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(view, quoted=True))
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
