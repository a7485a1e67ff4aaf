"""Records that are gone from a broker before a query has read them: how many, and of which
partition. From the query's checkpoint against the broker's own answer.

Asks the network, so only the command line calls it, when a person asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.checkpoints import positions
from headrace.connectors.kafkabroker import Broker
from headrace.errors import SetupError
from headrace.model.gaps import Gap
from headrace.model.pipeline import Definition, Node, Query
from headrace.project import definitions, topics
from headrace.project.workspace import Workspace
from headrace.state import desired


def of_pipeline(work: Workspace, pipeline: str) -> list[Gap]:
    """Raises what keeps the broker from answering."""
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        return []
    if wanted.script:
        raise SetupError(
            f"What is gone from the sources of {pipeline} is not known: it is a script.",
            why="A script's sources and their options are its own.",
            where=wanted.file,
            fix='for one run, in the script: .option("failOnDataLoss", "false") at the source',
            slug="gap-of-script",
        )
    found = definitions.stored(work, wanted.version, wanted.profile, pipeline)
    if own := [one for one in found.nodes if _is_own(one)] if found else []:
        names = ", ".join(one.name for one in own)
        raise SetupError(
            f"Headrace cannot leave out records of {names}: a function reads it itself.",
            why="Only a source that is declared can be read without what is gone.",
            where=own[0].place,
            fix="declare it in headrace.toml, or return the connector itself from an @hr.source; "
            "deploy that, then ask again",
            slug="gap-of-own-source",
        )
    return [gap for query in found.queries for gap in _of_query(found, query)] if found else []


def refuse_missing(found: Sequence[Gap]) -> None:
    """A topic that a source names has to be there: no run could go on without it."""
    if missing := sorted({gap.topic for gap in found if gap.is_named}):
        raise SetupError(
            f"There is no topic {', '.join(missing)} to go on with.",
            why="The source reads it by name; without it every start fails.",
            fix="Create it and ask again, or take it out of the source and deploy: headrace up.",
            slug="topic-missing",
        )


def _is_own(node: Node) -> bool:
    """A broker's topics that a function of the user reads itself."""
    return not node.is_declared and (node.connector or {}).get("kind") in topics.KINDS


def _of_query(definition: Definition, query: Query) -> Iterator[Gap]:
    place = query.checkpoint or ""
    read = positions.of(place) if place else {}
    if read is None:
        raise SetupError(
            f"What {query.name} has read is not known: its checkpoint is not on this machine.",
            where=place,
            fix="compare its newest file in offsets/ with the broker by hand",
            slug="checkpoint-elsewhere",
        )
    for connector in topics.read_by(definition, query, raises=True):
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
                gap = Gap(query.name, topic, partition, first, None, checkpoint=place)
                if end is None:
                    named = connector.pattern is None and topic not in known
                    yield replace(gap, is_named=named)
                elif end.low > first or first > end.high:
                    yield replace(gap, low=end.low, high=end.high)
