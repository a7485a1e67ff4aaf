"""The brokers that a pipeline reads and writes, from its definition: no user code, no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.connectors import kinds
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.kafka import Kafka
from headrace.errors import Error
from headrace.model.pipeline import Definition, Query

KINDS = (Kafka.kind, EventHubs.kind)


def has_any(definition: Definition) -> bool:
    return any(node.connector and node.connector.get("kind") in KINDS for node in definition.nodes)


def read_by(definition: Definition, query: Query, *, raises: bool = False) -> Iterator[Kafka]:
    """Sources, and sinks that others of the pipeline may read back: what the query reads comes
    first. Another cluster may have a topic of the same name, so the first one that covers a topic
    is the one. One that cannot be made here, for a secret that is not there, is left out; with
    `raises` that is told, if the query reads it."""
    inputs = _inputs(definition, query)
    for node in sorted(definition.nodes, key=lambda one: one.name not in inputs):
        is_wanted = raises and node.name in inputs
        found = _made(node.connector, node.name, is_source=True, raises=is_wanted)
        if found is not None:
            yield found


def _inputs(definition: Definition, query: Query) -> set[str]:
    """The nodes that it reads, also through views."""
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


def written_by(query: Query) -> Kafka | None:
    """The sink of a query, if that is a broker's."""
    return _made(query.sink, query.name, is_source=False)


def _made(
    fields: Mapping[str, Any] | None, name: str, *, is_source: bool, raises: bool = False
) -> Kafka | None:
    if fields is None or fields.get("kind") not in KINDS:
        return None
    try:
        made = kinds.made(fields, name=name)
        if isinstance(made, EventHubs):
            made = made.as_kafka(is_source=is_source)
    except Error:
        if raises:
            raise
        return None  # a secret that is not there: whoever runs it tells
    return made if isinstance(made, Kafka) else None
