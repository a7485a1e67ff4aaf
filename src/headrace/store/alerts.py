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

from headrace.model.alerts import RULE_OF_ROWS, AlertRow, OpenAlert, is_worse
from headrace.model.notices import NoticeKind
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
    acknowledged_at: float | None = None  # until it becomes more severe
    acknowledged_by: str | None = None

    @property
    def count(self) -> int:
        """The number of rows or findings behind it."""
        return self.updates + 1

    def to_json(self) -> dict[str, Any]:
        """The form that the API, the page and the command line show."""
        body = asdict(self)
        del body["updates"]
        return {**body, "count": self.count}


def open_once(conn: db.Store, alert: OpenAlert, at: float) -> bool:
    """True if it was not open. An open one gets the new title, severity and data, and counts up."""
    with db.transaction(conn):
        return _open(conn, alert, at, opened_at=at)


def resolve(conn: db.Store, key: str, at: float) -> bool:
    """True if it was open."""
    with db.transaction(conn):
        return bool(_resolve_where(conn, "key = ?", (key,), at, at))


def acknowledge(conn: db.Store, number: int, by: str, at: float) -> bool:
    """A person deals with it. False if it is not open, or if another person already does."""
    with db.transaction(conn):
        found = conn.execute(
            "UPDATE alerts SET acknowledged_at = ?, acknowledged_by = ?"
            " WHERE id = ? AND resolved_at IS NULL AND acknowledged_at IS NULL RETURNING title",
            (at, by, number),
        ).fetchone()
        if found is None:
            return False
        title = f"acknowledged by {by}: {found['title']}"
        _log_change(conn, number, NoticeKind.ACKNOWLEDGE, title, at)
        return True


def take(conn: db.Store, pipeline: str, query: str, rows: Sequence[AlertRow], at: float) -> int:
    """Stores the rows of one batch, all or none; none if that batch or a later one is stored.
    Returns how many alerts they opened and resolved."""
    with db.transaction(conn):
        id_, batch = rows[0].query_id, rows[0].batch
        found = conn.execute("SELECT batch FROM taken_batches WHERE query_id = ?", (id_,))
        taken = found.fetchone()
        if taken is not None and batch <= taken["batch"]:
            return 0
        changes = sum(apply_row(conn, pipeline, query, row, at) for row in rows)
        conn.execute(
            "INSERT INTO taken_batches (query_id, batch, at) VALUES (?, ?, ?)"
            " ON CONFLICT (query_id) DO UPDATE SET batch = excluded.batch, at = excluded.at",
            (id_, batch, at),
        )
    return changes


def apply_row(conn: db.Store, pipeline: str, query: str, row: AlertRow, at: float) -> int:
    """How many alerts it opened or resolved. Call inside a transaction."""
    key = key_of(pipeline, query, row)
    if row.resolved:
        return _resolve_where(conn, "key = ?", (key,), row.at, at)
    after = row.resolve_after_s
    resolve_at = None if after is None else row.told_at + after
    alert = OpenAlert(key, RULE_OF_ROWS, pipeline, row.title, row.severity, query, row.data)
    return int(_open(conn, alert, at, row.at, resolve_at, row.count))


def is_opened_after(conn: db.Store, key: str, at: float) -> bool:
    """Whether a later row has opened an alert with this key that is still open."""
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
    """True if it was not open; else the open one counts up. If it became more severe, that is a
    change too: some channels want only severe alerts."""
    data = json_text.dump_bounded(alert.data)
    values = (alert.key, alert.title, str(alert.severity), data, opened_at, resolve_at, count)
    sql = "SELECT id, severity FROM alerts WHERE key = ? AND resolved_at IS NULL"
    if known := conn.execute(sql, (alert.key,)).fetchone():
        conn.execute(
            "UPDATE alerts SET title = ?2, severity = ?3, data = ?4,"
            " updated_at = max(updated_at, ?5), resolve_at = ?6, updates = updates + ?7"
            " WHERE key = ?1 AND resolved_at IS NULL",
            values,
        )
        if is_worse(alert.severity, known["severity"]):
            _forget_acknowledgement(conn, known["id"])
            _log_change(conn, known["id"], NoticeKind.TRIGGER, alert.title, at)
        return False
    # Only the last episode is read, by the index: a flapping key has thousands.
    new = conn.execute(
        "INSERT INTO alerts (key, title, severity, data, opened_at, updated_at, resolve_at,"
        " updates, pipeline, query, rule, noticed_at, reopened)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7 - 1, ?8, ?9, ?10, ?11,"
        " coalesce((SELECT reopened + 1 FROM alerts WHERE key = ?1"
        " ORDER BY id DESC LIMIT 1), 0))",
        (*values, alert.pipeline, alert.query, alert.rule, at),
    )
    _log_change(conn, new.lastrowid, NoticeKind.TRIGGER, alert.title, at)
    return True


def _forget_acknowledgement(conn: db.Store, number: int) -> None:
    """The person who acknowledged the milder alert may not know of this one."""
    sql = "UPDATE alerts SET acknowledged_at = NULL, acknowledged_by = NULL WHERE id = ?"
    conn.execute(sql, (number,))


def _log_change(conn: db.Store, alert: int | None, kind: NoticeKind, title: str, at: float) -> None:
    """In the same transaction as the change itself; read by `store/alert_changes.py`."""
    sql = "INSERT INTO alert_changes (alert, kind, title, at) VALUES (?, ?, ?, ?)"
    conn.execute(sql, (alert, str(kind), title, at))


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


def resolve_due(conn: db.Store, worked: Iterable[tuple[str, str, float]], at: float) -> int:
    """`worked`: pipeline, query, until when it has worked."""
    condition = "pipeline = ? AND query = ? AND resolve_at <= ?"
    with db.transaction(conn):
        return sum(_resolve_where(conn, condition, name, at, at) for name in worked)


def _resolve_where(
    conn: db.Store, condition: str, values: Sequence[object], resolved_at: float, at: float
) -> int:
    found = conn.execute(
        f"UPDATE alerts SET resolved_at = ? WHERE resolved_at IS NULL AND {condition}"  # noqa: S608
        " RETURNING id, title",
        (resolved_at, *values),
    ).fetchall()
    for row in found:
        _log_change(conn, row["id"], NoticeKind.RESOLVE, row["title"], at)
    return len(found)


def open_keys_of_rules(conn: db.Store) -> set[str]:
    """Without alerts from rows, so that a flood of those never hides these."""
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
    return [from_row(dict(row)) for row in found]


def list_rules(conn: db.Store) -> set[str]:
    """The rules of all alerts, also of resolved ones."""
    return {row["rule"] for row in db.rows(conn, "SELECT DISTINCT rule FROM alerts")}


def by_id(conn: db.Store, number: int) -> StoredAlert | None:
    found = conn.execute("SELECT * FROM alerts WHERE id = ?", (number,)).fetchone()
    return None if found is None else from_row(dict(found))


def from_row(row: Mapping[str, Any]) -> StoredAlert:
    return StoredAlert(**{**row, "data": json_text.load(row["data"])})
