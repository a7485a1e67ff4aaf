"""A thread that takes alert rows from one topic into the store. Owned by `alerting.py`.

Whatever goes wrong becomes words and is tried again: no row is lost meanwhile, since the topic
keeps it. Invariant: `until` is a moment before which every row that was in the topic is taken.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from headrace.connectors import alerttopic
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import Ends
from headrace.connectors.kafkafollow import Following, Record
from headrace.errors import Error
from headrace.model.alerts import TopicRow
from headrace.model.places import Places
from headrace.store import alerttopics, db

WAIT_S = 0.5  # for the next record
AGAIN_S = 2.0  # after a broker or a store that did not answer
ASK_S = 2.0  # how often the broker is asked where the topic ends

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Goal:
    """Where the topic ended at a moment: what was sent before it is taken once this is reached."""

    at: float
    ends: Mapping[int, int]

    def is_reached(self, places: Mapping[int, int]) -> bool:
        return all(places.get(partition, 0) >= end for partition, end in self.ends.items())


class Taker:
    """`since` when it looks, `until` when all is taken, `problem` in words; `lost` rows were
    deleted before they were taken, the last of them missed at `lost_at`."""

    def __init__(self, topic: Kafka, places: Places, home: str) -> None:
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
                self._take()
            except Error as exc:
                self.problem = f"{exc.what} {exc.why or ''}".strip()
            except Exception as exc:  # a border: this thread is the only one that takes rows
                logger.exception("alert rows cannot be taken")
                self.problem = f"{type(exc).__name__}: {exc}"
            self._over.wait(AGAIN_S)

    def _take(self) -> None:
        """Until something has to be opened anew: the store, or the topic."""
        with Following(self._topic) as broker:
            topic = broker.identity(self._name)
            found = broker.ends({self._name: broker.partitions(self._name)})
            ends = {partition: end for (_, partition), end in found.items()}
            with closing(db.open_alerts(self._places.alerts)) as conn:
                if conn.note:
                    logger.warning("%s", conn.note)
                starts = self._begin(conn, topic, ends)
                broker.follow(self._name, starts)
                self._follow(conn, broker, topic, dict(starts))

    def _begin(self, conn: db.Store, topic: str, ends: Mapping[int, Ends]) -> dict[int, int]:
        known = alerttopics.positions(conn, topic)
        starts = begin(known, ends)
        # Written down at once: what is gone is counted once, however often this is tried.
        moved = {p: at for p, at in starts.items() if at != known.get(p, at)}
        alerttopics.begin_anew(conn, topic, moved)
        if missed := deleted(known, ends):
            logger.error("%d rows of %s were deleted before they were taken", missed, self._name)
            self.lost, self.lost_at = self.lost + missed, time.time()
        return starts

    def _follow(
        self, conn: db.Store, broker: Following, topic: str, places: dict[int, int]
    ) -> None:
        goal, due = None, 0.0
        while not self._over.is_set():
            if goal is None and time.monotonic() >= due:
                goal, due = self._goal(broker), time.monotonic() + ASK_S
                if goal.ends.keys() != places.keys() or broker.identity(self._name) != topic:
                    return  # new partitions, or another topic under the same name
            if goal is not None and goal.is_reached(places):
                self.until, self.problem, goal = goal.at, None, None
            records = broker.next(WAIT_S)
            if not db.is_in_place(conn):
                return  # before anything is written that nobody would find
            if records:
                self._put(conn, topic, records)
                places |= {one.partition: one.offset + 1 for one in records}

    def _goal(self, broker: Following) -> Goal:
        at = time.time()
        ends = broker.ends({self._name: broker.partitions(self._name)})
        return Goal(at, {partition: end.high for (_, partition), end in ends.items()})

    def _put(self, conn: db.Store, topic: str, records: list[Record]) -> None:
        places = {one.partition: one.offset + 1 for one in records}
        rows = list(self._rows(records))
        for change in alerttopics.take(conn, topic, rows, places, time.time()):
            logger.info("%s: %s", "opened" if change.is_opened else "resolved", change.title)

    def _rows(self, records: Iterable[Record]) -> Iterator[TopicRow]:
        for one in records:
            try:
                row = alerttopic.opened(one, self._home)
            except ValueError as exc:
                place = f"{self._name} {one.partition}, offset {one.offset}"
                logger.warning("not taken, %s: %s", place, exc)
                continue
            if row is not None:
                yield row


def begin(known: Mapping[int, int], ends: Mapping[int, Ends]) -> dict[int, int]:
    """Where to go on in each partition. What the topic has deleted is not waited for; of a
    partition that is new, all of it is taken."""
    starts = {}
    for partition, end in ends.items():
        next_ = known.get(partition, end.low)
        starts[partition] = next_ if end.low <= next_ <= end.high else end.low
    return starts


def deleted(known: Mapping[int, int], ends: Mapping[int, Ends]) -> int:
    """How many rows are gone that nobody has taken."""
    return sum(max(0, end.low - known.get(partition, end.low)) for partition, end in ends.items())
