"""Writing records to one topic by our own client (confluent-kafka), each confirmed by the broker.
Used by the relay; pipelines write through Spark.

Invariant: `send` returns within its time and the seconds named below, and keeps nothing: what was
not confirmed is the caller's again. It may have arrived all the same, so delivery is at least once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.connectors import kafkaoptions
from headrace.connectors.connector import resolved
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import begun
from headrace.connectors.kafkafailures import cause, confluent, explained
from headrace.errors import ConnectorError, Error

_UNTIL_REPORTED_S = 2.0  # beyond a record's own time: every one is reported by then
_ASK_S = 1.0  # beyond that: why it failed


@dataclass(frozen=True, slots=True)
class Confirmed:
    """By number: which records arrived, and which are too large for the broker, each by itself.
    Without a problem the others were not tried for want of time."""

    arrived: frozenset[int]
    too_large: frozenset[int]
    problem: Error | None


class Records:
    """A connection; `connector` is a sink with a topic. `within_s` is the time of one `send`."""

    def __init__(
        self, connector: Kafka, within_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connector = connector
        self._within_s = within_s
        self._clock = clock
        self._said: list[Any] = []
        self._producer = self._begun()

    def _begun(self) -> Any:
        settings = {
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,  # a retry must not change the order
            "linger.ms": 20,
            "message.timeout.ms": int(self._within_s * 1000),
            "error_cb": self._said.append,
        }
        options = kafkaoptions.translated(resolved(self._connector.options))
        return begun(confluent().Producer, self._connector, settings, options)

    def send(self, records: Sequence[tuple[str, bytes]]) -> Confirmed:
        """Key and value of each."""
        until = self._clock() + self._within_s
        self._said.clear()
        numbered = dict(enumerate(records))
        failed = self._failures(numbered, until)
        other = next((error for error in failed.values() if not _is_too_large(error)), None)
        # Records travel in batches, and one that is too large has its whole batch refused: so each
        # is tried by itself, the oldest first, as long as nothing else is wrong. One at least: a
        # slow broker must not have us go in circles.
        unsure = deque(sorted(n for n, error in failed.items() if _is_too_large(error)))
        too_large = set()
        while unsure and other is None:
            number = unsure.popleft()
            error = self._failures({number: records[number]}, until).get(number)
            if error is None:
                del failed[number]
            elif _is_too_large(error):
                too_large.add(number)
            else:
                other = error
            if self._clock() >= until:
                break
        problem = None if other is None else self._failed(other, until)
        arrived = frozenset(numbered.keys() - failed.keys())
        return Confirmed(arrived, frozenset(too_large), problem)

    def _failures(self, records: Mapping[int, tuple[str, bytes]], until: float) -> dict[int, Any]:
        """What the broker did not confirm, and why."""
        kafka = confluent()
        reports: dict[int, Any] = {}
        for number, (key, value) in records.items():
            try:
                self._producer.produce(
                    self._connector.topic,
                    key=key.encode(),
                    value=value,
                    on_delivery=lambda error, _, number=number: reports.update({number: error}),
                )
            except kafka.KafkaException as exc:
                reports[number] = exc.args[0]
        if self._producer.flush(self._left_s(until + _UNTIL_REPORTED_S)):
            # What is left would arrive behind the back of who sends it again. A client that has
            # thrown records away once throws away every later one too: it is done with.
            self._producer.purge()
            self._producer = self._begun()
        silent = kafka.KafkaError(kafka.KafkaError._TIMED_OUT)
        told = {number: reports.get(number, silent) for number in records}
        return {number: error for number, error in told.items() if error is not None}

    def _left_s(self, until: float) -> float:
        """Never negative: to the client that means without end."""
        return max(0.0, until - self._clock())

    def close(self) -> None:
        self._producer.purge()

    def _failed(self, error: Any, until: float) -> Error:
        """A topic that is not there shows only as a record that took too long."""
        one, kafka = self._connector, confluent()
        worst = cause(self._said, error)
        if worst is error:
            try:
                left_s = max(_ASK_S, self._left_s(until + _UNTIL_REPORTED_S))
                asked = self._producer.list_topics(one.topic, timeout=left_s)
            except kafka.KafkaException as exc:
                worst = cause(self._said, exc.args[0])
            else:
                if asked.topics[one.topic].error is not None:
                    return ConnectorError(
                        f"There is no topic {one.topic!r} on {one.servers}.",
                        why=asked.topics[one.topic].error.str(),
                        fix="Create it, or look whether the login may see it.",
                        slug="kafka-no-topic",
                    )
        return explained(one.servers, worst.code(), worst.str(), one)


def _is_too_large(error: Any) -> bool:
    return bool(error.code() == confluent().KafkaError.MSG_SIZE_TOO_LARGE)
