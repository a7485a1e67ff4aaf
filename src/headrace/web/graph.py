"""The graph of a pipeline as JSON: sources, tables, views, queries and sinks, with their rates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.config import Settings
from headrace.model.pipeline import Definition, Query
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.web import pipeline_rates

ADDRESSES = ("topic", "path", "table")  # fields of a sink that say where it writes


def graph(
    definition: Definition,
    status: PipelineStatus,
    settings: Settings,
    output_rates: Mapping[str, float],
) -> dict[str, Any]:
    """`edges` are [from, to, rows per second or null]; `output_rates` are by query."""
    seen = {query.name: query for query in status.queries}
    nodes = {
        node.name: {
            "id": node.name,
            "kind": node.kind,
            "place": node.place,
            "connector": (node.connector or {}).get("kind"),
        }
        for node in definition.nodes
    }
    inputs = {node.name: node.inputs for node in definition.nodes}
    sinks = []
    for query in definition.queries:
        nodes[query.name] = _query_node(query, seen.get(query.name))
        inputs[query.name] = query.inputs
        sink, kind = sink_name(query, settings), query.sink.get("kind")
        sinks.append({"id": _sink_id(query), "kind": "sink", "name": sink, "connector": kind})
    edges = [(before, name) for name, all_ in inputs.items() for before in all_]
    edges += [(query.name, _sink_id(query)) for query in definition.queries]
    rates = _edge_rates(definition, seen, inputs, output_rates)
    return {
        "nodes": [*nodes.values(), *sinks],
        "edges": [[*edge, rates.get(edge)] for edge in sorted(set(edges))],
    }


def _query_node(query: Query, seen: QueryStatus | None) -> dict[str, Any]:
    return {
        "id": query.name,
        "kind": "query",
        "place": query.place,
        "guarantee": query.guarantee,
        "guarantee_why": query.guarantee_why,
        "trigger": dict(query.trigger),
        "mode": query.mode,
        "state": seen.state if seen else None,
        "input_rate": seen.input_rate if seen else None,
        "processing_rate": seen.processing_rate if seen else None,
    }


def _sink_id(query: Query) -> str:
    return f"{query.name} →"


def sink_name(query: Query, settings: Settings) -> str:
    """Its name in headrace.toml, else where it writes, else what it is."""
    sink, kind = query.sink, str(query.sink.get("kind") or "sink")
    if kind == "live":
        return query.name  # the name of the live table
    address = _address(sink, settings.project)
    for name, table in settings.sinks.items():
        if address and _address(table, settings.project) == address:
            return name
    return address.removeprefix(f"{settings.project}/") or kind


def _address(fields: Mapping[str, Any], project: Path) -> str:
    for field in ADDRESSES:
        if value := fields.get(field):
            is_local = field == "path" and ":" not in str(value).partition("/")[0]
            return str(project / str(value)) if is_local else str(value)
    return ""


def _edge_rates(
    definition: Definition,
    seen: Mapping[str, QueryStatus],
    inputs: Mapping[str, tuple[str, ...]],
    output_rates: Mapping[str, float],
) -> dict[tuple[str, str], float]:
    """An edge into a query with one streaming input has the query's input rate, and an edge out of
    a source has the source's rate. The rate from a view into a join is not known."""
    sources = pipeline_rates.sources_by_query(definition)
    by_source = pipeline_rates.current_rates(seen.values(), sources).by_source
    static = {node.name for node in definition.nodes if node.kind == "table"}
    rates: dict[tuple[str, str], float] = {}
    for name, all_ in inputs.items():
        rates |= {(before, name): by_source[before] for before in all_ if before in by_source}
        streams = [before for before in all_ if before not in static]
        rate = seen[name].input_rate if name in seen else None
        if rate is not None and len(streams) == 1:
            rates[streams[0], name] = rate
    for query in definition.queries:
        if query.name in output_rates:
            rates[query.name, _sink_id(query)] = output_rates[query.name]
    return rates


def affected_sinks(
    definition: Definition, query: str | None, settings: Settings
) -> list[dict[str, Any]]:
    """The sinks of a query and of all queries that read its output, or of the whole pipeline."""
    inputs = {node.name: node.inputs for node in definition.nodes}
    inputs |= {one.name: one.inputs for one in definition.queries}

    def reads(name: str, seen: frozenset[str] = frozenset()) -> bool:
        if query is None or name == query:
            return True
        return name not in seen and any(reads(one, seen | {name}) for one in inputs.get(name, ()))

    return [
        {"query": one.name, "name": sink_name(one, settings), "kind": one.sink.get("kind")}
        for one in definition.queries
        if reads(one.name)
    ]
