"""Reads new progress events of all runs for an exporter. Each exporter has its own reader, since
one target may be down while another is up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.model.events import Event, EventKind
from headrace.model.runs import RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders
from headrace.state.event_file import EventFile, parse_line

BYTES_PER_READ = 4 * 1024 * 1024  # of one run
_PROGRESSED = frozenset({EventKind.PROGRESSED})


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """A progress event as its line, which takes less memory than the parsed event: thousands may
    wait. `begin` is its position in the run's file."""

    spec: RunSpec
    begin: int
    line: bytes

    def record(self) -> tuple[str, dict[str, Any]]:
        """Key and body of the exported record; documented in docs/guides/kafka.md."""
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


class EventReader:
    """Owns a position in every events file. `positions` were stored by an earlier reader; without
    any, runs that are over are not exported."""

    def __init__(self, places: StatePaths, positions: Mapping[str, int] | None) -> None:
        self._places = places
        self._specs: dict[str, RunSpec | None] = {}
        if positions is None:
            over = (run for run in run_folders.runs(places) if run_folders.is_over(places, run))
            positions = {run: _size(places.events(run)) for run in over}
        self._files = {run: EventFile(places.events(run), at) for run, at in positions.items()}

    @property
    def positions(self) -> dict[str, int]:
        return {run: file.position for run, file in self._files.items()}

    def read(self) -> list[ReadEvent]:
        """New progress events, some of each run."""
        runs = run_folders.runs(self._places)
        # Also stored positions: runs may have been deleted since.
        for gone in (self._specs.keys() | self._files.keys()) - set(runs):
            self._specs.pop(gone, None)
            self._files.pop(gone, None)
        return [event for run in sorted(runs) for event in self._read_run(run)]

    def _read_run(self, run: str) -> Iterator[ReadEvent]:
        if self._specs.get(run) is None:
            self._specs[run] = run_folders.spec_of(self._places, run)
        spec = self._specs[run]
        if spec is None:
            return
        file = self._files.setdefault(run, EventFile(self._places.events(run)))
        for begin, line in file.lines(BYTES_PER_READ):
            if _is_progress(line):
                yield ReadEvent(spec, begin, line)


def _is_progress(line: bytes) -> bool:
    try:
        return parse_line(line, _PROGRESSED) is not None
    except (ValueError, TypeError, RecursionError):
        return False  # torn; the supervisor has logged it


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
