"""Alert rows that came by a topic, in alerts.db. Written by the relay; the supervisor reads what
changed, to tell of it.

Invariant: rows, the place in the topic up to which they were taken, and what they changed are
written in one transaction, so that none is taken twice or left out, whoever is killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.model.alerts import TopicRow
from headrace.store import alerts, db
from headrace.store.alerts import Change

TWINS_KEPT_S = 8 * 86_400.0  # a row is sent again after a restart: also one after a holiday


def take(
    conn: db.Store, topic: str, rows: Sequence[TopicRow], places: Mapping[int, int], at: float
) -> list[Change]:
    """`topic` is its identity, `places` the next record of each partition."""
    changes: list[Change] = []
    with db.transaction(conn):
        known = positions(conn, topic)  # of another relay, too, that has not ended yet
        for one in rows:
            if one.offset < known.get(one.partition, 0) or _is_twin(conn, one, at):
                continue
            found = alerts.applied(conn, one.pipeline, one.query, one.row, at)
            conn.executemany(
                "INSERT INTO topic_changes (pipeline, is_opened, key, title, at)"
                " VALUES (?, ?, ?, ?, ?)",
                [(one.pipeline, it.is_opened, it.key, it.title, at) for it in found],
            )
            changes += found
        conn.executemany(
            "INSERT INTO topic_positions (topic, partition, next, at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (topic, partition)"
            " DO UPDATE SET next = max(next, excluded.next), at = excluded.at",
            [(topic, partition, next_, at) for partition, next_ in places.items()],
        )
    return changes


def _is_twin(conn: db.Store, one: TopicRow, at: float) -> bool:
    if one.twin is None:
        return False
    added = conn.execute(
        "INSERT OR IGNORE INTO topic_rows (twin, at) VALUES (?, ?)", (one.twin, at)
    )
    return added.rowcount == 0


def positions(conn: db.Store, topic: str) -> dict[int, int]:
    """By partition: the record that comes next."""
    sql = "SELECT partition, next FROM topic_positions WHERE topic = ?"
    return {row["partition"]: row["next"] for row in db.rows(conn, sql, (topic,))}


def begin_anew(conn: db.Store, topic: str, places: Mapping[int, int]) -> None:
    """The topic ends before the place that was known: what comes now has these numbers again."""
    with db.transaction(conn):
        conn.executemany(
            "UPDATE topic_positions SET next = ? WHERE topic = ? AND partition = ?",
            [(next_, topic, partition) for partition, next_ in places.items()],
        )


def changed(conn: db.Store, most: int) -> list[tuple[int, str, float, Change]]:
    """(number, pipeline, when, what) that nobody was told of yet, the oldest first."""
    found = db.rows(conn, "SELECT * FROM topic_changes ORDER BY id LIMIT ?", (most,))
    return [
        (
            row["id"],
            row["pipeline"],
            row["at"],
            Change(bool(row["is_opened"]), row["key"], row["title"]),
        )
        for row in found
    ]


def told(conn: db.Store, upto: int) -> None:
    """Changes up to this number were told of."""
    with db.transaction(conn):
        conn.execute("DELETE FROM topic_changes WHERE id <= ?", (upto,))


def forget(conn: db.Store, at: float) -> None:
    """Places of a topic that nobody has read for long are of one that was made anew."""
    with db.transaction(conn):
        conn.execute("DELETE FROM topic_rows WHERE at < ?", (at - TWINS_KEPT_S,))
        old = at - alerts.TAKEN_KEPT_S
        conn.execute("DELETE FROM topic_positions WHERE at < ?", (old,))
