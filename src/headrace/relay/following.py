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
    """A progress event as its line, and where in its run's file that begins. Thousands may wait:
    read out, each would take several times the room."""

    spec: RunSpec
    begin: int
    line: bytes

    def record(self) -> tuple[str, dict[str, Any]]:
        """Key and body for programs elsewhere; described in docs/guides/kafka.md."""
        event = Event.from_line(self.line.decode())
        body = {
            "pipeline": self.spec.pipeline,
            "query": event.query,
            "run": self.spec.run,
            "version": self.spec.version,
            "profile": self.spec.profile,
            "at": event.at,
            "progress": event.data.get("progress"),
            "fresh": event.data.get("fresh"),
        }
        return f"{self.spec.pipeline}/{event.query}", body


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
        # Also positions of an earlier life: runs are deleted while nobody reads.
        for gone in (self._specs.keys() | self.positions.keys()) - set(runs):
            self._specs.pop(gone, None)
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
            if _PROGRESSED in line and _is_event(line):
                yield Told(spec, begin, line)
            begin += len(line)


def _is_event(line: bytes) -> bool:
    try:
        Event.from_line(line.decode())
    except (ValueError, TypeError, RecursionError):
        return False  # torn; the supervisor has said so
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
