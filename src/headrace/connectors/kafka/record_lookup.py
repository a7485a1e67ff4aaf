"""Timestamps and values of a few records of a topic, by offset.

Spark's `observe` could report the same for each batch, but it runs outside of generated code and
costs 5 % of the CPU of a typical query. Two records of a partition are nearly as good.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.connectors.kafka.broker_client import BrokerClient
from headrace.connectors.kafka.client_errors import confluent

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

TAIL = 4  # offsets to search for the last record: transaction markers also have offsets


class RecordLookup(BrokerClient):
    def __init__(self, connector: Kafka, within_s: float | None = None) -> None:
        super().__init__(connector, within_s)
        self._known: set[str] = set()

    def between(
        self, topic: str, partition: int, first: int, after: int, within_s: float
    ) -> tuple[float, float] | None:
        """Timestamps of the first and the last record before `after`. None if they did not arrive
        in time, or have no timestamp."""
        kafka = confluent()
        until = self._until(topic, within_s)
        begin = self._read(topic, partition, first, until, before=after)
        tail = max(first, after - TAIL)
        end = self._read(topic, partition, tail, until, TAIL, after) if begin else []
        stamps = [one.timestamp() for one in (*begin, *end[-1:])]
        if len(stamps) < 2 or any(kind == kafka.TIMESTAMP_NOT_AVAILABLE for kind, _ in stamps):
            return None
        return stamps[0][1] / 1000, stamps[1][1] / 1000

    def values(
        self, topic: str, partition: int, first: int, after: int, within_s: float, most: int
    ) -> list[bytes | None]:
        """Values of at most `most` records from `first`, as far as they arrive in time."""
        until = self._until(topic, within_s)
        return [one.value() for one in self._read(topic, partition, first, until, most, after)]

    def _until(self, topic: str, within_s: float) -> float:
        until = time.monotonic() + within_s
        if topic not in self._known:  # otherwise the client refreshes metadata once a second
            self._list_topics(topic, within_s=within_s)
            self._known.add(topic)
        return until
