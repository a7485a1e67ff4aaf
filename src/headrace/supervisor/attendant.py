"""Keeps the page's process: starts it, starts it again when it ends, ends it with the supervisor.

The page is a convenience: whatever becomes of it, no pipeline notices. Its process ends with ours,
also if we are killed, since it holds the other end of a pipe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from headrace import logs
from headrace.config import Settings
from headrace.model.places import Places
from headrace.supervisor.process import PYTHON, Companion, tail_of

logger = logging.getLogger(__name__)

DELAY_S_MIN, DELAY_S_MAX = 1.0, 60.0
WELL_AFTER_S = 60.0  # lived that long, the next start is quick again
LOG_BYTES = 4 * 1024 * 1024

Start = Callable[[list[str], Path, Path], Companion]


class Attendant:
    """Owns the process, if the settings want one."""

    def __init__(self, settings: Settings, places: Places, start: Start = Companion) -> None:
        module = [*PYTHON, "headrace.web.main"]
        self._command = [*module, str(settings.project), "--profile", settings.profile]
        self._is_wanted = settings.web.enabled
        self._project = settings.project
        self._places = places
        self._start = start
        self._child: Companion | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._delay_s = DELAY_S_MIN

    def tick(self, now: float) -> None:
        if not self._is_wanted:
            return
        if self._child is not None and self._child.code is not None:
            self._gone(self._child.code, now)
        if self._child is None and now >= self._due_at:
            logs.keep_short(self._places.web_log, LOG_BYTES)
            self._started_at = now
            # Should the start itself fail, it is not tried in every tick.
            self._due_at = now + self._delay_s
            self._child = self._start(self._command, self._project, self._places.web_log)

    def _gone(self, code: int, now: float) -> None:
        is_well = now - self._started_at >= WELL_AFTER_S
        self._delay_s = DELAY_S_MIN if is_well else min(DELAY_S_MAX, 2 * self._delay_s)
        self._due_at = now + self._delay_s
        self._child = None
        said = tail_of(self._places.web_log).strip().splitlines()
        words = said[-1] if said else "it left no words"
        logger.warning(
            "the page's process ended (code %s: %s); it starts again in %.0f s",
            code,
            words,
            self._delay_s,
        )

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
