"""Asks brokers how far each query is behind, from its checkpoint: also while it is down.

Called by `main` every few seconds. One connection a cluster and login is kept. Invariant: whatever
a broker does, the answer is a QueryLag; what is wrong stands in its `problem`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headrace.checkpoints import positions
from headrace.checkpoints.positions import Positions
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import Broker
from headrace.errors import Error
from headrace.model import lag
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.pipeline import Definition, Query
from headrace.project import definitions, topics
from headrace.project.workspace import Workspace
from headrace.state import desired

ASK_S = 5.0
LOOKS = 12  # a minute of them, for rates
KEPT_S = 60.0  # a topic's retention is asked for once in so long
AGED_MAX = 16  # partitions of a query whose oldest record is looked at: those most behind


class Looking:
    """Owns the connections, and the last looks at each query."""

    def __init__(self) -> None:
        self._brokers: dict[str, Broker] = {}
        self._seen: dict[tuple[str, str], deque[QueryLag]] = {}
        self._kept: dict[tuple[str, str], tuple[float, float | None]] = {}

    def look(self, work: Workspace, now: float) -> list[QueryLag]:
        found = []
        for definition, query in _queries(work):
            if not (read := positions.of(Path(query.checkpoint or ""))):
                continue
            one = self._of_query(definition, query, read, now)
            seen = self._seen.setdefault((one.pipeline, one.query), deque(maxlen=LOOKS))
            seen.append(one)
            found.append(replace(one, catch_up_s=lag.catch_up_s(tuple(seen))))
        return found

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    def _of_query(
        self, definition: Definition, query: Query, read: Positions, now: float
    ) -> QueryLag:
        told = QueryLag(definition.pipeline, query.name, now)
        partitions: list[PartitionLag] = []
        try:
            for connector in topics.read_by(definition):
                mine = {t: read.pop(t) for t in list(read) if connector.covers(t)}
                partitions += self._of_topics(connector, mine, now) if mine else []
        except Error as exc:
            self.close()  # the next look begins anew
            return replace(told, problem=f"{exc.what} {exc.why or ''}".strip())
        return replace(told, partitions=tuple(partitions))

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
                at = broker.moment(one.topic, one.partition, max(one.next, one.low))
                waits_s = None if at is None else max(0.0, now - at)
                one = replace(one, waits_s=waits_s, kept_s=self._kept_s(broker, one.topic, now))
            yield one

    def _kept_s(self, broker: Broker, topic: str, now: float) -> float | None:
        key = (broker.servers, topic)
        asked_at, kept_s = self._kept.get(key, (0.0, None))
        if now - asked_at > KEPT_S:
            kept_s = broker.kept_s(topic)
            self._kept[key] = (now, kept_s)
        return kept_s

    def _broker(self, connector: Kafka) -> Broker:
        key = json.dumps(connector.client(), sort_keys=True)
        if key not in self._brokers:
            self._brokers[key] = Broker(connector, ASK_S)
        return self._brokers[key]


def _queries(work: Workspace) -> Iterator[tuple[Definition, Query]]:
    for item in desired.listed(work.places):
        found = definitions.stored(work, item.version, item.profile, item.pipeline)
        if found is not None and topics.has_any(found):
            yield from ((found, query) for query in found.queries if query.checkpoint)
