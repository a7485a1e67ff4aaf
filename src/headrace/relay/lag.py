"""Measures the lag of each query from its checkpoint and the brokers, even while it is down.

Runs every few seconds. Keeps one connection per cluster, login and isolation.
Invariant: the result is always a QueryLag; errors are its `problem`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.checkpoints import positions
from headrace.checkpoints.positions import Positions
from headrace.connectors.kafka.broker_client import BrokerClient, client_key
from headrace.errors import Error
from headrace.model import lag
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.pipeline import Definition, Query
from headrace.project import broker_connectors
from headrace.project.workspace import Workspace
from headrace.state import definitions

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

ASK_S = 5.0
LOOKS = 12  # a minute of them, for rates
KEPT_S = 60.0  # how often a topic's retention is read, and an unresponsive sink retried
AGED_MAX = 16  # partitions of a query whose oldest record is read: those most behind
AGED_S = 2.0  # for one measurement


class LagMonitor:
    """Owns the connections and the last measurements of each query."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0  # of this measurement: no oldest record is read after it
        self._brokers: dict[str, BrokerClient] = {}
        self._seen: dict[tuple[str, str], deque[QueryLag]] = {}
        self._kept: dict[tuple[str, str], tuple[float, float | None]] = {}
        self._silent: dict[tuple[str, str], float] = {}  # a topic that did not answer, until when
        self._empty: dict[
            tuple[str, PartitionLag], float
        ] = {}  # the same, for a position in a topic

    def measure(self, work: Workspace) -> list[QueryLag]:
        found = []
        self._until = self._clock() + AGED_S
        now = time.time()
        self._empty = {place: until for place, until in self._empty.items() if now < until}
        down: dict[str, str] = {}  # an unresponsive cluster is tried once per measurement
        for definition, query in queries(work):
            read = positions.read(query.checkpoint or "")
            if read == {}:
                continue
            one = self._measure_query(definition, query, read, down)
            seen = self._seen.setdefault((one.pipeline, one.query), deque(maxlen=LOOKS))
            seen.append(one)
            found.append(replace(one, catch_up_s=lag.catch_up_s(tuple(seen))))
        return found

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    def _measure_query(
        self, definition: Definition, query: Query, read: Positions | None, down: dict[str, str]
    ) -> QueryLag:
        is_real_time = query.trigger.get("kind") == "real-time"
        found = QueryLag(definition.pipeline, query.name, time.time(), is_real_time=is_real_time)
        if is_real_time:
            found = replace(found, written_s=self._seconds_since_write(query, found.at))
        if read is None:
            return replace(found, problem="its checkpoint is not on a local disk")
        partitions: list[PartitionLag] = []
        gone: list[str] = []
        for connector in broker_connectors.read_by(definition, query):
            try:
                mine = {t: read.pop(t) for t in list(read) if connector.covers(t)}
                if mine and connector.servers not in down:
                    gone += self._remove_missing(connector, mine)
                    partitions += self._measure_partitions(connector, mine, found.at)
            except Error as exc:
                self.close()  # the next measurement reconnects
                down[connector.servers] = f"{exc.what} {exc.why or ''}".strip()
            if connector.servers in down:
                return replace(found, problem=down[connector.servers])
        recreated = [f"{one.topic} {one.partition}" for one in partitions if one.next > one.high]
        unknown = "topics whose source is unknown or whose login is set only in code"
        for words, names in (
            ("partitions that no longer exist", gone),
            ("recreated partitions", recreated),
            (unknown, list(read)),
        ):
            if names:
                return replace(found, problem=f"{words}: {', '.join(names)}")
        return replace(found, partitions=tuple(partitions))

    def _remove_missing(self, connector: Kafka, mine: Positions) -> list[str]:
        """Removes partitions that the broker does not have from `mine`, and names them."""
        known = self._broker(connector).topics()
        found = [(t, p) for t, parts in mine.items() for p in parts if p not in known.get(t, ())]
        for topic, partition in found:
            del mine[topic][partition]
        return [f"{topic} {partition}" for topic, partition in found]

    def _measure_partitions(
        self, connector: Kafka, mine: Positions, now: float
    ) -> Iterator[PartitionLag]:
        broker = self._broker(connector)
        ends = broker.ends(mine)
        found = [
            PartitionLag(topic, partition, mine[topic][partition], end.low, end.high)
            for (topic, partition), end in ends.items()
        ]
        most = sorted((one for one in found if one.records), key=lambda one: -one.records)
        aged = {(one.topic, one.partition) for one in most[:AGED_MAX]}
        for one in found:
            if (one.topic, one.partition) in aged:
                waits_s = self._waits_s(broker, one, now)
                one = replace(
                    one, waits_s=waits_s, kept_s=self._retention_s(broker, one.topic, now)
                )
            yield one

    def _waits_s(self, broker: BrokerClient, one: PartitionLag, now: float) -> float | None:
        """With transactions there may be only markers and aborted records ahead: the client then
        waits for a record that never comes. Such a position is skipped for a while, so that there
        is time for others."""
        place, left_s = (broker.servers, one), self._until - self._clock()
        if left_s <= 0 or place in self._empty:
            return None
        at = broker.timestamp_at(one.topic, one.partition, max(one.next, one.low), left_s)
        if at is None and left_s > AGED_S / 2:  # with less time it may only have been slow
            self._empty[place] = now + KEPT_S
        return None if at is None else max(0.0, now - at)

    def _seconds_since_write(self, query: Query, now: float) -> float | None:
        """The offsets of a real-time query are those of its last batch; its sink's topic shows what
        it does now. An error there is not a lag, and is retried only after a while."""
        sink = broker_connectors.kafka_sink(query)
        if sink is None or sink.topic is None:
            return None
        place = (sink.servers, sink.topic)
        if now < self._silent.get(place, 0.0):
            return None
        try:
            at = self._broker(sink).newest(sink.topic)
        except Error:
            self._silent[place] = now + KEPT_S
            return None
        return None if at is None else max(0.0, now - at)

    def _retention_s(self, broker: BrokerClient, topic: str, now: float) -> float | None:
        key = (broker.servers, topic)
        asked_at, kept_s = self._kept.get(key, (0.0, None))
        if now - asked_at > KEPT_S:
            kept_s = broker.retention_s(topic)
            self._kept[key] = (now, kept_s)
        return kept_s

    def _broker(self, connector: Kafka) -> BrokerClient:
        key = client_key(connector)
        if key not in self._brokers:
            self._brokers[key] = BrokerClient(connector, ASK_S)
        return self._brokers[key]


def queries(work: Workspace) -> Iterator[tuple[Definition, Query]]:
    for found in definitions.deployed(work.places):
        if broker_connectors.has_any(found):
            yield from ((found, query) for query in found.queries if query.checkpoint)
