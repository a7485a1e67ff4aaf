"""The supervisor's way to the store: everything is told, nothing depends on it.

Used by `loop.py` and keepers. Invariant: no method raises: a store that is locked, full or broken
costs history (and, locked, some seconds now and then), never a pipeline. An open alert is told
again until it is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from headrace.errors import StoreError
from headrace.model.alerts import AlertRow
from headrace.model.events import Event, Kind
from headrace.model.places import Places
from headrace.model.requests import Request
from headrace.model.runs import Exit, RunSpec
from headrace.model.status import PipelineStatus
from headrace.store import (
    alerts,
    alerttopics,
    audit,
    db,
    events,
    pipelines,
    progress,
    retention,
    runs,
)
from headrace.supervisor.situation import OpenAlert

logger = logging.getLogger(__name__)

T = TypeVar("T")
Worked = Callable[[str, str], float | None]  # pipeline, query -> until when it is known to work
Resolved = tuple[str, alerts.Change]  # with the pipeline

REOPEN_S = 15.0  # a locked file costs a wait of seconds each time it is tried
CHANGES_AT_ONCE = 10_000
STORE_ALERT = "store:history.db"


class History:
    """Owns the connections to history.db and alerts.db."""

    def __init__(self, places: Places) -> None:
        self._files = {
            "history": _File("history.db", lambda: db.open_history(places.history)),
            "alerts": _File("alerts.db", lambda: db.open_alerts(places.alerts)),
        }
        self._open_keys: set[str] | None = None
        self._keys_of = 0
        self._has_told = False

    @property
    def times_opened(self) -> int:
        """Rises when history.db was begun anew: what is there has to be told again."""
        return self._files["history"].times_opened

    def run_started(self, spec: RunSpec, now: float) -> None:
        self._write(now, lambda conn: runs.record_start(conn, spec))

    def run_ended(self, run: str, exit_: Exit, now: float) -> None:
        self._write(now, lambda conn: runs.record_end(conn, run, exit_, exit_.at))

    def progressed(self, pipeline: str, run: str, heard: Sequence[Event], now: float) -> None:
        told = [event for event in heard if event.kind is Kind.PROGRESSED and event.query]
        if not told:
            return

        def write(conn: db.Store) -> None:
            with db.transaction(conn):
                for event in told:
                    said = event.data.get("progress")
                    if isinstance(said, dict):
                        about, fresh = event.query or "", event.data.get("fresh")
                        progress.add(conn, pipeline, run, about, event.at, said, fresh)

        self._write(now, write)

    def event(
        self, at: float, pipeline: str, run: str | None, kind: str, text: str, now: float
    ) -> None:
        self._write(now, lambda conn: events.add(conn, at, pipeline, run, kind, text, {}))

    def status(self, status: PipelineStatus, now: float) -> bool:
        return self._write(now, lambda conn: pipelines.put(conn, status))

    def requested(self, request: Request, text: str, now: float) -> None:
        self._write(now, lambda conn: audit.add(conn, request, text))

    def open_keys(self, now: float) -> frozenset[str]:
        """Keys of the open alerts of rules, remembered between ticks."""
        file = self._files["alerts"]
        if self._open_keys is None or self._keys_of != file.times_opened:
            found = file.use(now, alerts.open_keys_of_rules)
            if found is None:
                return frozenset(self._open_keys or ())
            self._open_keys, self._keys_of = found, file.times_opened
        return frozenset(self._open_keys)

    def open_alert(self, pipeline: str, alert: OpenAlert, at: float, now: float) -> bool:
        """True if it is written, now or before; else it is to be told again."""

        def write(conn: db.Store) -> bool:
            alerts.open_once(
                conn,
                alert.key,
                at,
                pipeline,
                alert.query,
                alert.rule,
                alert.title,
                alert.severity,
                {},
            )
            return True

        done = bool(self._files["alerts"].use(now, write))
        if done and self._open_keys is not None:
            self._open_keys.add(alert.key)
        return done

    def resolve_alert(self, key: str, at: float, now: float) -> bool:
        done = self._files["alerts"].use(now, lambda conn: (alerts.resolve(conn, key, at), True))
        if done is not None and self._open_keys is not None:
            self._open_keys.discard(key)
        return done is not None

    def take_rows(
        self, pipeline: str, query: str, rows: Sequence[AlertRow], at: float, now: float
    ) -> list[alerts.Change] | None:
        """None if alerts.db could not be used: the batch is to be brought again."""
        write = partial(alerts.take, pipeline=pipeline, query=query, rows=rows, at=at)
        return self._files["alerts"].use(now, write)

    def changed_by_topics(self, now: float) -> list[tuple[int, str, float, alerts.Change]]:
        """What rows that came by a topic have changed, as far as nobody was told of it."""
        read = partial(alerttopics.changed, most=CHANGES_AT_ONCE)
        return self._files["alerts"].use(now, read) or []

    def told_of_topics(self, upto: int, now: float) -> None:
        self._files["alerts"].use(now, lambda conn: alerttopics.told(conn, upto))

    def resolve_due(self, worked_until: Worked, at: float, now: float) -> list[Resolved]:
        """Alerts whose time is up and whose query is known to have worked until then."""

        def write(conn: db.Store) -> list[Resolved]:
            found = [
                (*name, worked_until(*name), since) for name, since in alerts.due(conn, at).items()
            ]
            worked = [(p, q, until) for p, q, until, since in found if until and until >= since]
            return alerts.resolve_due(conn, worked, at) if worked else []

        return self._files["alerts"].use(now, write) or []

    def prune(self, at: float, now: float) -> None:
        self._write(now, lambda conn: retention.prune(conn, at))
        self._files["alerts"].use(now, lambda conn: retention.prune_alerts(conn, at))
        self._files["alerts"].use(now, lambda conn: alerts.forget_taken(conn, at))
        self._files["alerts"].use(now, lambda conn: alerttopics.forget(conn, at))

    def tell_of_itself(self, at: float, now: float) -> None:
        """One alert while history cannot be written, resolved when it can."""
        problem = self._files["history"].problem
        if problem and not self._has_told:
            alert = OpenAlert(STORE_ALERT, "store", f"history is not being written: {problem}")
            self._has_told = self.open_alert("", alert, at, now)
        elif not problem and (self._has_told or STORE_ALERT in self.open_keys(now)):
            self._has_told = not self.resolve_alert(STORE_ALERT, at, now)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _write(self, now: float, write: Callable[[db.Store], object]) -> bool:
        return self._files["history"].use(now, lambda conn: (write(conn), True)) is not None


class _File:
    """One database file: opened when needed, closed on any trouble, tried again after a while."""

    def __init__(self, name: str, open_: Callable[[], db.Store]) -> None:
        self.name = name
        self.problem: str | None = None
        self._open = open_
        self._conn: db.Store | None = None
        self.times_opened = 0
        self._retry_at = 0.0
        self._checked_at = 0.0

    def use(self, now: float, action: Callable[[db.Store], T]) -> T | None:
        """The action's answer, or None if the store could not be used."""
        if self._conn is None and now < self._retry_at:
            return None
        try:
            conn = self._connection(now)
            answer = action(conn)
        except StoreError as exc:
            if self.problem is None:
                logger.error("%s: %s; pipelines go on, it is tried again", self.name, exc.what)
            self.problem = exc.what
            self._retry_at = now + REOPEN_S
            self.close()
            return None
        if self.problem is not None:
            logger.info("%s is written again", self.name)
            self.problem = None
        return answer

    def _connection(self, now: float) -> db.Store:
        if self._conn is not None and now >= self._checked_at + REOPEN_S:
            self._checked_at = now
            if not db.is_in_place(self._conn):
                logger.warning("%s was removed under us; it is begun anew", self.name)
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
