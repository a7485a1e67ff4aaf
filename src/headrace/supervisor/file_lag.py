"""Measures the unread files of queries, for rules that have a limit for them.

In a thread of its own, since a folder may be large or its disk slow. Invariant: at most one thread,
and none unless a rule needs the numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from headrace.checkpoints import waiting_files
from headrace.config import local_path

EVERY_S = 15.0

Name = tuple[str, str]  # pipeline, query


class FileLagMonitor:
    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self._found: dict[Name, dict[str, float]] = {}

    def read(self, checkpoints: Mapping[Name, str], now: float) -> Mapping[Name, dict[str, float]]:
        """The newest numbers; starts the next measurement if it is due."""
        if now >= self._due and (self._thread is None or not self._thread.is_alive()):
            self._due = now + EVERY_S
            self._thread = threading.Thread(
                target=self._measure, args=(dict(checkpoints),), name="file lag", daemon=True
            )
            self._thread.start()
        return self._found

    def _measure(self, checkpoints: Mapping[Name, str]) -> None:
        found = {}
        for name, checkpoint in checkpoints.items():
            path = local_path(checkpoint)
            waiting = waiting_files.count(Path(path)) if path is not None else None
            if waiting is not None:
                found[name] = {"lag_files": float(waiting[0]), "lag_bytes": float(waiting[1])}
        self._found = found
