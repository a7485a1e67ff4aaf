"""Writes records to a topic through confluent-kafka and waits for their acknowledgement.
Used by the relay; pipelines write through Spark.

Invariant: `send` returns within its time limit plus the seconds below and queues nothing: the
caller sends unacknowledged records again. They may have arrived, so delivery is at-least-once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.connectors.connector import resolve_secrets
from headrace.connectors.kafka import producer_options
from headrace.connectors.kafka.broker_client import create_client
from headrace.connectors.kafka.client_errors import cause, confluent, explain_error, no_topic
from headrace.connectors.kafka.connector import Kafka
from headrace.errors import Error

_UNTIL_REPORTED_S = 2.0  # extra time for delivery reports
_ASK_S = 1.0  # extra time to find the cause of a failure


@dataclass(frozen=True, slots=True)
class Delivery:
    """Numbers of the records that arrived, and of those that are too large for the broker. Without
    a problem, the time was too short for the others."""

    arrived: frozenset[int]
    too_large: frozenset[int]
    problem: Error | None


class Producer:
    """`connector` is a sink with a topic; `within_s` is the time limit of one `send`."""

    def __init__(
        self, connector: Kafka, within_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connector = connector
        self._within_s = within_s
        self._clock = clock
        self._events: list[Any] = []
        self._producer = self._create_producer()

    def _create_producer(self) -> Any:
        settings = {
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,  # a retry must not change the order
            "linger.ms": 20,
            "message.timeout.ms": int(self._within_s * 1000),
            "error_cb": self._events.append,
        }
        options = producer_options.to_librdkafka(resolve_secrets(self._connector.options))
        return create_client(confluent().Producer, self._connector, settings, options)

    def send(self, records: Sequence[tuple[str, bytes]]) -> Delivery:
        until = self._clock() + self._within_s
        self._events.clear()
        numbered = dict(enumerate(records))
        failed = self._failures(numbered, until)
        other = next((error for error in failed.values() if not _is_too_large(error)), None)
        # A record that is too large fails its whole batch, so each is sent alone, the oldest first,
        # unless there is another problem. At least one, so that a slow broker makes progress too.
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
        problem = None if other is None else self._build_error(other, until)
        arrived = frozenset(numbered.keys() - failed.keys())
        return Delivery(arrived, frozenset(too_large), problem)

    def _failures(self, records: Mapping[int, tuple[str, bytes]], until: float) -> dict[int, Any]:
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
        if self._producer.flush(self._remaining_s(until + _UNTIL_REPORTED_S)):
            # The caller sends these again, so they must not arrive later. A client drops all
            # records after a purge, so it is replaced.
            self._producer.purge()
            self._producer = self._create_producer()
        silent = kafka.KafkaError(kafka.KafkaError._TIMED_OUT)
        results = {number: reports.get(number, silent) for number in records}
        return {number: error for number, error in results.items() if error is not None}

    def _remaining_s(self, until: float) -> float:
        """Never negative, which the client would take as no timeout."""
        return max(0.0, until - self._clock())

    def close(self) -> None:
        self._producer.purge()

    def _build_error(self, error: Any, until: float) -> Error:
        """A missing topic is only reported as a timeout, so ask for it."""
        one, kafka = self._connector, confluent()
        worst = cause(self._events, error)
        if worst is error:
            try:
                left_s = max(_ASK_S, self._remaining_s(until + _UNTIL_REPORTED_S))
                asked = self._producer.list_topics(one.topic, timeout=left_s)
            except kafka.KafkaException as exc:
                worst = cause(self._events, exc.args[0])
            else:
                if (missing := asked.topics[one.topic].error) is not None:
                    return no_topic(one.servers, one.topic, missing.str())
        return explain_error(one.servers, worst.code(), worst.str(), one)


def _is_too_large(error: Any) -> bool:
    return bool(error.code() == confluent().KafkaError.MSG_SIZE_TOO_LARGE)
