"""Following a topic by our own client, from remembered places on: for the relay and the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.kafkabroker import Broker
from headrace.connectors.kafkafailures import confluent

if TYPE_CHECKING:
    from headrace.connectors.kafka import Kafka


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    at: float  # seconds
    value: bytes


class Following(Broker):
    """Reads record after record; joins no consumer group either. By a client of its own: a broker
    answers one request of a client after the other, and reading is a request that waits there for
    the next record, so that every question beside it would."""

    def __init__(self, connector: Kafka, within_s: float | None = None) -> None:
        super().__init__(connector, within_s)
        self._reader = self._client()

    def close(self) -> None:
        self._reader.close()
        super().close()

    def identity(self, topic: str) -> str:
        """One made anew under the same name is another one."""
        id_ = self._described([topic])[topic].topic_id
        bits = (id_.get_most_significant_bits(), id_.get_least_significant_bits())
        return f"{topic} {bits[0]:x}-{bits[1]:x}"  # an old broker gives none

    def partitions(self, topic: str) -> list[int]:
        """Of this one alone; raises if it is not there."""
        found = self._asked(lambda: self._consumer.list_topics(topic, timeout=self._within_s))
        one = found.topics.get(topic)
        if one is None or one.error is not None or not one.partitions:
            raise self._missing(topic, self.topics())
        return sorted(one.partitions)

    def follow(self, topic: str, starts: Mapping[int, int]) -> None:
        """From here on `next` gives the records of these partitions, from these places on."""
        kafka = confluent()
        wish = [kafka.TopicPartition(topic, number, at) for number, at in starts.items()]
        self._asked(lambda: self._reader.assign(wish))

    def next(self, within_s: float, most: int = 500) -> list[Record]:
        """The records that are there, at once; [] if none comes within this time."""
        first = self._asked(lambda: self._reader.poll(within_s))
        if first is None:
            return []
        more = self._asked(lambda: self._reader.consume(most - 1, 0))
        found = []
        for one in (first, *more):
            if one.error() is not None:
                raise self._failed(one.error())
            at = one.timestamp()[1] / 1000
            found.append(Record(one.partition(), one.offset(), at, one.value() or b""))
        return found
