"""A thread that reads alert rows from one topic into the store. Owned by `alert_topics.py`.

Errors become a `problem` and are retried; no row is lost meanwhile, since the topic keeps it.
Invariant: every row that was in the topic before `until` is stored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors import alert_topic
from headrace.connectors.kafka.broker_client import TopicEnds
from headrace.connectors.kafka.topic_follower import Record, TopicFollower
from headrace.errors import Error
from headrace.model.alerts import TopicRow
from headrace.model.state_paths import StatePaths
from headrace.store import alert_topics, db

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

WAIT_S = 0.5  # for the next record
AGAIN_S = 2.0  # after an error of the broker or the store
ASK_S = 2.0  # how often the end of the topic is read

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Goal:
    """The end of the topic at a moment: once it is reached, all earlier rows are stored."""

    at: float
    ends: Mapping[int, int]

    def is_reached(self, places: Mapping[int, int]) -> bool:
        return all(places.get(partition, 0) >= end for partition, end in self.ends.items())


class AlertTopicReader:
    """It has been reading since `since`; all rows up to `until` are stored. `lost` rows were
    deleted unread; the last loss was noticed at `lost_at`."""

    def __init__(self, topic: Kafka, places: StatePaths, home: str) -> None:
        self.since = time.time()
        self.until: float | None = None
        self.problem: str | None = None
        self.lost = 0
        self.lost_at: float | None = None
        self._topic = topic
        self._name = topic.topic or ""
        self._places = places
        self._home = home
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerting", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(WAIT_S + 5)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._read()
            except Error as exc:
                self.problem = f"{exc.what} {exc.why or ''}".strip()
            except Exception as exc:  # a boundary: no other thread reads rows
                logger.exception("alert rows could not be read")
                self.problem = f"{type(exc).__name__}: {exc}"
            self._over.wait(AGAIN_S)

    def _read(self) -> None:
        """Reads until the store or the topic has to be opened again."""
        with TopicFollower(self._topic) as broker:
            topic = broker.identity(self._name)
            found = broker.ends({self._name: broker.partitions(self._name)})
            ends = {partition: end for (_, partition), end in found.items()}
            with closing(db.open_alerts(self._places.alerts)) as conn:
                if conn.note:
                    logger.warning("%s", conn.note)
                starts = self._prepare_starts(conn, topic, ends)
                broker.follow(self._name, starts)
                self._follow(conn, broker, topic, dict(starts))

    def _prepare_starts(
        self, conn: db.Store, topic: str, ends: Mapping[int, TopicEnds]
    ) -> dict[int, int]:
        known = alert_topics.positions(conn, topic)
        starts = starting_offsets(known, ends)
        # Stored at once, so that a retry does not count them again.
        moved = {p: at for p, at in starts.items() if at != known.get(p, at)}
        alert_topics.reset_positions(conn, topic, moved)
        if missed := count_deleted(known, ends):
            logger.error("%d rows in %s were deleted before they were read", missed, self._name)
            self.lost, self.lost_at = self.lost + missed, time.time()
        return starts

    def _follow(
        self, conn: db.Store, broker: TopicFollower, topic: str, places: dict[int, int]
    ) -> None:
        goal, due = None, 0.0
        while not self._over.is_set():
            if goal is None and time.monotonic() >= due:
                goal, due = self._goal(broker), time.monotonic() + ASK_S
                if goal.ends.keys() != places.keys() or broker.identity(self._name) != topic:
                    return  # new partitions, or a different topic with the same name
            if goal is not None and goal.is_reached(places):
                self.until, self.problem, goal = goal.at, None, None
            records = broker.next(WAIT_S)
            if not db.is_in_place(conn):
                return  # the store was replaced
            if records:
                self._store_records(conn, topic, records)
                places |= {one.partition: one.offset + 1 for one in records}

    def _goal(self, broker: TopicFollower) -> Goal:
        at = time.time()
        ends = broker.ends({self._name: broker.partitions(self._name)})
        return Goal(at, {partition: end.high for (_, partition), end in ends.items()})

    def _store_records(self, conn: db.Store, topic: str, records: list[Record]) -> None:
        places = {one.partition: one.offset + 1 for one in records}
        rows = [row for one in records if (row := self._parse(one)) is not None]
        if changes := alert_topics.take(conn, topic, rows, places, time.time()):
            logger.info("%d alerts opened or resolved by rows in %s", changes, self._name)

    def _parse(self, one: Record) -> TopicRow | None:
        try:
            return alert_topic.parse_record(one, self._home)
        except ValueError as exc:
            place = f"{self._name} {one.partition}, offset {one.offset}"
            logger.warning("skipped an invalid row, %s: %s", place, exc)
            return None


def starting_offsets(known: Mapping[int, int], ends: Mapping[int, TopicEnds]) -> dict[int, int]:
    """The position in each partition. Deleted rows are skipped; a new partition is read from its
    beginning."""
    starts = {}
    for partition, end in ends.items():
        next_ = known.get(partition, end.low)
        starts[partition] = next_ if end.low <= next_ <= end.high else end.low
    return starts


def count_deleted(known: Mapping[int, int], ends: Mapping[int, TopicEnds]) -> int:
    return sum(max(0, end.low - known.get(partition, end.low)) for partition, end in ends.items())
