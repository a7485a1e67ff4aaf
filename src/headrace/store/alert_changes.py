"""The log of alert changes in alerts.db: what was opened and resolved, in order.

A change is written in the transaction that changes the alert (`store/alerts.py`), so that neither
exists without the other. The supervisor, which records events, and each channel read the log at
their own pace; each has its own position. Invariant: a reader that has read a change and not yet
advanced reads it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from headrace.model.notices import NoticeKind
from headrace.store import alerts, db
from headrace.store.alerts import StoredAlert

EVENTS = "events"  # the supervisor, which records changes as events
_COLUMNS = [f"alerts.{field.name}" for field in fields(StoredAlert)]


@dataclass(frozen=True, slots=True)
class AlertChange:
    """`title` is that of the change; `alert` is as it is now."""

    id: int
    kind: NoticeKind
    title: str
    at: float
    alert: StoredAlert

    @property
    def is_escalation(self) -> bool:
        """Whether the alert was open before and became more severe."""
        noticed_at = self.alert.noticed_at
        return self.kind == NoticeKind.TRIGGER and noticed_at is not None and self.at > noticed_at


def read(conn: db.Store, reader: str, most: int, *, has_data: bool = True) -> list[AlertChange]:
    """Changes that this reader has not passed, the oldest first. `has_data`: with the data of the
    alerts, which may be large."""
    after = "c.id > coalesce((SELECT last FROM change_readers WHERE reader = ?), 0)"
    condition = f"{after} ORDER BY c.id LIMIT ?"
    return _read_where(conn, condition, (reader, most), has_data=has_data)


def between(conn: db.Store, first: int, last: int) -> list[AlertChange]:
    """Without the data of the alerts."""
    condition = "c.id BETWEEN ? AND ? ORDER BY c.id"
    return _read_where(conn, condition, (first, last), has_data=False)


def by_id(conn: db.Store, number: int) -> AlertChange | None:
    return next(iter(_read_where(conn, "c.id = ?", (number,))), None)


def _read_where(
    conn: db.Store, condition: str, values: Sequence[object], *, has_data: bool = True
) -> list[AlertChange]:
    columns = ["'' AS data" if one == "alerts.data" and not has_data else one for one in _COLUMNS]
    found = db.rows(
        conn,
        "SELECT c.id AS change_id, c.kind AS change_kind, c.title AS change_title,"  # noqa: S608
        f" c.at AS change_at, {', '.join(columns)}"
        f" FROM alert_changes AS c JOIN alerts ON alerts.id = c.alert WHERE {condition}",
        values,
    )
    changes = []
    for row in found:
        body = dict(row)
        names = ("id", "kind", "title", "at")
        id_, kind, title, at = (body.pop(f"change_{name}") for name in names)
        changes.append(AlertChange(id_, NoticeKind(kind), title, at, alerts.from_row(body)))
    return changes


def advance(conn: db.Store, reader: str, last: int) -> None:
    """The reader has dealt with all changes up to this one."""
    with db.transaction(conn):
        conn.execute(
            "INSERT INTO change_readers (reader, last) VALUES (?, ?)"
            " ON CONFLICT (reader) DO UPDATE SET last = max(last, excluded.last)",
            (reader, last),
        )


def remove_readers(conn: db.Store, kept: set[str]) -> None:
    """Forgets channels that are no longer configured: they would keep changes from being pruned."""
    with db.transaction(conn):
        for row in db.rows(conn, "SELECT reader FROM change_readers"):
            if row["reader"] not in kept:
                conn.execute("DELETE FROM change_readers WHERE reader = ?", (row["reader"],))
