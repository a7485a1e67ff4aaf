"""Checks what a query may do, using DuckDB's own parse tree of the SQL that it will run. Pure.

Invariant: everything that is not listed here is rejected. A query reads the given tables and its
own common table expressions, and no files, settings or other databases. The statement type is not
sufficient: DuckDB runs INSERT, UPDATE, DELETE and COPY inside the WITH of a SELECT.
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
_ROWS = {"range", "generate_series", "unnest"}  # functions that may be used as a table
# They read files, settings or other databases, or run SQL from a string.
_FORBIDDEN = re.compile(
    r"(?i:read_?.*|scan_.*|.*_scan|parquet_.*|sniff_.*|arrow_.*|duckdb_.*|pragma_.*|st_read.*"
    r"|glob|query|query_table|getvariable|getenv|which_secret|current_setting)"
)
_PLAIN_NAME = re.compile(r"[\w -]+")  # DuckDB could take any other name for a file

_ONLY_TABLES = "A query can read only tables, and only their committed files."


def check(tree: Mapping[str, Any], tables: Set[str]) -> None:
    """`tree` is the result of DuckDB's json_serialize_sql. Raises if the query is not allowed."""
    statements = tree.get("statements") or []
    if tree.get("error") or len(statements) != 1:
        raise _not_a_query_error()
    parts = list(_parts(statements[0]))
    own = {key for part in parts for key in _common_tables(part)}
    known = {name.lower() for name in own | tables}
    for part in parts:
        if "function_name" in part and _FORBIDDEN.fullmatch(part["function_name"]):
            raise _function_error(part["function_name"])
        kind = part.get("type")
        if "class" not in part and isinstance(kind, str):
            _check_kind(kind)
        if kind == "BASE_TABLE":
            _check_table(part, known)
        elif kind == "TABLE_FUNCTION":
            function = part["function"]
            if function["function_name"].lower() not in _ROWS or function["schema"]:
                raise _function_error(function["function_name"])


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in the tree. Not recursive: the tree may be nested deeply."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _common_tables(part: Mapping[str, Any]) -> Iterator[str]:
    for entry in (part.get("cte_map") or {}).get("map") or ():
        name = entry["key"]
        if not _PLAIN_NAME.fullmatch(name):
            raise SqlError(
                f"Invalid name after WITH: {name!r}.",
                why="The name can contain only letters, digits and underscores.",
                fix="Use a plain name: WITH recent AS (SELECT …)",
                slug="not-a-table",
            )
        yield name


def _check_kind(kind: str) -> None:
    if kind == "SHOW_REF":
        raise _not_a_query_error("DESCRIBE, SHOW or SUMMARIZE")
    if kind not in _QUERIES | _TABLES | _ORDERS:
        raise _not_a_query_error(kind.removesuffix("_NODE").removesuffix("_QUERY"))


def _check_table(part: Mapping[str, Any], known: Set[str]) -> None:
    name = part["table_name"]
    if part["schema_name"] or part["catalog_name"] or name.lower() not in known:
        raise SqlError(
            f"Unknown table {name!r}.",
            why=_ONLY_TABLES,
            fix="Run `headrace sql` without a query to list the tables.",
            slug="not-a-table",
        )


def _not_a_query_error(what: str = "a different kind of statement") -> SqlError:
    return SqlError(
        "Only a single SELECT query is allowed.",
        why=f"The query contains {what}.",
        fix="Write one SELECT.",
        slug="not-a-query",
    )


def _function_error(name: str) -> SqlError:
    return SqlError(
        f"A query cannot call {name.lower()}(…).",
        why=_ONLY_TABLES,
        fix="Use the table's name or its folder: SELECT * FROM parquet.`data/metrics`",
        slug="not-a-table",
    )
