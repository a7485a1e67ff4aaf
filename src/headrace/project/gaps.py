"""Records that are gone from a broker before a query has read them: how many, and of which
partition. From the query's checkpoint against the broker's own answer.

Asks the network, so only the command line calls it, when a person asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoints import layout
from headrace.connectors import kinds
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import Broker
from headrace.errors import Error
from headrace.model.pipeline import Definition, Query
from headrace.project import definitions
from headrace.project.workspace import Workspace
from headrace.state import desired

Offsets = dict[str, dict[int, int]]  # topic: partition: the record that comes next


@dataclass(frozen=True, slots=True)
class Gap:
    """`first` to before `low` are gone; `low` is None where the whole partition is."""

    query: str
    topic: str
    partition: int
    first: int
    low: int | None

    def in_words(self) -> str:
        at = f"{self.query}: {self.topic}, partition {self.partition}"
        if self.low is None:
            return f"{at} does not exist any more (it stood at {self.first:,})"
        return f"{at}: {self.low - self.first:,} records, from {self.first:,} to {self.low - 1:,}"


def of_pipeline(work: Workspace, pipeline: str) -> list[Gap]:
    """Raises what keeps the broker from answering."""
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        return []
    found = definitions.stored(work, wanted.version, wanted.profile, pipeline)
    return [gap for query in found.queries for gap in _of_query(found, query)] if found else []


def _of_query(definition: Definition, query: Query) -> Iterator[Gap]:
    read = _committed(Path(query.checkpoint)) if query.checkpoint else {}
    for connector in _brokers(definition):
        mine = {topic: parts for topic, parts in read.items() if connector.covers(topic)}
        if not mine:
            continue
        with Broker(connector) as broker:
            known = broker.topics()
            there = {t: [p for p in parts if p in known.get(t, ())] for t, parts in mine.items()}
            ends = broker.ends(there)
        for topic, partitions in mine.items():
            read.pop(topic, None)  # another connector of the same name covers it, too
            for partition, first in partitions.items():
                end = ends.get((topic, partition))
                if end is None:
                    yield Gap(query.name, topic, partition, first, None)
                elif end.low > first:
                    yield Gap(query.name, topic, partition, first, end.low)


def _brokers(definition: Definition) -> Iterator[Kafka]:
    """Sources, and sinks that others of the pipeline read back."""
    for node in definition.nodes:
        if node.connector is None or kinds.maker(str(node.connector.get("kind"))) is None:
            continue
        try:
            made = kinds.made(node.connector, name=node.name)
        except Error:
            continue
        if isinstance(made, EventHubs):
            made = made.as_kafka(is_source=True)
        if isinstance(made, Kafka):
            yield made


def _committed(checkpoint: Path) -> Offsets:
    """Where it goes on, by the last batch that is done; other sources are left out."""
    batch = layout.last_committed(checkpoint)
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text("utf-8")
    except OSError:
        return {}
    found: Offsets = {}
    for line in layout.source_lines(text):
        body = json.loads(line) if line.startswith("{") else None
        for topic, partitions in body.items() if isinstance(body, dict) else ():
            if isinstance(partitions, dict) and all(str(p).isdigit() for p in partitions):
                found[topic] = {int(p): int(at) for p, at in partitions.items()}
    return found
