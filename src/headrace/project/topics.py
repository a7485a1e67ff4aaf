"""The brokers that a pipeline reads, from its definition: no user code, no Spark."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.connectors import kinds
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.kafka import Kafka
from headrace.errors import Error
from headrace.model.pipeline import Definition

KINDS = (Kafka.kind, EventHubs.kind)


def has_any(definition: Definition) -> bool:
    return any(node.connector and node.connector.get("kind") in KINDS for node in definition.nodes)


def read_by(definition: Definition) -> Iterator[Kafka]:
    """Sources, and sinks that others of the pipeline may read back."""
    for node in definition.nodes:
        if node.connector is None or node.connector.get("kind") not in KINDS:
            continue
        try:
            made = kinds.made(node.connector, name=node.name)
            if isinstance(made, EventHubs):
                made = made.as_kafka(is_source=True)
        except Error:
            continue  # a secret that is not there: whoever runs it tells
        if isinstance(made, Kafka):
            yield made
