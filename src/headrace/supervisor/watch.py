"""Reading along: the events file of a live run, line by line, as it grows.

Owned by `live.py`, one for each live run. Invariant: bounded work a tick, and a line counts only
when it is whole; what the driver is still writing waits for its end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from headrace.model.events import Event
from headrace.model.runview import RunView, fold
from headrace.model.series import Series

logger = logging.getLogger(__name__)

BYTES_PER_READ = 256 * 1024
LINE_MAX = 16 * 1024 * 1024  # longer than that it is no line of ours


class Watch:
    """Follows one events file by byte offset and folds what it reads into `view`."""

    def __init__(self, path: Path, past: Mapping[str, Series] = MappingProxyType({})) -> None:
        self.path = path
        self.offset = 0
        self.view = RunView(past=past)
        self.is_at_end = False  # of what was written when it last looked
        self._rest = b""
        self._bad = 0

    def read(self, now: float) -> list[Event]:
        """Events that are new since the last call, at most about BYTES_PER_READ of them."""
        chunk = self._next_bytes()
        self.is_at_end = len(chunk) < BYTES_PER_READ
        if not chunk:
            return []
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_MAX:
            self._rest = b""
        events = []
        for line in lines:
            event = self._event(line)
            if event is not None:
                self.view = fold(self.view, event, now)
                events.append(event)
        return events

    def _next_bytes(self) -> bytes:
        try:
            if os.stat(self.path).st_size <= self.offset:
                return b""
            with self.path.open("rb") as file:
                file.seek(self.offset)
                chunk = file.read(BYTES_PER_READ)
        except OSError:
            return b""  # not there yet, or not readable now: the watchdog has the last word
        self.offset += len(chunk)
        return chunk

    def _event(self, line: bytes) -> Event | None:
        if not line.strip():
            return None
        try:
            return Event.from_line(line.decode())
        except (ValueError, TypeError, RecursionError) as exc:
            self._bad += 1
            if self._bad == 1:
                logger.warning("%s has a line that is no event: %s", self.path, exc)
            return None
