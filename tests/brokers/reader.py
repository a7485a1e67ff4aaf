"""A reader that sees what is committed, or all there is."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from brokers.cluster import Cluster


class Reader:
    """All of a topic from its beginning, as far as it may be seen."""

    def __init__(self, broker: Cluster, topic: str, isolation: str) -> None:
        self.values: list[str] = []
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.servers(),
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def more(self) -> Any:
        """The newest of what has come, if anything has."""
        found = [m for m in self._consumer.consume(10_000, 0.05) if m.error() is None]
        self.values += [m.value().decode() for m in found]
        return found[-1] if found else None

    def end(self, partition: int) -> int:
        """Of what may be seen."""
        at = TopicPartition(self._topic, partition)
        return int(self._consumer.get_watermark_offsets(at, timeout=10)[1])

    def close(self) -> None:
        self._consumer.close()


@contextlib.contextmanager
def reading(broker: Cluster, topic: str, isolation: str = "read_committed") -> Iterator[Reader]:
    reader = Reader(broker, topic, isolation)
    try:
        yield reader
    finally:
        reader.close()


def committed(broker: Cluster, topic: str, count: int, timeout_s: float = 30) -> list[str]:
    """What is committed once there are so many, and all that follows for a second."""
    with reading(broker, topic) as reader:
        deadline = time.monotonic() + timeout_s
        while len(reader.values) < count and time.monotonic() < deadline:
            reader.more()
        quiet = time.monotonic() + 1
        while time.monotonic() < quiet:
            reader.more()
        return reader.values
