"""Deletes old rows. Run by the supervisor from time to time, in small transactions.

Invariant: an open alert and a run that has not ended are never deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.store import db

DAY_S = 86_400.0
PAGES_MAX = 5_000  # given back to the disk at a time


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    raw_days: float = 3
    raw_rows_max: int = 100_000
    minute_days: float = 30
    hour_days: float = 400
    events_days: float = 30
    events_rows_max: int = 100_000
    runs_days: float = 400
    audit_days: float = 400
    totals_days: float = 400  # of a query or pipeline that no longer runs
    alerts_days: float = 400  # after they were resolved
    taken_days: float = 400  # positions of a query or topic without new rows
    twins_days: float = 8  # a row is sent again after a restart, which may take days
    twins_max: int = 200_000  # far more than a batch opens, counts and resolves
    bite_rows: int = 5_000  # rows per transaction, to keep waits short


DEFAULTS = RetentionLimits()
_KEYS_OF_LARGE = {
    **dict.fromkeys(("events", "runs", "audit", "alerts", "alert_changes", "deliveries"), "rowid"),
    "topic_rows": "twin",
}


def prune(conn: db.Store, now: float, limits: RetentionLimits = DEFAULTS) -> dict[str, int]:
    """Prunes history.db. Returns the number of deleted rows by table."""
    gone = {"progress": _prune_progress(conn, now, limits)}
    for table, condition, values in (
        ("progress_minute", "start < ?", (now - limits.minute_days * DAY_S,)),
        ("progress_hour", "start < ?", (now - limits.hour_days * DAY_S,)),
        ("progress_pruned", "at < ?", (now - limits.hour_days * DAY_S,)),
        (
            "events",
            "at < ? OR id <= (SELECT max(id) FROM events) - ?",
            (now - limits.events_days * DAY_S, limits.events_rows_max),
        ),
        ("runs", "ended_at < ?", (now - limits.runs_days * DAY_S,)),
        *(
            (table, "at < ?", (now - limits.totals_days * DAY_S,))
            for table in ("query_totals", "batch_durations", "pipeline_totals")
        ),
        ("audit", "at < ?", (now - limits.audit_days * DAY_S,)),
    ):
        gone[table] = _delete(conn, table, condition, values, limits.bite_rows)
    _give_back(conn)
    return gone


def prune_alerts(conn: db.Store, now: float, limits: RetentionLimits = DEFAULTS) -> int:
    """Prunes alerts.db. Returns the number of deleted alerts."""
    before = now - limits.alerts_days * DAY_S
    gone = _delete(conn, "alerts", "resolved_at < ?", (before,), limits.bite_rows)
    for table in ("alert_changes", "deliveries"):
        _delete(conn, table, "alert NOT IN (SELECT id FROM alerts)", (), limits.bite_rows)
    _delete(conn, "silences", "until < ?", (before,), limits.bite_rows)
    for table in ("taken_batches", "topic_positions"):
        _delete(conn, table, "at < ?", (now - limits.taken_days * DAY_S,), limits.bite_rows)
    sql = "SELECT at FROM topic_rows ORDER BY at DESC LIMIT 1 OFFSET ?"
    surplus = [row["at"] for row in db.rows(conn, sql, (limits.twins_max,))]
    last = max([now - limits.twins_days * DAY_S, *surplus])
    _delete(conn, "topic_rows", "at <= ?", (last,), limits.bite_rows)
    _give_back(conn)
    return gone


def _prune_progress(conn: db.Store, now: float, limits: RetentionLimits) -> int:
    """Records the last pruned batch, so that the roll-ups never count one twice."""
    gone = 0
    while True:
        with db.transaction(conn):
            count = conn.execute("SELECT count(*) FROM progress").fetchone()[0]
            surplus = max(0, min(count - limits.raw_rows_max, limits.bite_rows))
            old = conn.execute(
                "SELECT id FROM progress WHERE at < ? ORDER BY id LIMIT ?",
                (now - limits.raw_days * DAY_S, limits.bite_rows),
            ).fetchall()
            ids = [row["id"] for row in old] or [
                row["id"]
                for row in conn.execute("SELECT id FROM progress ORDER BY id LIMIT ?", (surplus,))
            ]
            _forget_raw(conn, ids)
        gone += len(ids)
        if not ids:
            return gone


def _forget_raw(conn: db.Store, ids: Sequence[int]) -> None:
    for id_ in ids:
        conn.execute(
            """INSERT INTO progress_pruned (pipeline, run, query, batch, at)
               SELECT pipeline, run, query, batch, at FROM progress WHERE id = ?
               ON CONFLICT (pipeline, run, query) DO UPDATE SET
                 batch = max(batch, excluded.batch), at = max(at, excluded.at)""",
            (id_,),
        )
        conn.execute("DELETE FROM progress WHERE id = ?", (id_,))


def _delete(
    conn: db.Store, table: str, condition: str, values: Sequence[Any], bite_rows: int
) -> int:
    """Small tables are pruned at once."""
    gone = 0
    key = _KEYS_OF_LARGE.get(table)
    where = f"WHERE {condition}"
    if key:
        where = f"WHERE {key} IN (SELECT {key} FROM {table} {where} LIMIT {bite_rows})"  # noqa: S608
    while True:
        with db.transaction(conn):
            count = conn.execute(f"DELETE FROM {table} {where}", values).rowcount  # noqa: S608
        gone += count
        if not key or count < bite_rows:
            return gone


def _give_back(conn: db.Store) -> None:
    """Returns free pages to the disk; a bounded number, the rest next time."""
    if conn.in_transaction:
        return
    try:
        # executescript: `execute` would stop after the first page. It commits.
        conn.executescript(f"PRAGMA incremental_vacuum({PAGES_MAX})")
    except sqlite3.Error as exc:
        raise db.to_store_error(exc, conn.path) from exc
