"""Who asked for what, and what became of it. Written by the supervisor, once a request."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.requests import Request
from headrace.store import db, texts

LIMIT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    request: str
    at: float
    by: str
    what: str
    pipeline: str
    text: str


def add(conn: db.Store, request: Request, text: str) -> bool:
    """True if this request was not in the book yet: a supervisor killed in between asks twice."""
    with db.transaction(conn):
        done = conn.execute(
            "INSERT OR IGNORE INTO audit (request, at, by, what, pipeline, text, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                request.id,
                request.at,
                request.by,
                str(request.what),
                request.pipeline,
                text,
                texts.dump_bounded(request.to_json()),
            ),
        )
        return done.rowcount > 0


def listed(conn: db.Store, pipeline: str | None = None, limit: int = 100) -> list[Entry]:
    """The newest first."""
    found = db.rows(
        conn,
        "SELECT id, request, at, by, what, pipeline, text FROM audit"
        " WHERE (?1 IS NULL OR pipeline = ?1) ORDER BY id DESC LIMIT ?2",
        (pipeline, max(0, min(limit, LIMIT_MAX))),
    )
    return [Entry(*row) for row in found]
