"""Alerts in alerts.db: opened once, resolved once, one row an episode.

Written by the supervisor (rules, files of alert rows), read by the page and `alerts list`.
Invariant, kept by a unique index: at most one open row a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.store import db, texts

LIMIT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Alert:
    id: int
    key: str
    pipeline: str
    query: str | None
    rule: str
    title: str
    severity: str
    data: Mapping[str, Any]
    opened_at: float
    updated_at: float
    resolved_at: float | None
    updates: int  # how often it was opened again while open
    reopened: int  # how many episodes of this key came before


def open_once(
    conn: db.Store,
    key: str,
    at: float,
    pipeline: str,
    query: str | None,
    rule: str,
    title: str,
    severity: str,
    data: Mapping[str, Any] | None = None,
) -> bool:
    """True if it was not open. An open one takes the new title, severity and data, and counts."""
    body = texts.dump_bounded(data or {})
    with db.transaction(conn):
        done = conn.execute(
            "UPDATE alerts SET title = ?, severity = ?, data = ?, updated_at = ?,"
            " updates = updates + 1 WHERE key = ? AND resolved_at IS NULL",
            (title, str(severity), body, at, key),
        )
        if done.rowcount > 0:
            return False
        conn.execute(
            "INSERT INTO alerts (key, pipeline, query, rule, title, severity, data, opened_at,"
            " updated_at, reopened)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8,"
            " (SELECT coalesce(max(reopened) + 1, 0) FROM alerts WHERE key = ?1))",
            (key, pipeline, query, rule, title, str(severity), body, at),
        )
        return True


def resolve(conn: db.Store, key: str, at: float) -> bool:
    """True if it was open."""
    with db.transaction(conn):
        done = conn.execute(
            "UPDATE alerts SET resolved_at = ? WHERE key = ? AND resolved_at IS NULL", (at, key)
        )
        return done.rowcount > 0


def listed(
    conn: db.Store, state: Literal["open", "resolved", "all"] = "open", limit: int = 1000
) -> list[Alert]:
    """The newest first."""
    condition = {"open": "resolved_at IS NULL", "resolved": "resolved_at IS NOT NULL", "all": "1"}
    found = db.rows(
        conn,
        f"SELECT * FROM alerts WHERE {condition[state]} ORDER BY id DESC LIMIT ?",  # noqa: S608
        (max(0, min(limit, LIMIT_MAX)),),
    )
    return [Alert(**{**dict(row), "data": texts.load(row["data"])}) for row in found]
