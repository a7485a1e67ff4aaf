"""What each channel has sent, in alerts.db: the outbox and the delivery log. Written by the relay.

Invariant: a change is recorded only after the service has answered, so a crash sends it once more
and never loses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from headrace.store import alert_changes, alerts, db
from headrace.store.alert_changes import AlertChange


class DeliveryState(StrEnum):
    SENT = "sent"
    WAITING = "waiting"  # an attempt failed; it is sent again
    FAILED = "failed"  # the service rejected it
    SKIPPED = "skipped"  # nothing had to be sent
    SILENCED = "silenced"  # it is sent when the silence ends, if the alert is still open then


@dataclass(frozen=True, slots=True)
class Delivery:
    channel: str
    kind: str
    key: str
    state: DeliveryState
    at: float
    attempts: int
    reply: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": str(self.state)}


def reader(channel: str) -> str:
    """The name of the channel as a reader of the log."""
    return f"channel {channel}"


def start(conn: db.Store, channel: str, at: float) -> None:
    """A new channel is sent the alerts that are open, and all later changes. A known channel
    continues."""
    with db.transaction(conn):
        known = conn.execute("SELECT 1 FROM change_readers WHERE reader = ?", (reader(channel),))
        if known.fetchone() is not None:
            return
        first, last = conn.execute(
            "SELECT min(CASE WHEN a.resolved_at IS NULL THEN c.id END), max(c.id)"
            " FROM alert_changes AS c LEFT JOIN alerts AS a ON a.id = c.alert"
        ).fetchone()
        passed = (last or 0) if first is None else first - 1
        alert_changes.advance(conn, reader(channel), passed)
        conn.execute(
            "INSERT OR IGNORE INTO deliveries"
            " (channel, change, alert, kind, key, state, at, attempts, reply)"
            " SELECT ?, c.id, c.alert, c.kind, '', ?, ?, 0,"
            " 'resolved before the channel was configured'"
            " FROM alert_changes AS c JOIN alerts AS a ON a.id = c.alert"
            " WHERE c.id > ? AND a.resolved_at IS NOT NULL",
            (channel, str(DeliveryState.SKIPPED), at, passed),
        )


def pending(conn: db.Store, channel: str, most: int) -> list[AlertChange]:
    """Changes that the channel has not settled, the oldest first, without the data of the alerts.
    Moves its position to them."""
    changes = alert_changes.read(conn, reader(channel), most, has_data=False)
    if not changes:
        return []
    settled = {
        row["change"]
        for row in db.rows(
            conn,
            "SELECT change FROM deliveries WHERE channel = ? AND state <> ? AND change >= ?",
            (channel, str(DeliveryState.WAITING), changes[0].id),
        )
    }
    left = [change for change in changes if change.id not in settled]
    if changes[0].id in settled:
        last = left[0].id - 1 if left else changes[-1].id
        alert_changes.advance(conn, reader(channel), last)
    return left or pending(conn, channel, most)


def record(conn: db.Store, changes: Sequence[AlertChange], delivery: Delivery) -> None:
    """One delivery for these changes."""
    with db.transaction(conn):
        conn.executemany(
            "INSERT INTO deliveries (channel, change, alert, kind, key, state, at, attempts, reply)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (channel, change) DO UPDATE SET"
            " key = excluded.key, state = excluded.state, at = excluded.at,"
            " attempts = excluded.attempts, reply = excluded.reply",
            [
                (delivery.channel, change.id, change.alert.id, delivery.kind, delivery.key,
                 str(delivery.state), delivery.at, delivery.attempts, delivery.reply)
                for change in changes
            ],
        )  # fmt: skip
        if delivery.state not in (DeliveryState.SILENCED, DeliveryState.WAITING):
            _settle_silenced(conn, delivery.channel, [change.alert.id for change in changes])


def _settle_silenced(conn: db.Store, channel: str, alerts_: Sequence[int]) -> None:
    """A later notice replaces the silenced ones of its alert, or the alert is over."""
    conn.executemany(
        "UPDATE deliveries SET state = 'skipped'"
        " WHERE channel = ? AND alert = ? AND state = 'silenced'",
        [(channel, alert) for alert in alerts_],
    )


def silenced(conn: db.Store, channel: str, most: int) -> list[AlertChange]:
    """The last silenced change of each open alert, the oldest first, without the alert's data."""
    found = db.rows(
        conn,
        "SELECT max(d.change) AS change FROM deliveries AS d JOIN alerts AS a ON a.id = d.alert"
        " WHERE d.channel = ? AND d.state = 'silenced' AND a.resolved_at IS NULL"
        " GROUP BY d.alert ORDER BY d.alert LIMIT ?",
        (channel, most),
    )
    last = {row["change"] for row in found}
    if not last:
        return []
    between = alert_changes.between(conn, min(last), max(last))
    return [change for change in between if change.id in last]


def sent_key(conn: db.Store, channel: str, alert: int) -> str | None:
    """The key under which the service knows the alert; None if it was never sent there."""
    found = conn.execute(
        "SELECT key FROM deliveries WHERE channel = ? AND alert = ? AND kind = 'trigger'"
        " AND state = ? ORDER BY id DESC LIMIT 1",
        (channel, alert, str(DeliveryState.SENT)),
    ).fetchone()
    return None if found is None else str(found["key"])


def sent_alerts(conn: db.Store, channel: str, first: int, last: int) -> set[int]:
    """Which alerts with ids in this range the channel has sent."""
    found = db.rows(
        conn,
        "SELECT DISTINCT alert FROM deliveries WHERE channel = ? AND kind = 'trigger'"
        " AND state = ? AND alert BETWEEN ? AND ?",
        (channel, str(DeliveryState.SENT), first, last),
    )
    return {row["alert"] for row in found}


def has_open(conn: db.Store, channel: str, key: str, *, is_unacknowledged: bool = False) -> bool:
    """Whether an alert that was sent under this key is open: a group has more than one. With
    `is_unacknowledged`: whether one is open that nobody has acknowledged."""
    found = conn.execute(
        "SELECT 1 FROM deliveries AS d JOIN alerts AS a ON a.id = d.alert"
        " WHERE d.channel = ? AND d.key = ? AND d.kind = 'trigger' AND a.resolved_at IS NULL"
        " AND (a.acknowledged_at IS NULL OR NOT ?) LIMIT 1",
        (channel, key, is_unacknowledged),
    )
    return found.fetchone() is not None


def sent_before(conn: db.Store, channel: str, at: float) -> list[tuple[str, AlertChange]]:
    """(key, change) of open alerts that were last sent before `at` and that nobody has
    acknowledged, the oldest first. Of an alert that was sent more than once, because it became more
    severe, only the last change."""
    found = db.rows(
        conn,
        "SELECT d.key AS sent_key, max(d.change) AS change"
        " FROM deliveries AS d JOIN alerts AS a ON a.id = d.alert"
        " WHERE d.channel = ? AND d.kind = 'trigger' AND d.state = ? AND a.resolved_at IS NULL"
        " AND a.acknowledged_at IS NULL"
        " GROUP BY d.alert HAVING max(d.at) < ? ORDER BY d.id LIMIT 1000",
        (channel, str(DeliveryState.SENT), at),
    )
    return [
        (row["sent_key"], change)
        for row in found
        if (change := alert_changes.by_id(conn, row["change"])) is not None
    ]


def unacknowledged(conn: db.Store, channel: str) -> dict[str, dict[int, float]]:
    """By key: the open alerts that were sent under it and that nobody has acknowledged, each with
    the time when it was last sent."""
    found = db.rows(
        conn,
        "SELECT d.key, d.alert, max(c.at) AS at FROM alerts AS a"
        " JOIN deliveries AS d ON d.alert = a.id JOIN alert_changes AS c ON c.id = d.change"
        " WHERE d.channel = ? AND d.kind = 'trigger' AND d.state = ?"
        " AND a.resolved_at IS NULL AND a.acknowledged_at IS NULL"
        " GROUP BY d.key, d.alert ORDER BY d.alert",
        (channel, str(DeliveryState.SENT)),
    )
    by_key: dict[str, dict[int, float]] = {}
    for row in found:
        by_key.setdefault(row["key"], {})[row["alert"]] = row["at"]
    return by_key


def acknowledge(conn: db.Store, channel: str, numbers: Sequence[int], by: str, at: float) -> int:
    """Acknowledges alerts that were acknowledged at the channel's service, which therefore needs no
    notice of it. Returns how many."""
    with db.transaction(conn):
        done = [number for number in numbers if alerts.acknowledge(conn, number, by, at)]
        for number in done:
            conn.execute(
                "INSERT INTO deliveries"
                " (channel, change, alert, kind, key, state, at, attempts, reply)"
                " SELECT ?, max(id), alert, kind, '', 'skipped', ?, 0,"
                " 'acknowledged at the service itself' FROM alert_changes"
                " WHERE alert = ? AND kind = 'acknowledge'",
                (channel, at, number),
            )
    return len(done)


def of_alert(conn: db.Store, alert: int, limit: int = 100) -> list[Delivery]:
    """The newest first."""
    found = db.rows(
        conn,
        "SELECT channel, kind, key, state, at, attempts, reply FROM deliveries WHERE alert = ?"
        " ORDER BY id DESC LIMIT ?",
        (alert, limit),
    )
    return [Delivery(**{**dict(row), "state": DeliveryState(row["state"])}) for row in found]


@dataclass(frozen=True, slots=True)
class ChannelRecord:
    """How deliveries to a channel go: the last one, or the one that waits; and the last success."""

    last: Delivery | None = None
    sent_at: float | None = None


def by_channel(conn: db.Store) -> dict[str, ChannelRecord]:
    found = db.rows(
        conn,
        "SELECT channel, kind, key, state, max(at) AS at, attempts, reply FROM deliveries"
        " WHERE state IN ('sent', 'waiting', 'failed') GROUP BY channel, state"
        " ORDER BY state = 'waiting', max(at)",
    )
    records: dict[str, ChannelRecord] = {}
    for row in found:
        delivery = Delivery(**{**dict(row), "state": DeliveryState(row["state"])})
        sent_at = delivery.at if delivery.state is DeliveryState.SENT else None
        known = records.get(delivery.channel, ChannelRecord())
        records[delivery.channel] = ChannelRecord(delivery, known.sent_at or sent_at)
    return records
