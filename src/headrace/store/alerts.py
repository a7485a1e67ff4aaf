"""Alerts in alerts.db: opened once, resolved once, one row an episode.

Written by the supervisor (rules, files of alert rows) and, for rows from a topic, by the relay
(`store/alert_topics.py`); read by the page and `alerts list`.
Invariants: at most one open row a key (a unique index); a batch that is read again changes nothing,
since its rows and its number are stored in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from headrace.model.alerts import RULE_OF_ROWS, AlertRow
from headrace.store import db, json_text

LIMIT_MAX = 10_000
TAKEN_KEPT_S = 400 * 86_400.0  # of a query without new rows


@dataclass(frozen=True, slots=True)
class StoredAlert:
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
    resolve_at: float | None = None  # resolved then, if its query has worked until then
    noticed_at: float | None = None  # when it was stored; `opened_at` comes from its row

    @property
    def count(self) -> int:
        """How many rows, or findings of a rule, it stands for."""
        return self.updates + 1

    def to_json(self) -> dict[str, Any]:
        """As the API, the page and the command line show it."""
        body = asdict(self)
        del body["updates"]
        return {**body, "count": self.count}


@dataclass(frozen=True, slots=True)
class AlertChange:
    """What a batch changed in one alert."""

    is_opened: bool  # else it was resolved
    key: str
    title: str


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
    """True if it was not open. An open one gets the new title, severity and data, and counts up."""
    body = json_text.dump_bounded(data or {})
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
            " updated_at, noticed_at, reopened)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8,"
            " coalesce((SELECT reopened + 1 FROM alerts WHERE key = ?1"
            " ORDER BY id DESC LIMIT 1), 0))",
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


def take(
    conn: db.Store, pipeline: str, query: str, rows: Sequence[AlertRow], at: float
) -> list[AlertChange]:
    """The rows of one batch, all or none; none if that batch or a later one is stored already."""
    changes: list[AlertChange] = []
    with db.transaction(conn):
        id_, batch = rows[0].query_id, rows[0].batch
        found = conn.execute("SELECT batch FROM taken_batches WHERE query_id = ?", (id_,))
        taken = found.fetchone()
        if taken is not None and batch <= taken["batch"]:
            return []
        for row in rows:
            changes += apply_row(conn, pipeline, query, row, at)
        conn.execute(
            "INSERT INTO taken_batches (query_id, batch, at) VALUES (?, ?, ?)"
            " ON CONFLICT (query_id) DO UPDATE SET batch = excluded.batch, at = excluded.at",
            (id_, batch, at),
        )
    return changes


def apply_row(
    conn: db.Store, pipeline: str, query: str, row: AlertRow, at: float
) -> list[AlertChange]:
    """Call inside a transaction."""
    key = key_of(pipeline, query, row)
    if row.resolved:
        return _resolve_where(conn, "key = ?", (key,), row.at)
    return [AlertChange(True, key, row.title)] if _add(conn, key, pipeline, query, row, at) else []


def is_opened_after(conn: db.Store, key: str, at: float) -> bool:
    """An alert of this key is open, and was opened by a row of a later moment."""
    sql = "SELECT 1 FROM alerts WHERE key = ? AND resolved_at IS NULL AND opened_at > ?"
    return conn.execute(sql, (key, at)).fetchone() is not None


def key_of(pipeline: str, query: str, row: AlertRow) -> str:
    """PIPELINE/QUERY/KEY; keys of rules have no slash. Several columns: a JSON list."""
    if row.left_out:
        return f"{pipeline}/{query}:rows-left-out"
    return f"{pipeline}/{query}/{row.key[0] if len(row.key) == 1 else json.dumps(row.key)}"


def _add(conn: db.Store, key: str, pipeline: str, query: str, row: AlertRow, at: float) -> bool:
    """True if it was not open; else the open one counts up."""
    after = row.resolve_after_s
    resolve_at = None if after is None else row.told_at + after
    said = (row.title, row.severity, json_text.dump_bounded(row.data), row.at, resolve_at)
    done = conn.execute(
        "UPDATE alerts SET title = ?, severity = ?, data = ?, updated_at = max(updated_at, ?),"
        " resolve_at = ?, updates = updates + ? WHERE key = ? AND resolved_at IS NULL",
        (*said, row.count, key),
    )
    if done.rowcount > 0:
        return False
    # Only the last episode is read, by the index: a flapping key has thousands.
    conn.execute(
        "INSERT INTO alerts (title, severity, data, opened_at, resolve_at, updates, key, pipeline,"
        " query, rule, noticed_at, updated_at, reopened)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?4,"
        " coalesce((SELECT reopened + 1 FROM alerts WHERE key = ?7"
        " ORDER BY id DESC LIMIT 1), 0))",
        (*said, row.count - 1, key, pipeline, query, RULE_OF_ROWS, at),
    )
    return True


def due(conn: db.Store, at: float) -> dict[tuple[str, str], float]:
    """(pipeline, query) with an open alert that is due -> the earliest due time."""
    found = db.rows(
        conn,
        "SELECT pipeline, query, min(resolve_at) AS since FROM alerts"
        " WHERE resolved_at IS NULL AND resolve_at IS NOT NULL AND resolve_at <= ?"
        " GROUP BY pipeline, query",
        (at,),
    )
    return {(row["pipeline"], row["query"]): row["since"] for row in found}


def resolve_due(
    conn: db.Store, worked: Iterable[tuple[str, str, float]], at: float
) -> list[tuple[str, AlertChange]]:
    """`worked`: pipeline, query, until when it has worked. Returns (pipeline, change)."""
    done: list[tuple[str, AlertChange]] = []
    with db.transaction(conn):
        for pipeline, query, until in worked:
            condition = "pipeline = ? AND query = ? AND resolve_at <= ?"
            changes = _resolve_where(conn, condition, (pipeline, query, until), at)
            done += [(pipeline, change) for change in changes]
    return done


def _resolve_where(
    conn: db.Store, condition: str, values: Sequence[object], at: float
) -> list[AlertChange]:
    found = conn.execute(
        f"UPDATE alerts SET resolved_at = ? WHERE resolved_at IS NULL AND {condition}"  # noqa: S608
        " RETURNING key, title",
        (at, *values),
    ).fetchall()
    return [AlertChange(False, row["key"], row["title"]) for row in found]


def forget_taken(conn: db.Store, at: float) -> None:
    with db.transaction(conn):
        conn.execute("DELETE FROM taken_batches WHERE at < ?", (at - TAKEN_KEPT_S,))


def open_keys_of_rules(conn: db.Store) -> set[str]:
    """Of the supervisor's own rules: a flood of rows never hides these."""
    found = db.rows(
        conn, "SELECT key FROM alerts WHERE resolved_at IS NULL AND rule <> ?", (RULE_OF_ROWS,)
    )
    return {row["key"] for row in found}


def list_alerts(
    conn: db.Store,
    state: Literal["open", "resolved", "all"] = "open",
    limit: int = 1000,
    *,
    pipeline: str | None = None,
    query: str | None = None,
) -> list[StoredAlert]:
    """The newest first; of one pipeline or query, if given."""
    condition = {"open": "resolved_at IS NULL", "resolved": "resolved_at IS NOT NULL", "all": "1"}
    found = db.rows(
        conn,
        f"SELECT * FROM alerts WHERE {condition[state]}"  # noqa: S608
        " AND (?1 IS NULL OR pipeline = ?1) AND (?2 IS NULL OR query = ?2)"
        " ORDER BY id DESC LIMIT ?3",
        (pipeline, query, max(0, min(limit, LIMIT_MAX))),
    )
    return [StoredAlert(**{**dict(row), "data": json_text.load(row["data"])}) for row in found]
