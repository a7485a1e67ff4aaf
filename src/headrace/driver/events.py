"""Writes the run's events file, one line per event. `state/event_file.py` reads it.

Invariant: writing an event never raises and never blocks a query. A full disk or a full file costs
lines, which are counted and reported in the next line that fits.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.model.events import Event, EventKind

SIZE_MAX = 256 * 1024 * 1024
KEEP_ONE_IN = 20  # of the lines below, once the file is full
THINNED_KINDS = frozenset({EventKind.PROGRESSED, EventKind.IDLED})
HEARTBEAT_S = 20.0  # a full file still gets samples: without any the driver counts as dead


class EventsFile:
    """Owns the descriptor. Threads share it: a line is one `write`, under a lock."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.time, size_max: int = SIZE_MAX
    ) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._fd).st_size
        self._size_max = size_max
        self._clock = clock
        self._lock = threading.Lock()
        self._seen_when_full = 0
        self._skipped = 0
        self._sampled_at = -HEARTBEAT_S

    def tell(
        self, kind: EventKind, query: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        event = Event(at=self._clock(), kind=kind, query=query, data=data or {})
        with self._lock:
            if self._is_left_out(kind):
                self._skipped += 1
                return
            if self._skipped and self._write(
                Event(at=event.at, kind=EventKind.THINNED, data={"skipped": self._skipped})
            ):
                self._skipped = 0
            if not self._write(event):
                self._skipped += 1
            if kind is EventKind.SAMPLED:
                self._sampled_at = time.monotonic()

    def sync(self) -> None:
        os.fsync(self._fd)

    def _is_left_out(self, kind: EventKind) -> bool:
        if self._size < self._size_max:
            return False
        if kind is EventKind.SAMPLED:
            return time.monotonic() - self._sampled_at < HEARTBEAT_S
        if kind not in THINNED_KINDS:
            return False
        self._seen_when_full += 1
        return self._seen_when_full % KEEP_ONE_IN != 0

    def _write(self, event: Event) -> bool:
        line = (event.to_line() + "\n").encode()
        try:
            written = os.write(self._fd, line)
            if written < len(line):  # the disk is full: end the line for the reader
                os.write(self._fd, b"\n")
        except OSError:
            return False
        self._size += written
        return written == len(line)
