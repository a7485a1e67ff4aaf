"""Records that are gone from a broker before a query has read them: how many, and of which
partition. From the query's checkpoint against the broker's own answer.

Asks the network, so only the command line calls it, when a person asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.checkpoints import positions
from headrace.connectors.kafkabroker import Broker
from headrace.errors import SetupError
from headrace.model.pipeline import Definition, Query
from headrace.project import definitions, topics
from headrace.project.workspace import Workspace
from headrace.state import desired


@dataclass(frozen=True, slots=True)
class Gap:
    """`first` to before `low` are gone; `low` is None where the whole partition is, and then
    `is_named` says that the source cannot be read without it. `high` below `first`: the topic was
    made anew, and counts from 0 again."""

    query: str
    topic: str
    partition: int
    first: int
    low: int | None
    high: int = 0
    is_named: bool = False

    def in_words(self) -> str:
        at = f"{self.query}: {self.topic}, partition {self.partition}"
        if self.low is None:
            return f"{at} does not exist any more (it stood at {self.first:,})"
        if self.first > self.high:
            # Spark goes on at the end: a position in the old topic says nothing about the new one.
            return (
                f"{at} was made anew: it stood at {self.first:,}, now it ends at {self.high:,}; "
                f"what is in it now is left out, too: {self.high - self.low:,} records"
            )
        return f"{at}: {self.low - self.first:,} records, from {self.first:,} to {self.low - 1:,}"


def of_pipeline(work: Workspace, pipeline: str) -> list[Gap]:
    """Raises what keeps the broker from answering."""
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        return []
    found = definitions.stored(work, wanted.version, wanted.profile, pipeline)
    return [gap for query in found.queries for gap in _of_query(found, query)] if found else []


def refuse_missing(found: Sequence[Gap]) -> None:
    """A topic that a source names has to be there: no run could go on without it."""
    if missing := sorted({gap.topic for gap in found if gap.is_named}):
        raise SetupError(
            f"There is no topic {', '.join(missing)} to go on with.",
            why="The source reads it by name; without it every start fails.",
            fix="Create it and ask again, or take it out of subscribe and deploy: headrace up.",
            slug="topic-missing",
        )


def _of_query(definition: Definition, query: Query) -> Iterator[Gap]:
    read = positions.of(query.checkpoint) if query.checkpoint else {}
    if read is None:
        raise SetupError(
            f"What {query.name} has read is not known: its checkpoint is not on this machine.",
            where=query.checkpoint,
            fix="compare its newest file in offsets/ with the broker by hand",
            slug="checkpoint-elsewhere",
        )
    for connector in topics.read_by(definition, query):
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
                    named = topic in connector.subscribe and topic not in known
                    yield Gap(query.name, topic, partition, first, None, is_named=named)
                elif end.low > first or first > end.high:
                    yield Gap(query.name, topic, partition, first, end.low, end.high)
