"""What a question may do, judged by DuckDB's own parse tree of the text that DuckDB will run.

Pure. Invariant: everything that is not listed here is refused. A question reads the tables that it
was given and its own common table expressions; it names no file, no setting and no other database.
DuckDB runs INSERT, UPDATE, DELETE and COPY inside a WITH of a SELECT, so the type of the statement
says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from headrace.errors import SqlError

_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLES = {
    "BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "PIVOT", "EMPTY",
}  # fmt: skip
_ORDERS = {
    "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER", "DISTINCT_MODIFIER",
    "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
}  # fmt: skip
_ROWS = {"range", "generate_series", "unnest"}  # functions that may take the place of a table
# Of files, of settings, of other databases, and SQL inside a text.
_LOOKS_AROUND = re.compile(
    r"(?i:read_?.*|scan_.*|.*_scan|parquet_.*|sniff_.*|arrow_.*|duckdb_.*|pragma_.*|st_read.*"
    r"|glob|query|query_table|getvariable|getenv|which_secret|current_setting)"
)
_PLAIN_NAME = re.compile(r"[\w -]+")  # DuckDB could take any other name for that of a file


def check(tree: Mapping[str, Any], tables: Set[str]) -> None:
    """`tree` is what DuckDB's json_serialize_sql gives. Raises for what may not be answered."""
    statements = tree.get("statements") or []
    if tree.get("error") or len(statements) != 1:
        raise _other()
    parts = list(_parts(statements[0]))
    own = {key for part in parts for key in _common_tables(part)}
    known = {name.lower() for name in own | tables}
    for part in parts:
        if "function_name" in part and _LOOKS_AROUND.fullmatch(part["function_name"]):
            raise _function(part["function_name"])
        kind = part.get("type")
        if "class" not in part and isinstance(kind, str):
            _check_kind(kind)
        if kind == "BASE_TABLE":
            _check_table(part, known)
        elif kind == "TABLE_FUNCTION":
            function = part["function"]
            if function["function_name"].lower() not in _ROWS or function["schema"]:
                raise _function(function["function_name"])


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of the tree, however deep it is nested."""
    left = [tree]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left += one.values()
        elif isinstance(one, list):
            left += one


def _common_tables(part: Mapping[str, Any]) -> Iterator[str]:
    for one in (part.get("cte_map") or {}).get("map") or ():
        name = one["key"]
        if not _PLAIN_NAME.fullmatch(name):
            raise SqlError(
                f"{name!r} cannot be a name after WITH.",
                why="Such a name consists of letters, digits and underscores.",
                fix="Give it a plain name: WITH recent AS (SELECT …)",
                slug="not-a-table",
            )
        yield name


def _check_kind(kind: str) -> None:
    if kind.endswith("_NODE") and kind not in _QUERIES:
        raise _other(kind.removesuffix("_NODE").removesuffix("_QUERY"))
    if kind == "SHOW_REF":
        raise _other("DESCRIBE, SHOW or SUMMARIZE")
    if kind not in _QUERIES | _TABLES | _ORDERS:
        raise _other(kind)


def _check_table(part: Mapping[str, Any], known: Set[str]) -> None:
    name = part["table_name"]
    if part["schema_name"] or part["catalog_name"] or name.lower() not in known:
        raise SqlError(
            f"{name!r} is not a table here.",
            why="A question reads tables, and of their files only those that are committed.",
            fix="headrace sql without a question lists the tables",
            slug="not-a-table",
        )


def _other(what: str = "another kind of statement") -> SqlError:
    return SqlError(
        "Only a SELECT is answered here.",
        why=f"The question contains {what}.",
        fix="Ask one SELECT at a time.",
        slug="not-a-query",
    )


def _function(name: str) -> SqlError:
    return SqlError(
        f"A question cannot call {name.lower()}(…).",
        why="A question reads tables, and of their files only those that are committed.",
        fix="Name the table, or its folder: SELECT * FROM parquet.`data/metrics`",
        slug="not-a-table",
    )
