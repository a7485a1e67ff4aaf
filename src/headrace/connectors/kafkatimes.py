"""A few records of a topic, by where they lie: when they were written, and what they say.

Spark would tell it of each batch by itself (`observe`), but counts record by record, outside of the
code that it generates: a twentieth of the CPU of a query that parses, joins and writes. Two records
of a partition say nearly as much.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.connectors.kafkabroker import Broker
from headrace.connectors.kafkafailures import confluent

if TYPE_CHECKING:
    from headrace.connectors.kafka import Kafka

TAIL = 4  # places that are looked at for the last record: markers of transactions take some, too
BESIDE_S = 0.05  # the next record of those that lie there already comes within this time


class Times(Broker):
    def __init__(self, connector: Kafka, within_s: float | None = None) -> None:
        super().__init__(connector, within_s)
        self._known: set[str] = set()

    def between(
        self, topic: str, partition: int, first: int, after: int, within_s: float
    ) -> tuple[float, float] | None:
        """Of the first and of the last record in these places, up to `after`. None: none of them
        came in time, or they carry no time."""
        kafka = confluent()
        until = self._until(topic, within_s)
        begin = self._read(topic, partition, first, after, until, most=1)
        tail = max(first, after - TAIL)
        end = self._read(topic, partition, tail, after, until, most=TAIL) if begin else []
        stamps = [one.timestamp() for one in (*begin, *end[-1:])]
        if len(stamps) < 2 or any(kind == kafka.TIMESTAMP_NOT_AVAILABLE for kind, _ in stamps):
            return None
        return stamps[0][1] / 1000, stamps[1][1] / 1000

    def values(
        self, topic: str, partition: int, first: int, after: int, within_s: float, most: int
    ) -> list[bytes | None]:
        """Of so many records from `first` on, or of those that came in time."""
        until = self._until(topic, within_s)
        return [one.value() for one in self._read(topic, partition, first, after, until, most)]

    def _until(self, topic: str, within_s: float) -> float:
        until = time.monotonic() + within_s
        if topic not in self._known:  # else the client looks for it once a second
            self._asked(lambda: self._consumer.list_topics(topic, timeout=within_s))
            self._known.add(topic)
        return until

    def _read(
        self, topic: str, partition: int, offset: int, after: int, until: float, most: int
    ) -> list[Any]:
        kafka = confluent()
        place = kafka.TopicPartition(topic, partition, offset)
        self._asked(lambda: self._consumer.assign([place]))
        found: list[Any] = []
        try:
            while len(found) < most:
                wait_s = BESIDE_S if found else max(0.0, until - time.monotonic())
                message = self._asked(partial(self._consumer.poll, wait_s))
                if message is None:
                    break
                if message.error() is not None:
                    raise self._failed(message.error())
                if message.offset() >= after:
                    break
                found.append(message)
                if message.offset() == after - 1:
                    break
        finally:
            self._consumer.unassign()
        return found
