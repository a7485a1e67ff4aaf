"""The audit: who requested what, and the result. Written by the supervisor."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.requests import Request
from headrace.store import db, json_text

LIMIT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: int
    request: str
    at: float
    by: str
    what: str
    pipeline: str
    text: str


def add(conn: db.Store, request: Request, text: str) -> bool:
    """True if this request is new: a supervisor that was killed may add it twice."""
    body = request.to_json()
    with db.transaction(conn):
        done = conn.execute(
            "INSERT OR IGNORE INTO audit (request, at, by, what, pipeline, text, body)"
            " VALUES (:id, :at, :by, :what, :pipeline, :text, :body)",
            {**body, "text": text, "body": json_text.dump_bounded(body)},
        )
        return done.rowcount > 0


def list_entries(conn: db.Store, pipeline: str | None = None, limit: int = 100) -> list[AuditEntry]:
    """The newest first."""
    found = db.rows(
        conn,
        "SELECT id, request, at, by, what, pipeline, text FROM audit"
        " WHERE (?1 IS NULL OR pipeline = ?1) ORDER BY id DESC LIMIT ?2",
        (pipeline, max(0, min(limit, LIMIT_MAX))),
    )
    return [AuditEntry(*row) for row in found]
