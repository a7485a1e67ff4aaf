"""Silences in alerts.db: alerts of which channels send no notice until a time, and why. Written by
the supervisor.

A silenced alert opens and is resolved as usual. If it is still open when the silence ends, it is
sent then (`relay/delivery.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from headrace.store import db
from headrace.store.alerts import StoredAlert

LIMIT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Silence:
    """`id` is 0 until it is stored. Without a query, also alerts that have none."""

    id: int
    pipeline: str  # a glob, like the query and the rule
    query: str | None
    rule: str
    reason: str
    by: str
    from_at: float
    until: float
    ended_at: float | None = None  # by a person, before `until`

    def is_active(self, at: float) -> bool:
        return self.from_at <= at < self.until and self.ended_at is None

    def takes(self, alert: StoredAlert) -> bool:
        """Whether it is about this alert, whatever the time."""
        return (
            fnmatchcase(alert.pipeline, self.pipeline)
            and (self.query is None or fnmatchcase(alert.query or "", self.query))
            and fnmatchcase(alert.rule, self.rule)
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find(silences: Iterable[Silence], alert: StoredAlert, at: float) -> Silence | None:
    """The silence that applies to the alert now; of several, the one that lasts longest. Pure."""
    found = [one for one in silences if one.is_active(at) and one.takes(alert)]
    return max(found, key=lambda one: one.until, default=None)


def add(conn: db.Store, silence: Silence) -> int:
    """Its number."""
    with db.transaction(conn):
        new = conn.execute(
            "INSERT INTO silences (pipeline, query, rule, reason, by, from_at, until, ended_at)"
            " VALUES (:pipeline, :query, :rule, :reason, :by, :from_at, :until, :ended_at)",
            silence.to_json(),
        )
        return int(new.lastrowid or 0)


def end(conn: db.Store, number: int, at: float) -> bool:
    """False if there is no such silence, or if it has already ended."""
    with db.transaction(conn):
        done = conn.execute(
            "UPDATE silences SET ended_at = ? WHERE id = ? AND ended_at IS NULL AND until > ?",
            (at, number, at),
        )
        return done.rowcount > 0


def list_silences(conn: db.Store, at: float, is_all: bool = False) -> list[Silence]:
    """Those that have not ended, the newest first; with `is_all` also the others."""
    found = db.rows(
        conn,
        "SELECT id, pipeline, query, rule, reason, by, from_at, until, ended_at FROM silences"
        " WHERE ?1 OR (ended_at IS NULL AND until > ?2) ORDER BY id DESC LIMIT ?3",
        (is_all, at, LIMIT_MAX),
    )
    return [Silence(**dict(row)) for row in found]


def by_id(conn: db.Store, number: int) -> Silence | None:
    found = db.rows(conn, "SELECT * FROM silences WHERE id = ?", (number,))
    return next((Silence(**dict(row)) for row in found), None)
