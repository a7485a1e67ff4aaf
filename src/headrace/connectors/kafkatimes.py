"""When records of a topic were written, by where they lie: for the age of a batch.

Spark would tell it of each batch by itself (`observe`), but counts record by record, outside of the
code that it generates: a twentieth of the CPU of a query that parses, joins and writes. Two records
of a partition say nearly as much.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

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
        until = time.monotonic() + within_s
        if topic not in self._known:  # else the client looks for it once a second
            self._asked(lambda: self._consumer.list_topics(topic, timeout=within_s))
            self._known.add(topic)
        begin = self._read(topic, partition, first, after, until, most=1)
        tail = max(first, after - TAIL)
        end = self._read(topic, partition, tail, after, until, most=TAIL) if begin else []
        return (begin[0], end[-1]) if end else None

    def _read(
        self, topic: str, partition: int, offset: int, after: int, until: float, most: int
    ) -> list[float]:
        kafka = confluent()
        place = kafka.TopicPartition(topic, partition, offset)
        self._asked(lambda: self._consumer.assign([place]))
        found: list[float] = []
        try:
            while len(found) < most:
                wait_s = BESIDE_S if found else max(0.0, until - time.monotonic())
                message = self._asked(partial(self._consumer.poll, wait_s))
                if message is None:
                    break
                if message.error() is not None:
                    raise self._failed(message.error())
                kind, at = message.timestamp()
                if message.offset() >= after or kind == kafka.TIMESTAMP_NOT_AVAILABLE:
                    break
                found.append(at / 1000)
                if message.offset() == after - 1:
                    break
        finally:
            self._consumer.unassign()
        return found
