"""Runs the page and the relay as processes next to the pipelines, and restarts them.

Their failures do not affect pipelines. They end with the supervisor, even after a SIGKILL, because
they hold the other end of a pipe.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from headrace import config, logs
from headrace.config import Settings
from headrace.connectors import kinds
from headrace.errors import Error
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.state import alert_topic_status, definitions, desired
from headrace.supervisor.process import PYTHON, Companion, last_line

logger = logging.getLogger(__name__)

DELAY_S_MIN, DELAY_S_MAX = 1.0, 60.0
WELL_AFTER_S = 60.0  # after this time, the restart delay is reset
WANTED_S = 2.0  # how often to check whether one is wanted
LOG_BYTES = 4 * 1024 * 1024
TIDY_S = 60.0  # how often to shorten its log
EXPORTERS = ("kafka", "prometheus", "statsd", "otlp")  # the rest of [metrics] is for drivers

Start = Callable[[list[str], Path, Path], Companion]


def create_sidecars(settings: Settings, places: StatePaths) -> tuple[Sidecar, Sidecar]:
    """The page, if it is enabled, and the relay, if a channel is set, metrics are exported, a rule
    has SQL, or a deployed pipeline uses a broker."""
    page = Sidecar(
        "the page's process", "headrace.web.main", settings, places.web_log,
        lambda: settings.web.enabled,
    )  # fmt: skip
    current = LiveSettings(settings)
    relay = Sidecar(
        "the relay", "headrace.relay.main", settings, places.relay_log,
        lambda: _has_exporter(current.read())
        or bool(current.read().notify)
        or current.read().has_sql_rules
        or bool(alert_topic_status.read(places))  # the relay must clear them
        or any(_reads_a_broker(places, wanted) for wanted in desired.read_all(places)),
    )  # fmt: skip
    return page, relay


def _has_exporter(settings: Settings) -> bool:
    return any(settings.metrics.get(name) is not None for name in EXPORTERS)


def _reads_a_broker(places: StatePaths, wanted: Desired) -> bool:
    definition = definitions.read(places, wanted.version, wanted.profile, wanted.pipeline)
    nodes = definition.nodes if definition else ()
    return any(kinds.has_topics((node.connector or {}).get("kind")) for node in nodes)


class LiveSettings:
    """The current settings in the file, or the previous ones while the file is invalid."""

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
        stats = path.stat()
    except OSError:
        return 0, 0
    return stats.st_mtime_ns, stats.st_size


class Sidecar:
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
            self._schedule_restart(self._child.code, now)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_S
            logs.keep_short(self._log, LOG_BYTES)
        if self._child is not None or now < self._due_at:
            return
        if not self._is_wanted():
            self._due_at = now + WANTED_S
        else:
            self._started_at = now
            # If the start itself fails, do not retry in every tick.
            self._due_at = now + self._delay_s
            self._child = self._start(self._command, self._project, self._log)

    def _schedule_restart(self, code: int, now: float) -> None:
        is_well = now - self._started_at >= WELL_AFTER_S
        self._delay_s = DELAY_S_MIN if is_well else min(DELAY_S_MAX, 2 * self._delay_s)
        self._due_at = now + self._delay_s
        self._child = None
        text = "%s exited (code %s: %s); restarting in %.0f s"
        logger.warning(text, self._name, code, last_line(self._log) or "no output", self._delay_s)

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
