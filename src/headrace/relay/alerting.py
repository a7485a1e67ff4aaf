"""Takes alert rows out of the topics of `[alerts]`: a row is an open alert within milliseconds.

`Alerting` looks every few seconds which topics the deployed pipelines use; each has a thread of its
own, from its first look to the end. Whatever goes wrong there becomes words (`alerttopics.json`)
and is tried again: no row is lost meanwhile, since the topic keeps it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from headrace import config
from headrace.config import FILE
from headrace.connectors import alerttopic
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import Broker, Ends, Record
from headrace.errors import Error
from headrace.model.alerts import ByTopic, TopicRow
from headrace.model.places import Places
from headrace.project import definitions
from headrace.project.workspace import Workspace
from headrace.state import alerttopics as told
from headrace.state import desired
from headrace.store import alerttopics, db

WAIT_S = 0.5  # for the next record
AGAIN_S = 2.0  # after a broker or a store that did not answer
PARTITIONS_S = 15.0  # how often it is asked whether there are new ones

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query whose alert rows come by this topic."""

    pipeline: str
    query: str
    topic: Kafka


class Alerting:
    """Owns a taker for each topic that some deployed pipeline sends alert rows to."""

    def __init__(self) -> None:
        self._takers: dict[str, Taker] = {}
        self._written: list[ByTopic] = []

    def tick(self, work: Workspace) -> None:
        wanted = list(by_topic(work))
        keys = {json.dumps(one.topic.fields(), sort_keys=True): one.topic for one in wanted}
        for key in self._takers.keys() - keys.keys():
            self._takers.pop(key).end()
        for key in keys.keys() - self._takers.keys():
            self._takers[key] = Taker(keys[key], work.places, alerttopic.home(work.settings))
        states = [self._state(one) for one in wanted]
        if states or self._written:
            told.write(work.places, states)
        self._written = states

    def _state(self, one: Wanted) -> ByTopic:
        taker = self._takers[json.dumps(one.topic.fields(), sort_keys=True)]
        name = one.topic.topic or ""
        return ByTopic(one.pipeline, one.query, name, taker.since, taker.until, taker.problem)

    def close(self) -> None:
        for taker in self._takers.values():
            taker.end()
        self._takers.clear()


class Taker:
    """A thread that takes rows from one topic. `until`: when nothing waited there any more."""

    def __init__(self, topic: Kafka, places: Places, home: str) -> None:
        self.since = time.time()
        self.until: float | None = None
        self.problem: str | None = None
        self._topic = topic
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
                self._failed(f"{exc.what} {exc.why or ''}".strip())
            except Exception as exc:  # a border: this thread is the only one that takes rows
                logger.exception("alert rows cannot be taken")
                self._failed(f"{type(exc).__name__}: {exc}")

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("alert rows wait in %s: %s", self._topic.topic, problem)
        self.problem = problem
        self._over.wait(AGAIN_S)

    def _take(self) -> None:
        """Until the end, or until something has to be opened anew."""
        name = self._topic.topic or ""
        with closing(db.open_alerts(self._places.alerts)) as conn, Broker(self._topic) as broker:
            topic = broker.identity(name)
            while not self._over.is_set() and db.is_in_place(conn):
                ends = {at: end for (_, at), end in broker.ends(broker.wanted()).items()}
                starts = begin(alerttopics.positions(conn, topic), ends)
                broker.follow(name, starts)
                self._follow(conn, broker, topic)

    def _follow(self, conn: db.Store, broker: Broker, topic: str) -> None:
        """For a while, then partitions are asked for again."""
        deadline = time.monotonic() + PARTITIONS_S
        while not self._over.is_set() and time.monotonic() < deadline:
            now = time.time()
            records = broker.next(WAIT_S)
            if not records:
                self.until, self.problem = now, None
                continue
            if not db.is_in_place(conn):
                return  # before anything is written that nobody would find
            places = {one.partition: one.offset + 1 for one in records}
            rows = list(self._rows(records))
            for change in alerttopics.take(conn, topic, rows, places, time.time()):
                logger.info("%s: %s", "opened" if change.is_opened else "resolved", change.title)

    def _rows(self, records: Iterable[Record]) -> Iterator[TopicRow]:
        for one in records:
            try:
                row = alerttopic.opened(one.value, one.at, self._home)
            except ValueError as exc:
                place = f"{self._topic.topic} {one.partition}, offset {one.offset}"
                logger.warning("not taken, %s: %s", place, exc)
                continue
            if row is not None:
                yield row


def begin(known: Mapping[int, int], ends: Mapping[int, Ends]) -> dict[int, int]:
    """Where to go on in each partition. Pure. What the topic has deleted is told, not waited for;
    of a partition that is new, all of it is."""
    starts = {}
    for partition, end in ends.items():
        next_ = known.get(partition, end.low)
        if next_ < end.low:
            logger.error("%d alert rows were deleted before they were taken", end.low - next_)
        starts[partition] = next_ if end.low <= next_ <= end.high else end.low
    return starts


def by_topic(work: Workspace) -> Iterator[Wanted]:
    """Real-time queries with an alert as their sink, by what was deployed and not by what stands
    in headrace.toml now."""
    for item in desired.listed(work.places):
        found = definitions.stored(work, item.version, item.profile, item.pipeline)
        names = [
            query.name
            for query in (found.queries if found else ())
            if query.sink.get("kind") == "alert" and query.trigger.get("kind") == "real-time"
        ]
        if not names:
            continue
        try:
            toml = work.places.code(item.version) / FILE
            topic = alerttopic.topic_of(config.load(work.project, item.profile, toml))
        except Error as exc:
            logger.warning("%s: %s", item.pipeline, exc)
            continue
        if topic is not None:
            yield from (Wanted(item.pipeline, name, topic) for name in names)
