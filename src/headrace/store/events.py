"""Events of pipelines as text: starts, ends, restarts, updates.

Written by the supervisor, read by the page and `headrace events`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.store import db, json_text

LIMIT_MAX = 10_000
_COLUMNS = "id, at, pipeline, run, kind, text, data"


@dataclass(frozen=True, slots=True)
class StoredEvent:
    id: int  # ascending; `after` of the next read
    at: float
    pipeline: str
    run: str | None
    kind: str
    text: str
    data: Mapping[str, Any]


def add(
    conn: db.Store,
    at: float,
    pipeline: str,
    run: str | None,
    kind: str,
    text: str,
    data: Mapping[str, Any] | None = None,
) -> None:
    with db.transaction(conn):
        conn.execute(
            "INSERT INTO events (at, pipeline, run, kind, text, data) VALUES (?, ?, ?, ?, ?, ?)",
            (at, pipeline, run, str(kind), text, json_text.dump_bounded(data or {})),
        )


def recent(
    conn: db.Store, pipeline: str | None = None, limit: int = 100, after: int = 0
) -> list[StoredEvent]:
    """The latest events with an id above `after`, oldest first."""
    found = db.rows(
        conn,
        f"SELECT {_COLUMNS} FROM events WHERE (?1 IS NULL OR pipeline = ?1) AND id > ?3"  # noqa: S608
        " ORDER BY id DESC LIMIT ?2",
        (pipeline, max(0, min(limit, LIMIT_MAX)), after),
    )
    return [_event_from_row(row) for row in reversed(found)]


def between(
    conn: db.Store,
    pipeline: str,
    since: float,
    until: float,
    kinds: Collection[str],
    limit: int = 500,
) -> list[StoredEvent]:
    """The latest of these kinds in a time range, oldest first."""
    found = db.rows(
        conn,
        f"SELECT {_COLUMNS} FROM events WHERE pipeline = ? AND at >= ? AND at < ?"  # noqa: S608
        f" AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY id DESC LIMIT ?",
        (pipeline, since, until, *kinds, max(0, min(limit, LIMIT_MAX))),
    )
    return [_event_from_row(row) for row in reversed(found)]


def _event_from_row(row: sqlite3.Row) -> StoredEvent:
    return StoredEvent(**{**dict(row), "data": json_text.load(row["data"])})
