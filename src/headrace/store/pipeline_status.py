"""The latest status of each pipeline, as `status` and the page show it.

Written by the supervisor, read by all others.
"""

from __future__ import annotations

from headrace.model.status import PipelineStatus
from headrace.store import db, json_text


def put(conn: db.Store, status: PipelineStatus) -> bool:
    """True if it has changed."""
    with db.transaction(conn):
        done = conn.execute(
            "INSERT INTO pipelines (name, body) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET body = excluded.body WHERE body <> excluded.body",
            (status.name, json_text.dump(status.to_json())),
        )
        return done.rowcount > 0


def read_all(conn: db.Store) -> list[PipelineStatus]:
    found = db.rows(conn, "SELECT name, body FROM pipelines ORDER BY name")
    return [s for row in found if (s := _status(row["body"])) is not None]


def read(conn: db.Store, name: str) -> PipelineStatus | None:
    found = db.rows(conn, "SELECT body FROM pipelines WHERE name = ?", (name,))
    return _status(found[0]["body"]) if found else None


def _status(text: str) -> PipelineStatus | None:
    """None for a row that cannot be read; the supervisor writes it again when it next changes."""
    try:
        return PipelineStatus.from_json(json_text.load(text))
    except (TypeError, AttributeError):
        return None
