"""Keeps a process beside the pipelines, the page's or the relay's: starts it, starts it again when
it ends, ends it with the supervisor.

Whatever becomes of it, no pipeline notices. It ends with us, also if we are killed, since it holds
the other end of a pipe.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from headrace import config, logs
from headrace.config import Settings
from headrace.errors import Error, StoreError
from headrace.jsonfile import read_json
from headrace.model.places import Places
from headrace.model.runs import Desired
from headrace.state import alerttopics, desired
from headrace.supervisor.process import PYTHON, Companion, tail_of

logger = logging.getLogger(__name__)

DELAY_S_MIN, DELAY_S_MAX = 1.0, 60.0
WELL_AFTER_S = 60.0  # lived that long, the next start is quick again
WANTED_S = 2.0  # how often it is looked whether one is wanted
LOG_BYTES = 4 * 1024 * 1024
TIDY_S = 60.0  # how often its log is kept short
BROKERS = ("kafka", "event_hubs")

Start = Callable[[list[str], Path, Path], Companion]


def both(settings: Settings, places: Places) -> tuple[Attendant, Attendant]:
    """The page's, if it is switched on, and the relay's, once something is deployed that reads a
    broker, or anything if progress is to be exported."""
    page = Attendant(
        "the page's process", "headrace.web.main", settings, places.web_log,
        lambda: settings.web.enabled,
    )  # fmt: skip
    current = Current(settings)
    relay = Attendant(
        "the relay", "headrace.relay.main", settings, places.relay_log,
        lambda: bool(alerttopics.read(places))  # else what is said there would stay for good
        or any(
            current.read().metrics or _reads_a_broker(places, one)
            for one in desired.listed(places)
        ),
    )  # fmt: skip
    return page, relay


def tick_all(kept: Iterable[Attendant], now: float) -> None:
    for one in kept:
        one.tick(now)


def end_all(kept: Iterable[Attendant]) -> None:
    for one in kept:
        one.end()


def _reads_a_broker(places: Places, wanted: Desired) -> bool:
    with contextlib.suppress(StoreError):
        body = read_json(places.definition(wanted.version, wanted.profile, wanted.pipeline)) or {}
        used = [node.get("connector") or {} for node in body.get("nodes", [])]
        return any(one.get("kind") in BROKERS for one in used)
    return False


class Current:
    """The settings as the file has them now; those of before while it is wrong."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stamp: tuple[int, int] | None = None

    def read(self) -> Settings:
        project, profile = self._settings.project, self._settings.profile
        stamp = _stamp(project / config.FILE)
        if stamp != self._stamp:
            self._stamp = stamp
            with contextlib.suppress(Error):
                self._settings = config.load(project, profile)
        return self._settings


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


class Attendant:
    """Owns the process, while it is wanted. `name` is for people."""

    def __init__(
        self,
        name: str,
        module: str,
        settings: Settings,
        log: Path,
        is_wanted: Callable[[], bool],
        start: Start = Companion,
    ) -> None:
        self._name = name
        self._command = [*PYTHON, module, str(settings.project), "--profile", settings.profile]
        self._is_wanted = is_wanted
        self._project = settings.project
        self._log = log
        self._start = start
        self._child: Companion | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._tidy_at = 0.0
        self._delay_s = DELAY_S_MIN

    def tick(self, now: float) -> None:
        if self._child is not None and self._child.code is not None:
            self._gone(self._child.code, now)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_S
            logs.keep_short(self._log, LOG_BYTES)
        if self._child is not None or now < self._due_at:
            return
        if not self._is_wanted():
            self._due_at = now + WANTED_S
        else:
            self._started_at = now
            # Should the start itself fail, it is not tried in every tick.
            self._due_at = now + self._delay_s
            self._child = self._start(self._command, self._project, self._log)

    def _gone(self, code: int, now: float) -> None:
        is_well = now - self._started_at >= WELL_AFTER_S
        self._delay_s = DELAY_S_MIN if is_well else min(DELAY_S_MAX, 2 * self._delay_s)
        self._due_at = now + self._delay_s
        self._child = None
        said = tail_of(self._log).strip().splitlines()
        words = said[-1] if said else "it left no words"
        logger.warning(
            "%s ended (code %s: %s); it starts again in %.0f s",
            self._name,
            code,
            words,
            self._delay_s,
        )

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
