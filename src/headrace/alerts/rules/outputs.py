"""The outputs that an alert affects: what a query writes, and what later queries write. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.model.pipeline import Definition, Query

ADDRESSES = ("topic", "path", "table")  # fields of a connector that say where it is
Name = tuple[str, str]  # pipeline, query


def affected(
    definitions: Iterable[Definition], project: str
) -> dict[str, dict[str, tuple[str, ...]]]:
    """By pipeline and query. Queries of other pipelines that read the output count too. Paths are
    shown relative to the project."""
    known = list(definitions)
    queries = {(d.pipeline, query.name): query for d in known for query in d.queries}
    readers = _readers(known)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in queries:
        reached = _reached(name, queries, readers)
        outputs = (describe(queries[one], project) for one in reached)
        found.setdefault(name[0], {})[name[1]] = tuple(dict.fromkeys(outputs))
    return found


def describe(query: Query, project: str) -> str:
    """totals → data/totals (parquet)"""
    kind = str(query.sink.get("kind") or "sink")
    address = "" if kind == "live" else _address(query.sink).removeprefix(f"{project}/")
    return f"{query.name} → {address} ({kind})" if address else f"{query.name} ({kind})"


def _readers(definitions: list[Definition]) -> dict[str, list[Name]]:
    """The queries that read an address, or the query with a name (PIPELINE/QUERY)."""
    found: dict[str, list[Name]] = {}
    for definition in definitions:
        nodes = {node.name: node for node in definition.nodes}
        own = {query.name for query in definition.queries}
        for query in definition.queries:
            left, seen = list(query.inputs), set[str]()
            while left:
                name = left.pop()
                if name in seen:
                    continue
                seen.add(name)
                reader = (definition.pipeline, query.name)
                if name in own and name != query.name:
                    found.setdefault(f"{definition.pipeline}/{name}", []).append(reader)
                if (node := nodes.get(name)) is not None and node.kind != "query":
                    left += node.inputs
                    if address := _address(node.connector or {}):
                        found.setdefault(address, []).append(reader)
    return found


def _reached(
    first: Name, queries: Mapping[Name, Query], readers: Mapping[str, list[Name]]
) -> list[Name]:
    reached, left = [first], [first]
    while left:
        pipeline, query = name = left.pop(0)
        address = _address(queries[name].sink)
        for reader in [*readers.get(f"{pipeline}/{query}", ()), *readers.get(address, ())]:
            if reader not in reached:
                reached.append(reader)
                left.append(reader)
    return reached


def _address(fields: Mapping[str, Any]) -> str:
    return next((str(fields[field]) for field in ADDRESSES if fields.get(field)), "")
