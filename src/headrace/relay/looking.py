"""Asks brokers how far each query is behind, from its checkpoint: also while it is down.

Called by `main` every few seconds. One connection a cluster, login and isolation is kept.
Invariant: whatever a broker does, the answer is a QueryLag; what is wrong stands in its `problem`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from headrace.checkpoints import positions
from headrace.checkpoints.positions import Positions
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import Broker, shared_by
from headrace.errors import Error
from headrace.model import lag
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.pipeline import Definition, Query
from headrace.project import definitions, topics
from headrace.project.workspace import Workspace
from headrace.state import desired

ASK_S = 5.0
LOOKS = 12  # a minute of them, for rates
KEPT_S = 60.0  # a topic's retention is asked for once in so long; so is a sink without an answer
AGED_MAX = 16  # partitions of a query whose oldest record is looked at: those most behind
AGED_S = 2.0  # for all of a look: alert rows wait in the same thread


class Looking:
    """Owns the connections, and the last looks at each query."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0  # of this look: when no further oldest record is asked for
        self._brokers: dict[str, Broker] = {}
        self._seen: dict[tuple[str, str], deque[QueryLag]] = {}
        self._kept: dict[tuple[str, str], tuple[float, float | None]] = {}
        self._silent: dict[tuple[str, str], float] = {}  # a topic that did not answer, until when
        self._empty: dict[tuple[str, PartitionLag], float] = {}  # the same, of a place in a topic

    def look(self, work: Workspace) -> list[QueryLag]:
        found = []
        self._until = self._clock() + AGED_S
        now = time.time()
        self._empty = {place: until for place, until in self._empty.items() if now < until}
        down: dict[str, str] = {}  # a cluster that does not answer is asked once a look
        for definition, query in queries(work):
            read = positions.of(query.checkpoint or "")
            if read == {}:
                continue
            one = self._of_query(definition, query, read, down)
            seen = self._seen.setdefault((one.pipeline, one.query), deque(maxlen=LOOKS))
            seen.append(one)
            found.append(replace(one, catch_up_s=lag.catch_up_s(tuple(seen))))
        return found

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    def _of_query(
        self, definition: Definition, query: Query, read: Positions | None, down: dict[str, str]
    ) -> QueryLag:
        is_real_time = query.trigger.get("kind") == "real-time"
        told = QueryLag(definition.pipeline, query.name, time.time(), is_real_time=is_real_time)
        if is_real_time:
            told = replace(told, written_s=self._written_s(query, told.at))
        if read is None:
            return replace(told, problem="its checkpoint is not on a disk of this machine")
        partitions: list[PartitionLag] = []
        gone: list[str] = []
        for connector in topics.read_by(definition, query):
            try:
                mine = {t: read.pop(t) for t in list(read) if connector.covers(t)}
                if mine and connector.servers not in down:
                    gone += self._gone(connector, mine)
                    partitions += self._of_topics(connector, mine, told.at)
            except Error as exc:
                self.close()  # the next look begins anew
                down[connector.servers] = f"{exc.what} {exc.why or ''}".strip()
            if connector.servers in down:
                return replace(told, problem=down[connector.servers])
        anew = [f"{one.topic} {one.partition}" for one in partitions if one.next > one.high]
        unknown = "not known, or read with a login that only the code has"
        for words, names in (("gone", gone), ("made anew", anew), (unknown, list(read))):
            if names:
                return replace(told, problem=f"topics {words}: {', '.join(names)}")
        return replace(told, partitions=tuple(partitions))

    def _gone(self, connector: Kafka, mine: Positions) -> list[str]:
        """Takes what the broker does not have out of `mine`, and names it."""
        known = self._broker(connector).topics()
        found = [(t, p) for t, parts in mine.items() for p in parts if p not in known.get(t, ())]
        for topic, partition in found:
            del mine[topic][partition]
        return [f"{topic} {partition}" for topic, partition in found]

    def _of_topics(self, connector: Kafka, mine: Positions, now: float) -> Iterator[PartitionLag]:
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
                one = replace(one, waits_s=waits_s, kept_s=self._kept_s(broker, one.topic, now))
            yield one

    def _waits_s(self, broker: Broker, one: PartitionLag, now: float) -> float | None:
        """Of transactions there may be nothing ahead but markers and what was aborted: the client
        then waits for a record that never comes. Such a place is let be for a while, so that the
        next look has time for others."""
        place, left_s = (broker.servers, one), self._until - self._clock()
        if left_s <= 0 or place in self._empty:
            return None
        at = broker.moment(one.topic, one.partition, max(one.next, one.low), left_s)
        if at is None and left_s > AGED_S / 2:  # with less time it may just have been late
            self._empty[place] = now + KEPT_S
        return None if at is None else max(0.0, now - at)

    def _written_s(self, query: Query, now: float) -> float | None:
        """A real-time query's own offsets are of its last batch: its topic tells what it does now.
        What goes wrong there is nobody's lag, and is asked again only after a while."""
        sink = topics.written_by(query)
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

    def _kept_s(self, broker: Broker, topic: str, now: float) -> float | None:
        key = (broker.servers, topic)
        asked_at, kept_s = self._kept.get(key, (0.0, None))
        if now - asked_at > KEPT_S:
            kept_s = broker.kept_s(topic)
            self._kept[key] = (now, kept_s)
        return kept_s

    def _broker(self, connector: Kafka) -> Broker:
        key = shared_by(connector)
        if key not in self._brokers:
            self._brokers[key] = Broker(connector, ASK_S)
        return self._brokers[key]


def queries(work: Workspace) -> Iterator[tuple[Definition, Query]]:
    for item in desired.listed(work.places):
        found = definitions.stored(work, item.version, item.profile, item.pipeline)
        if found is not None and topics.has_any(found):
            yield from ((found, query) for query in found.queries if query.checkpoint)
