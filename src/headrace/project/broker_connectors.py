"""The broker connectors of a pipeline, from its definition: no user code, no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.connectors import kinds
from headrace.errors import Error
from headrace.model.pipeline import Definition, Query

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka


def has_any(definition: Definition) -> bool:
    return any(kinds.has_topics((node.connector or {}).get("kind")) for node in definition.nodes)


def read_by(definition: Definition, query: Query, *, raises: bool = False) -> Iterator[Kafka]:
    """Sources, and sinks that other queries may read back; the query's own inputs come first.
    Clusters may have topics of the same name: the first connector that covers a topic counts.
    Connectors that cannot be built here, for lack of a secret, are left out; with `raises`, those
    that the query reads raise."""
    inputs = _inputs(definition, query)
    for node in sorted(definition.nodes, key=lambda node: node.name not in inputs):
        is_wanted = raises and node.name in inputs
        found = _build_connector(node.connector, node.name, is_source=True, raises=is_wanted)
        if found is not None:
            yield found


def _inputs(definition: Definition, query: Query) -> set[str]:
    """The nodes that the query reads, directly or through views."""
    nodes = {node.name: node for node in definition.nodes}
    found: set[str] = set()
    left = list(query.inputs)
    while left:
        name = left.pop()
        if name in found or name not in nodes:
            continue
        found.add(name)
        if nodes[name].connector is None:
            left += nodes[name].inputs
    return found


def kafka_sink(query: Query) -> Kafka | None:
    """The sink of a query if it is a broker."""
    return _build_connector(query.sink, query.name, is_source=False)


def _build_connector(
    fields: Mapping[str, Any] | None, name: str, *, is_source: bool, raises: bool = False
) -> Kafka | None:
    if fields is None or not kinds.has_topics(fields.get("kind")):
        return None
    try:
        return kinds.build_connector(fields, name=name).as_kafka(is_source=is_source)
    except Error:
        if raises:
            raise
        return None  # a missing secret, which the driver reports
