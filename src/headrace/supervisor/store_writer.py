"""Writes the supervisor's records to the store.

Invariant: no method raises. A store that is locked, full or broken loses history (and, if locked,
causes delays of seconds), but never affects a pipeline. Alerts are retried until they are written.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from headrace.errors import StoreError
from headrace.model.alerts import AlertRow, OpenAlert
from headrace.model.events import Event
from headrace.model.notices import NoticeKind
from headrace.model.requests import Request
from headrace.model.runs import Exit, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.model.status import PipelineStatus
from headrace.store import (
    alert_changes,
    alerts,
    audit,
    db,
    events,
    pipeline_status,
    progress,
    retention,
    runs,
)
from headrace.store.alert_changes import AlertChange

logger = logging.getLogger(__name__)

T = TypeVar("T")
Worked = Callable[[str, str], float | None]  # pipeline, query -> until when it has worked

REOPEN_S = 15.0  # each attempt to open a locked file takes seconds
CHANGES_AT_ONCE = 10_000
CHANGES_NAMED = 20  # per pipeline; further ones are counted
STORE_ALERT = "store:history.db"
_EVENT_KINDS = {
    NoticeKind.TRIGGER: "alert_opened",
    NoticeKind.ACKNOWLEDGE: "alert_acknowledged",
    NoticeKind.RESOLVE: "alert_resolved",
}


class StoreWriter:
    """Owns the connections to history.db and alerts.db."""

    def __init__(self, places: StatePaths) -> None:
        self._files = {
            "history": _File("history.db", lambda: db.open_history(places.history)),
            "alerts": _File("alerts.db", lambda: db.open_alerts(places.alerts)),
        }
        self._open_rules: Mapping[str, str] | None = None
        self._rules_of = 0
        self._has_alert = False

    @property
    def times_opened(self) -> int:
        """Increases when history.db is recreated: the status must be written again."""
        return self._files["history"].times_opened

    def record_run_start(self, spec: RunSpec, now: float) -> None:
        self._write(now, lambda conn: runs.record_start(conn, spec))

    def record_run_end(self, run: str, exit_: Exit, now: float) -> None:
        self._write(now, lambda conn: runs.record_end(conn, run, exit_, exit_.at))

    def record_progress(self, pipeline: str, run: str, heard: Sequence[Event], now: float) -> None:
        batches = [event for event in heard if event.progress is not None and event.query]
        if not batches:
            return

        def write(conn: db.Store) -> None:
            with db.transaction(conn):
                for event in batches:
                    if event.query and event.progress:
                        about = (pipeline, run, event.query, event.at)
                        more = (event.data.get("fresh"), event.data.get("counts"))
                        progress.add(conn, *about, event.progress, *more)

        self._write(now, write)

    def event(
        self, at: float, pipeline: str, run: str | None, kind: str, text: str, now: float
    ) -> None:
        self._write(now, lambda conn: events.add(conn, at, pipeline, run, kind, text, {}))

    def record_alert_changes(self, now: float) -> None:
        """Records new changes of alerts as events."""
        read = partial(alert_changes.read, reader=alert_changes.EVENTS, most=CHANGES_AT_ONCE)
        changes = self._files["alerts"].use(now, read) or []
        for pipeline, kind, title, at in summarize(changes):
            logger.info("%s: %s", kind, title, extra={"pipeline": pipeline})
            self.event(at, pipeline, None, kind, title, now)
        if changes:
            pass_ = partial(alert_changes.advance, reader=alert_changes.EVENTS, last=changes[-1].id)
            self._files["alerts"].use(now, pass_)

    def status(self, status: PipelineStatus, now: float) -> bool:
        return self._write(now, lambda conn: pipeline_status.put(conn, status))

    def record_request(self, request: Request, text: str, now: float) -> None:
        self._write(now, lambda conn: audit.add(conn, request, text))

    def open_rules(self, now: float) -> Mapping[str, str] | None:
        """The severity of each open alert of rules, by key, cached between ticks: the same object
        until one changes. None if it cannot be read and is not known."""
        file = self._files["alerts"]
        if self._open_rules is None or self._rules_of != file.times_opened:
            found = file.use(now, alerts.open_rules)
            if found is not None:
                self._open_rules, self._rules_of = found, file.times_opened
        return self._open_rules

    def open_keys(self, now: float) -> frozenset[str]:
        return frozenset(self.open_rules(now) or ())

    def open_alert(self, alert: OpenAlert, at: float, now: float) -> bool:
        """True if it is in the store; otherwise the caller tries again."""
        done = self._files["alerts"].use(now, lambda conn: alerts.open_once(conn, alert, at))
        if done is not None and self._open_rules is not None:
            self._open_rules = {**self._open_rules, alert.key: alert.severity}
        return done is not None

    def resolve_alert(self, key: str, at: float, now: float) -> bool:
        done = self._files["alerts"].use(now, lambda conn: alerts.resolve(conn, key, at))
        if done is not None and self._open_rules is not None:
            self._open_rules = {k: v for k, v in self._open_rules.items() if k != key}
        return done is not None

    def take_rows(
        self, pipeline: str, query: str, rows: Sequence[AlertRow], at: float, now: float
    ) -> bool:
        """False if alerts.db is unavailable: the caller tries again."""
        write = partial(alerts.take, pipeline=pipeline, query=query, rows=rows, at=at)
        return self._files["alerts"].use(now, write) is not None

    def resolve_due(self, worked_until: Worked, at: float, now: float) -> None:
        """Resolves alerts whose timeout has passed and whose query has worked until then."""

        def write(conn: db.Store) -> int:
            worked = [
                (*name, until)
                for name, since in alerts.due(conn, at).items()
                if (until := worked_until(*name)) and until >= since
            ]
            return alerts.resolve_due(conn, worked, at) if worked else 0

        self._files["alerts"].use(now, write)

    def use_alerts(
        self, action: Callable[[db.Store], T], now: float
    ) -> tuple[T | None, str | None]:
        """The result of an action on alerts.db, or None and why it is unavailable."""
        file = self._files["alerts"]
        return file.use(now, action), file.problem

    def prune(self, at: float, now: float) -> None:
        self._write(now, lambda conn: retention.prune(conn, at))
        self._files["alerts"].use(now, lambda conn: retention.prune_alerts(conn, at))

    def report_problem(self, at: float, now: float) -> None:
        """Keeps one alert open while history cannot be written."""
        problem = self._files["history"].problem
        if problem and not self._has_alert:
            title = f"The history cannot be written: {problem}"
            alert = OpenAlert(STORE_ALERT, "store", "", title)
            self._has_alert = self.open_alert(alert, at, now)
        elif not problem and (self._has_alert or STORE_ALERT in self.open_keys(now)):
            self._has_alert = not self.resolve_alert(STORE_ALERT, at, now)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _write(self, now: float, write: Callable[[db.Store], object]) -> bool:
        return self._files["history"].use(now, lambda conn: (write(conn), True)) is not None


class _File:
    """One database file: opened when needed, closed on errors, retried after a delay."""

    def __init__(self, name: str, open_: Callable[[], db.Store]) -> None:
        self.name = name
        self.problem: str | None = None
        self._open = open_
        self._conn: db.Store | None = None
        self.times_opened = 0
        self._retry_at = 0.0
        self._checked_at = 0.0

    def use(self, now: float, action: Callable[[db.Store], T]) -> T | None:
        """The result of the action, or None if the store is unavailable."""
        if self._conn is None and now < self._retry_at:
            return None
        try:
            conn = self._connection(now)
            result = action(conn)
        except StoreError as exc:
            if self.problem is None:
                text = "%s: %s Pipelines are not affected; retrying"
                logger.error(text, self.name, exc.what)
            self.problem = exc.what
            self._retry_at = now + REOPEN_S
            self.close()
            return None
        if self.problem is not None:
            logger.info("%s can be written again", self.name)
            self.problem = None
        return result

    def _connection(self, now: float) -> db.Store:
        if self._conn is not None and now >= self._checked_at + REOPEN_S:
            self._checked_at = now
            if not db.is_in_place(self._conn):
                logger.warning("%s was removed; recreating it", self.name)
                self.close()
        if self._conn is None:
            self._conn = self._open()
            self.times_opened += 1
            if self._conn.note:
                logger.warning("%s", self._conn.note)
        return self._conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def summarize(changes: Sequence[AlertChange]) -> list[tuple[str, str, str, float]]:
    """(pipeline, kind, title, at) of the first changes of each pipeline, and of one that counts
    the others. Pure."""
    seen: Counter[str] = Counter()
    more: Counter[tuple[str, str]] = Counter()
    events_ = []
    for change in changes:
        pipeline = change.alert.pipeline
        kind = "alert_worsened" if change.is_escalation else _EVENT_KINDS[change.kind]
        seen[pipeline] += 1
        if seen[pipeline] <= CHANGES_NAMED:
            events_.append((pipeline, kind, change.title, change.at))
        else:
            more[pipeline, kind] += 1
    for (pipeline, kind), count in more.items():
        events_.append((pipeline, kind, f"{count:,} more", changes[-1].at))
    return events_
