"""Alerts in alerts.db: opened once, resolved once, one row per episode.

Written by the supervisor (rules, files of alert rows) and, for rows from a topic, by the relay
(`store/alert_topics.py`); read by the page and `alerts list`.
Invariants: at most one open row per key (a unique index); a batch that is read again changes
nothing, since its rows and its number are stored in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from headrace.model.alerts import RULE_OF_ROWS, AlertRow, OpenAlert
from headrace.store import db, json_text

LIMIT_MAX = 10_000


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
        """The number of rows or findings behind it."""
        return self.updates + 1

    def to_json(self) -> dict[str, Any]:
        """The form that the API, the page and the command line show."""
        body = asdict(self)
        del body["updates"]
        return {**body, "count": self.count}


@dataclass(frozen=True, slots=True)
class AlertChange:
    """An alert that was opened or resolved, and when that was stored."""

    pipeline: str
    is_opened: bool  # else it was resolved
    key: str
    title: str
    at: float


def open_once(conn: db.Store, alert: OpenAlert, at: float) -> bool:
    """True if it was not open. An open one gets the new title, severity and data, and counts up."""
    with db.transaction(conn):
        return _open(conn, alert, at, opened_at=at)


def resolve(conn: db.Store, key: str, at: float) -> bool:
    """True if it was open."""
    with db.transaction(conn):
        return bool(_resolve_where(conn, "key = ?", (key,), at, at))


def take(
    conn: db.Store, pipeline: str, query: str, rows: Sequence[AlertRow], at: float
) -> list[AlertChange]:
    """Stores the rows of one batch, all or none; none if that batch or a later one is stored."""
    with db.transaction(conn):
        id_, batch = rows[0].query_id, rows[0].batch
        found = conn.execute("SELECT batch FROM taken_batches WHERE query_id = ?", (id_,))
        taken = found.fetchone()
        if taken is not None and batch <= taken["batch"]:
            return []
        changes = [change for row in rows for change in apply_row(conn, pipeline, query, row, at)]
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
        return _resolve_where(conn, "key = ?", (key,), row.at, at)
    after = row.resolve_after_s
    resolve_at = None if after is None else row.told_at + after
    alert = OpenAlert(key, RULE_OF_ROWS, pipeline, row.title, row.severity, query, row.data)
    is_new = _open(conn, alert, at, row.at, resolve_at, row.count)
    return [AlertChange(pipeline, True, key, row.title, at)] if is_new else []


def is_opened_after(conn: db.Store, key: str, at: float) -> bool:
    """Whether an alert with this key is open that a later row opened."""
    sql = "SELECT 1 FROM alerts WHERE key = ? AND resolved_at IS NULL AND opened_at > ?"
    return conn.execute(sql, (key, at)).fetchone() is not None


def key_of(pipeline: str, query: str, row: AlertRow) -> str:
    """PIPELINE/QUERY/KEY; keys of rules have no slash. Several columns: a JSON list."""
    if row.left_out:
        return f"{pipeline}/{query}:rows-left-out"
    return f"{pipeline}/{query}/{row.key[0] if len(row.key) == 1 else json.dumps(row.key)}"


def _open(
    conn: db.Store,
    alert: OpenAlert,
    at: float,
    opened_at: float,
    resolve_at: float | None = None,
    count: int = 1,
) -> bool:
    """True if it was not open; else the open one counts up."""
    data = json_text.dump_bounded(alert.data)
    values = (alert.key, alert.title, str(alert.severity), data, opened_at, resolve_at, count)
    done = conn.execute(
        "UPDATE alerts SET title = ?2, severity = ?3, data = ?4, updated_at = max(updated_at, ?5),"
        " resolve_at = ?6, updates = updates + ?7 WHERE key = ?1 AND resolved_at IS NULL",
        values,
    )
    if done.rowcount > 0:
        return False
    # Only the last episode is read, by the index: a flapping key has thousands.
    conn.execute(
        "INSERT INTO alerts (key, title, severity, data, opened_at, updated_at, resolve_at,"
        " updates, pipeline, query, rule, noticed_at, reopened)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7 - 1, ?8, ?9, ?10, ?11,"
        " coalesce((SELECT reopened + 1 FROM alerts WHERE key = ?1"
        " ORDER BY id DESC LIMIT 1), 0))",
        (*values, alert.pipeline, alert.query, alert.rule, at),
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
) -> list[AlertChange]:
    """`worked`: pipeline, query, until when it has worked."""
    condition = "pipeline = ? AND query = ? AND resolve_at <= ?"
    with db.transaction(conn):
        return [one for name in worked for one in _resolve_where(conn, condition, name, at, at)]


def _resolve_where(
    conn: db.Store, condition: str, values: Sequence[object], resolved_at: float, at: float
) -> list[AlertChange]:
    found = conn.execute(
        f"UPDATE alerts SET resolved_at = ? WHERE resolved_at IS NULL AND {condition}"  # noqa: S608
        " RETURNING pipeline, key, title",
        (resolved_at, *values),
    ).fetchall()
    return [AlertChange(pipeline, False, key, title, at) for pipeline, key, title in found]


def open_keys_of_rules(conn: db.Store) -> set[str]:
    """Without alerts of rows, so that a flood of them never hides these."""
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
