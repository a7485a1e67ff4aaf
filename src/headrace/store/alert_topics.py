"""Alert rows from a topic, in alerts.db. Written by the relay.

Invariants: rows and the position in the topic are written in one transaction, so that a crash
neither repeats nor skips a row. Rows that change nothing take no space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.model.alerts import TopicRow
from headrace.store import alerts, db


def take(
    conn: db.Store, topic: str, rows: Sequence[TopicRow], places: Mapping[int, int], at: float
) -> int:
    """`topic` is its identity, `places` the next record of each partition. Returns how many alerts
    the rows opened and resolved."""
    changes = 0
    with db.transaction(conn):
        known = positions(conn, topic)  # also of another relay that has not ended yet
        for one in rows:
            if one.offset >= known.get(one.partition, 0) and not _is_twin(conn, one):
                changes += _apply(conn, one, at)
        conn.executemany(
            "INSERT INTO topic_positions (topic, partition, next, at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (topic, partition)"
            " DO UPDATE SET next = max(next, excluded.next), at = excluded.at",
            [(topic, partition, next_, at) for partition, next_ in places.items()],
        )
    return changes


def _is_twin(conn: db.Store, one: TopicRow) -> bool:
    if one.twin is None:
        return False
    found = conn.execute("SELECT 1 FROM topic_rows WHERE twin = ?", (one.twin,))
    return found.fetchone() is not None


def _apply(conn: db.Store, one: TopicRow, at: float) -> int:
    """The number of changes. A row that could change something when it is sent again is
    remembered."""
    key = alerts.key_of(one.pipeline, one.query, one.row)
    if one.twin is None:
        return alerts.apply_row(conn, one.pipeline, one.query, one.row, at)
    if one.row.resolved and alerts.is_opened_after(conn, key, one.row.at):
        return 0  # a row that is sent again resolves nothing newer
    found = alerts.apply_row(conn, one.pipeline, one.query, one.row, at)
    is_quiet = one.row.resolved and not found
    if is_quiet:
        # Earlier ones need not be kept: all later alerts are newer. At the same
        # moment there may be several, in an unknown order.
        sql = "DELETE FROM topic_rows WHERE quiet = ? AND moment < ?"
        conn.execute(sql, (key, one.row.at))
    conn.execute(
        "INSERT INTO topic_rows (twin, at, quiet, moment) VALUES (?, ?, ?, ?)",
        (one.twin, at, *((key, one.row.at) if is_quiet else (None, None))),
    )
    return found


def positions(conn: db.Store, topic: str) -> dict[int, int]:
    """The next record of each partition."""
    sql = "SELECT partition, next FROM topic_positions WHERE topic = ?"
    return {row["partition"]: row["next"] for row in db.rows(conn, sql, (topic,))}


def reset_positions(conn: db.Store, topic: str, places: Mapping[int, int]) -> None:
    """The topic ends before the known position: it was recreated and uses these offsets again."""
    with db.transaction(conn):
        conn.executemany(
            "UPDATE topic_positions SET next = ? WHERE topic = ? AND partition = ?",
            [(next_, topic, partition) for partition, next_ in places.items()],
        )
