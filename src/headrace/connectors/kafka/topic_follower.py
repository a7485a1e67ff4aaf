"""Reads a topic record by record from given offsets; used by the relay and the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.kafka.broker_client import BrokerClient, missing_topic
from headrace.connectors.kafka.client_errors import confluent

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    at: float  # seconds
    value: bytes


class TopicFollower(BrokerClient):
    """Joins no consumer group. It reads through a second client, because a pending fetch would
    block all other requests of the same client."""

    def __init__(self, connector: Kafka, within_s: float | None = None) -> None:
        super().__init__(connector, within_s)
        self._reader = self._client()

    def close(self) -> None:
        self._reader.close()
        super().close()

    def identity(self, topic: str) -> str:
        """Differs for a topic that was deleted and created again."""
        id_ = self._describe_topics([topic])[topic].topic_id
        bits = (id_.get_most_significant_bits(), id_.get_least_significant_bits())
        return f"{topic} {bits[0]:x}-{bits[1]:x}"  # zero from an old broker

    def partitions(self, topic: str) -> list[int]:
        """Raises if the topic does not exist."""
        one = self._list_topics(topic).get(topic)
        if one is None or one.error is not None or not one.partitions:
            raise missing_topic(self.servers, topic, self.topics())
        return sorted(one.partitions)

    def follow(self, topic: str, starts: Mapping[int, int]) -> None:
        """`next` then returns records of these partitions, from these offsets on."""
        kafka = confluent()
        wish = [kafka.TopicPartition(topic, number, at) for number, at in starts.items()]
        self._call_with_retry(lambda: self._reader.assign(wish))

    def next(self, within_s: float, most: int = 500) -> list[Record]:
        """The records available now; waits for the first one, [] if none comes in time."""
        first = self._call_with_retry(lambda: self._reader.poll(within_s))
        if first is None:
            return []
        more = self._call_with_retry(lambda: self._reader.consume(most - 1, 0))
        found = []
        for one in (first, *more):
            if one.error() is not None:
                raise self._build_error(one.error())
            at = one.timestamp()[1] / 1000
            found.append(Record(one.partition(), one.offset(), at, one.value() or b""))
        return found
