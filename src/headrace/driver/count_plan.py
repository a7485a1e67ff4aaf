"""Decides once what to count for each query: its lookups, and the records that it parses.

Called by `build` for a pipeline and by `script` for each query it starts.
Invariant: a source is sampled for one query only, and never for a real-time query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.define.graph import ASIDE
from headrace.driver import lookup_metrics, parse_points
from headrace.driver.frames import Frames
from headrace.driver.lookup_metrics import Lookup
from headrace.driver.parse_points import ParsePoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CountPlan:
    parsed: tuple[ParsePoint, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    def describe(self) -> dict[str, dict[str, str]]:
        """Where each is defined and what it reads, for the text of a finding."""
        parsed = {
            f"parsed.{point.name}": {
                "call": point.call,
                "place": point.place,
                "source": point.sender,
                "sample": "before a filter" if point.is_filtered else "all",
            }
            for point in self.parsed
        }
        return parsed | {f"lookup.{join.name}": {"place": join.place} for join in self.lookups}


NOTHING = CountPlan()


def plan_pipeline_counts(work: Frames, frames: Mapping[str, DataFrame]) -> dict[str, CountPlan]:
    """`frames` are the queries to count. A source that two of them read counts for the first."""
    try:
        return dict(_plan_each_query(work, frames))
    except Exception as exc:  # a boundary: a pipeline must run whatever its plans look like
        logger.info("could not count fields and lookups: %s", exc)
        return {}


def _plan_each_query(
    work: Frames, frames: Mapping[str, DataFrame]
) -> Iterator[tuple[str, CountPlan]]:
    tables = [name for name in work.frames if work.nodes[name].kind == "table"]
    names = lookup_metrics.names(
        [(name, work.nodes[name].place, work.frames[name]) for name in tables]
    )
    folders = {
        files.identity(): (name, work.nodes[name].place)
        for name, connector in work.connectors.items()
        if (files := connector.as_files())
    }
    taken: set[str] = set()
    for name, frame in frames.items():
        place = work.nodes[name].place
        points = [*_find_parse_points(work, name), *parse_points.by_source(frame, folders, place)]
        own = tuple(point for point in points if point.name not in taken)
        taken |= {point.name for point in own}
        joined = () if f".{ASIDE}" in name else lookup_metrics.find(frame, names, place)
        yield name, CountPlan(own, joined)


def plan_script_counts(frame: DataFrame, place: str) -> CountPlan:
    try:
        return CountPlan(
            parse_points.by_source(frame, {}, place), lookup_metrics.find(frame, {}, place)
        )
    except Exception as exc:  # a boundary: a script must run whatever its plan looks like
        logger.info("could not count fields and lookups in the query at %s: %s", place, exc)
        return NOTHING


def _find_parse_points(work: Frames, query: str) -> Iterator[ParsePoint]:
    """The `parse_json` calls of a query and of its views."""
    # A hidden query counts as the definition that it belongs to.
    for name in work.with_views(query.partition(f".{ASIDE}")[0]):
        notes = work.notes[name].opened if name in work.notes else []
        for number, note in enumerate(notes, start=1):
            point = parse_points.by_parse_json(
                name if number == 1 else f"{name}.{number}",
                work.nodes[name].place,
                note,
                work.sources_of(name).values(),
            )
            if point is not None:
                yield point
