"""Finds records that a broker has deleted before a query has read them, by comparing the query's
checkpoint with the broker.

Uses the network, so only commands call it, never the page or the supervisor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.checkpoints import positions
from headrace.connectors import kinds
from headrace.connectors.kafka.broker_client import BrokerClient
from headrace.errors import SetupError
from headrace.model.gaps import Gap
from headrace.model.pipeline import Definition, Node, Query
from headrace.project import broker_connectors
from headrace.project.workspace import Workspace
from headrace.state import definitions, desired


def find(work: Workspace, pipeline: str) -> list[Gap]:
    """Raises if a broker cannot be reached."""
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        return []
    if wanted.script:
        raise SetupError(
            f"Cannot determine which records {pipeline} is missing, because it is a script.",
            why="Headrace does not know a script's sources or their options.",
            where=wanted.file,
            fix='For one run, set .option("failOnDataLoss", "false") on the source.',
            slug="gap-of-script",
        )
    found = definitions.read(work.places, wanted.version, wanted.profile, pipeline)
    if own := [node for node in found.nodes if _is_own(node)] if found else []:
        names = ", ".join(node.name for node in own)
        raise SetupError(
            f"Headrace cannot skip missing records in {names}, which your own code reads.",
            why="Headrace can skip missing records only in sources that it opens itself.",
            where=own[0].place,
            fix="Declare the source in headrace.toml, or return the connector from an @hr.source. "
            "Then deploy, and run this command again.",
            slug="gap-of-own-source",
        )
    return [gap for query in found.queries for gap in _find_in_query(found, query)] if found else []


def refuse_missing(found: Sequence[Gap]) -> None:
    """Raises if a topic that a source names does not exist: no run could start."""
    if missing := sorted({gap.topic for gap in found if gap.is_named}):
        raise SetupError(
            f"Topic{'s' * (len(missing) != 1)} not found: {', '.join(missing)}.",
            why="A source that reads topics by name cannot start if one of them is missing.",
            fix="Create the missing topics and run this command again, or remove them from the "
            "source and deploy: headrace up",
            slug="topic-missing",
        )


def _is_own(node: Node) -> bool:
    """A broker's topics that the user's code reads."""
    return not node.is_declared and kinds.has_topics((node.connector or {}).get("kind"))


def _find_in_query(definition: Definition, query: Query) -> Iterator[Gap]:
    place = query.checkpoint or ""
    read = positions.read(place) if place else {}
    if read is None:
        raise SetupError(
            f"The position of {query.name} is unknown: its checkpoint is not on this machine.",
            where=place,
            fix="Compare the offsets in the latest file of the checkpoint's offsets/ folder with "
            "the broker's offsets.",
            slug="checkpoint-elsewhere",
        )
    for connector in broker_connectors.read_by(definition, query, raises=True):
        mine = {topic: parts for topic, parts in read.items() if connector.covers(topic)}
        if not mine:
            continue
        with BrokerClient(connector) as broker:
            known = broker.topics()
            there = {t: [p for p in parts if p in known.get(t, ())] for t, parts in mine.items()}
            ends = broker.ends(there)
        for topic, partitions in mine.items():
            read.pop(topic, None)  # only the first connector that covers a topic counts
            for partition, first in partitions.items():
                end = ends.get((topic, partition))
                gap = Gap(query.name, topic, partition, first, None, checkpoint=place)
                if end is None:
                    named = connector.pattern is None and topic not in known
                    yield replace(gap, is_named=named)
                elif end.low > first or first > end.high:
                    yield replace(gap, low=end.low, high=end.high)
