"""Reads along in the events of all runs, for who exports progress: each exporter has a Following of
its own, since one may be down while another is not.

Invariant: bounded work a call, and a line counts only when it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.model.events import Event
from headrace.model.places import Places
from headrace.model.runs import RunSpec
from headrace.state import folders

BYTES_PER_READ = 4 * 1024 * 1024  # of one run; a line that is longer is no line of ours
_PROGRESSED = b'"event":"progressed"'


@dataclass(frozen=True, slots=True)
class Told:
    """A progress event, and where in its run's file it begins."""

    spec: RunSpec
    begin: int
    size: int
    event: Event

    @property
    def key(self) -> str:
        return f"{self.spec.pipeline}/{self.event.query}"

    def body(self) -> dict[str, Any]:
        """For programs elsewhere; described in docs/guides/kafka.md."""
        return {
            "pipeline": self.spec.pipeline,
            "query": self.event.query,
            "run": self.spec.run,
            "version": self.spec.version,
            "profile": self.spec.profile,
            "at": self.event.at,
            "progress": self.event.data.get("progress"),
            "fresh": self.event.data.get("fresh"),
        }


class Following:
    """Owns a position in every events file. `positions` are those of an earlier life; None: there
    was none, then runs that are over are not told again."""

    def __init__(self, places: Places, positions: Mapping[str, int] | None) -> None:
        self._places = places
        self._specs: dict[str, RunSpec | None] = {}
        self.positions = dict(positions or {})
        if positions is None:
            for run in folders.runs(places):
                if folders.is_over(places, run):
                    self.positions[run] = _size(places.events(run))

    def read(self) -> list[Told]:
        """Progress events that are new since the last call, some of each run."""
        runs = folders.runs(self._places)
        for gone in self._specs.keys() - set(runs):
            del self._specs[gone]
            self.positions.pop(gone, None)
        return [told for run in sorted(runs) for told in self._of_run(run)]

    def _of_run(self, run: str) -> Iterator[Told]:
        if self._specs.get(run) is None:
            self._specs[run] = folders.spec_of(self._places, run)
        spec, begin = self._specs[run], self.positions.get(run, 0)
        if spec is None:
            return
        try:
            with self._places.events(run).open("rb") as file:
                file.seek(begin)
                content = file.read(BYTES_PER_READ)
        except OSError:
            return  # not there yet, or already removed with its run
        whole = content.rfind(b"\n") + 1
        if not whole and len(content) == BYTES_PER_READ:
            whole = len(content)
        self.positions[run] = begin + whole
        for line in content[:whole].splitlines(keepends=True):
            if _PROGRESSED in line and (event := _event(line)) is not None:
                yield Told(spec, begin, len(line), event)
            begin += len(line)


def _event(line: bytes) -> Event | None:
    try:
        return Event.from_line(line.decode())
    except (ValueError, TypeError, RecursionError):
        return None  # torn; the supervisor has said so


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
