"""What is counted of each query, decided once: its lookups, and the records it makes columns of.

Called by `build` for a pipeline and by `script` for a query that is being started.
Invariant: a source is sampled for one query only, and none for a real-time query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.files import Files
from headrace.define.graph import ASIDE
from headrace.driver import lookups, parsed
from headrace.driver.frames import Frames
from headrace.driver.lookups import Lookup
from headrace.driver.parsed import Parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Counted:
    parsed: tuple[Parsed, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    def described(self) -> dict[str, dict[str, str]]:
        """For the words of a finding: where each is defined, and what it reads."""
        records = {
            f"parsed.{one.name}": {
                "call": one.call,
                "place": one.place,
                "source": one.sender,
                "sample": "before a filter" if one.is_filtered else "all",
            }
            for one in self.parsed
        }
        return records | {f"lookup.{one.name}": {"place": one.place} for one in self.lookups}


NOTHING = Counted()


def of_pipeline(work: Frames, frames: Mapping[str, DataFrame]) -> dict[str, Counted]:
    """`frames` are those of its queries that are not real-time; what two of them read is counted
    for the first."""
    try:
        return dict(_of_each(work, frames))
    except Exception as exc:  # a border: a pipeline must run whatever its plans look like
        logger.info("nothing is counted beside Spark's progress: %s", exc)
        return {}


def _of_each(work: Frames, frames: Mapping[str, DataFrame]) -> Iterator[tuple[str, Counted]]:
    tables = [name for name in work.frames if work.nodes[name].kind == "table"]
    names = lookups.names([(one, work.nodes[one].place, work.frames[one]) for one in tables])
    folders = {
        one.identity(): (name, work.nodes[name].place)
        for name, one in work.connectors.items()
        if isinstance(one, Files)
    }
    told: set[str] = set()
    for name, frame in frames.items():
        place = work.nodes[name].place
        records = [*_parsed(work, name), *parsed.by_source(frame, folders, place)]
        mine = tuple(one for one in records if one.name not in told)
        told |= {one.name for one in mine}
        joined = () if f".{ASIDE}" in name else lookups.find(frame, names, place)
        yield name, Counted(mine, joined)


def of_script(frame: DataFrame, place: str) -> Counted:
    try:
        return Counted(parsed.by_source(frame, {}, place), lookups.find(frame, {}, place))
    except Exception as exc:  # a border: a script must run whatever its plan looks like
        logger.info("nothing is counted of the query at %s: %s", place, exc)
        return NOTHING


def _parsed(work: Frames, query: str) -> Iterator[Parsed]:
    """What `parse_json` opens in a query and in the views below it."""
    for name in _built_of(work, query):
        opened = work.notes[name].opened if name in work.notes else []
        for number, one in enumerate(opened, start=1):
            made = parsed.by_parse_json(
                name if number == 1 else f"{name}.{number}",
                work.nodes[name].place,
                one,
                work.sources_of(name).values(),
            )
            if made is not None:
                yield made


def _built_of(work: Frames, name: str) -> list[str]:
    """The query and all views below it; of a hidden query the definition that it belongs to."""
    found = [name.partition(f".{ASIDE}")[0]]
    for below in work.inputs.get(name, ()):
        found += _built_of(work, below) if work.nodes[below].kind == "view" else []
    return found
