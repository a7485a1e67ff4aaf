"""Queries to a Kafka broker through confluent-kafka, without Spark: topics, partitions, offsets,
single records. Errors say what is wrong and how to fix it.

Used by `check --connect`, the relay and the driver. Invariant: reads only, joins no consumer group.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from headrace.connectors.connector import resolve_secrets
from headrace.connectors.kafka import producer_options, start_offsets
from headrace.connectors.kafka.client_errors import (
    cause,
    confluent,
    explain_error,
    is_leaderless,
    no_topic,
    retry,
)
from headrace.errors import ConnectorError, Error

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

WITHIN_S = 10.0
PAUSE_S = 0.1  # between retries while a partition has no leader
BESIDE_S = 0.05  # timeout for the next record of a batch that was fetched
# Fetch one record at a time. With the defaults the client prefetches a whole partition, and at its
# end a fetch blocks the next request.
SMALL_FETCHES = {
    "fetch.wait.max.ms": 10,
    "fetch.message.max.bytes": 16_384,  # a larger record is still fetched, alone
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 5,
}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
READ, WRITE = "READ", "WRITE"  # the broker's names of ACL operations
_DONE = {READ: "read", WRITE: "write"}
QUIET = logging.Logger("librdkafka")  # its messages also come as errors
QUIET.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """Offsets of a partition: its first record, and the next one to be written."""

    low: int
    high: int

    @property
    def records(self) -> int:
        return self.high - self.low


class BrokerClient:
    """A connection to one cluster, as a context manager."""

    def __init__(self, connector: Kafka, within_s: float | None = None) -> None:
        self.servers = connector.servers
        self._connector = connector
        self._within_s = WITHIN_S if within_s is None else within_s
        self._events: list[Any] = []
        self._admin_client: Any = None
        self._consumer = self._client(SMALL_FETCHES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def topics(self) -> dict[str, list[int]]:
        """Partitions of all topics visible to this login, except internal topics."""
        found = self._list_topics()
        return {name: sorted(one.partitions) for name, one in found.items() if name[:2] != "__"}

    def find_partitions(self) -> dict[str, list[int]]:
        """Partitions of the connector's topics; raises if one is missing."""
        known = self.topics()
        one = self._connector
        if one.pattern:
            return {name: known[name] for name in sorted(known) if one.matches(name)}
        names = one.subscribe or tuple(one.assign) or ((one.topic,) if one.topic else ())
        for name in names:
            if name not in known:
                raise missing_topic(self.servers, name, known)
        for name, parts in one.assign.items():
            if missing := sorted(set(parts) - set(known[name])):
                raise ConnectorError(
                    f"Topic {name!r} does not have partition{'s' * (len(missing) != 1)} "
                    f"{', '.join(map(str, missing))}.",
                    why=f"It has {format_partition_count(len(known[name]))}, numbered from 0. "
                    "Spark would silently read nothing from a missing partition.",
                    fix="Remove the missing partitions from assign.",
                    slug="kafka-no-topic",
                )
        return {name: list(one.assign.get(name, known[name])) for name in names}

    def describe_sink(self, *wanted: str) -> str:
        """Describe the topic of a sink; raises if the login lacks a wanted permission."""
        if self._connector.topic is None:
            return f"{len(self.topics())} topics; each row names its topic"
        (partitions,) = self.find_partitions().values()
        topic = self._connector.topic
        self.require([topic], *wanted)
        done = " and ".join(_DONE[one] for one in wanted)
        return f"{topic}: {format_partition_count(len(partitions))}, with permission to {done}"

    def require(self, topics: Sequence[str], *wanted: str) -> None:
        """Raises if the login lacks a wanted permission on one of the topics."""
        described = self._describe_topics(topics, include_authorized_operations=True)
        for topic, found in described.items():
            allowed = found.authorized_operations
            may = {one.name for one in allowed or ()}
            missing = [one for one in wanted if one not in may]
            if allowed is not None and "ALL" not in may and missing:
                raise explain_error(
                    self.servers,
                    confluent().KafkaError.TOPIC_AUTHORIZATION_FAILED,
                    f"Allowed on {topic}: {', '.join(sorted(may)) or 'nothing'}. Missing: "
                    f"{missing[0]}.",
                    self._connector,
                )

    def ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], TopicEnds]:
        kafka = confluent()
        found = {}
        for topic, numbers in partitions.items():
            for number in numbers:
                at = kafka.TopicPartition(topic, number)
                ask = partial(self._consumer.get_watermark_offsets, at, timeout=self._within_s)
                found[topic, number] = TopicEnds(*self._call_with_retry(ask))
        return found

    def timestamp_at(
        self, topic: str, partition: int, offset: int, within_s: float | None = None
    ) -> float | None:
        """Timestamp of the record at this offset or the next existing one. None if none came in
        time, for example because only a transaction marker follows."""
        wait_s = self._within_s if within_s is None else within_s
        found = self._read(topic, partition, offset, time.monotonic() + wait_s)
        if not found:
            return None
        kind, at = found[0].timestamp()
        return at / 1000 if kind != confluent().TIMESTAMP_NOT_AVAILABLE else None

    def newest(self, topic: str) -> float | None:
        """Timestamp of its newest record, None without records. Old brokers do not support it."""
        from confluent_kafka.admin import OffsetSpec

        kafka = confluent()
        known = self._list_topics(topic)
        latest = OffsetSpec.max_timestamp()
        wanted = {kafka.TopicPartition(topic, n): latest for n in known[topic].partitions}
        if not wanted:
            return None

        def times() -> list[int]:
            asked = self._admin().list_offsets(wanted, request_timeout=self._within_s)
            return [one.result().timestamp for one in asked.values()]

        return max((at / 1000 for at in self._call_with_retry(times) if at >= 0), default=None)

    def retention_s(self, topic: str) -> float | None:
        """The retention of the topic; None if unlimited, or not visible to this login."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._admin().describe_configs([resource], request_timeout=self._within_s)
        try:
            found = self._call_with_retry(asked[resource].result).get("retention.ms")
        except Error:
            return None
        kept_ms = int(found.value) if found is not None else -1
        return kept_ms / 1000 if kept_ms >= 0 else None

    def _client(self, more: Mapping[str, int] | None = None) -> Any:
        settings = {
            **(more or {}),
            "group.id": "headrace-asks",  # required by the client, never joined
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # The end of a partition depends on the isolation level of the query.
            "isolation.level": isolation_level(self._connector),
            "socket.timeout.ms": int(self._within_s * 1000),
            "error_cb": self._events.append,
        }
        return create_client(confluent().Consumer, self._connector, settings)

    def _read(
        self,
        topic: str,
        partition: int,
        offset: int,
        until: float,
        most: int = 1,
        before: float = math.inf,
    ) -> list[Any]:
        """At most `most` records from `offset`, as far as they arrive until then (`monotonic`)."""
        place = confluent().TopicPartition(topic, partition, offset)
        self._call_with_retry(lambda: self._consumer.assign([place]))
        found: list[Any] = []
        try:
            while len(found) < most and (not found or found[-1].offset() < before - 1):
                wait_s = BESIDE_S if found else max(0.0, until - time.monotonic())
                message = self._call_with_retry(partial(self._consumer.poll, wait_s))
                if message is not None and message.error() is not None:
                    raise self._build_error(message.error())
                if message is None or message.offset() >= before:
                    break
                found.append(message)
        finally:
            self._consumer.unassign()
        return found

    def _list_topics(self, *topic: str, within_s: float | None = None) -> dict[str, Any]:
        timeout = self._within_s if within_s is None else within_s
        found = self._call_with_retry(lambda: self._consumer.list_topics(*topic, timeout=timeout))
        return dict(found.topics)

    def _describe_topics(self, topics: Sequence[str], **more: bool) -> dict[str, Any]:
        if not topics:
            return {}
        wanted = confluent().TopicCollection(list(topics))
        ask = partial(self._admin().describe_topics, wanted, request_timeout=self._within_s, **more)
        return dict(
            self._call_with_retry(lambda: {name: one.result() for name, one in ask().items()})
        )

    def _admin(self) -> Any:
        """Kept in a field: results are lost when the client is garbage collected."""
        from confluent_kafka.admin import AdminClient

        if self._admin_client is None:
            self._admin_client = create_client(AdminClient, self._connector, {})
        return self._admin_client

    def _call_with_retry(self, ask: Callable[[], Any]) -> Any:
        """Retry while leaders move, as in a broker restart: consumers and producers wait for that,
        but metadata requests fail."""
        self._events.clear()
        try:
            return retry(ask, self._within_s, PAUSE_S, lambda error: is_leaderless(error.code()))
        except confluent().KafkaException as exc:
            raise self._build_error(exc.args[0]) from exc

    def _build_error(self, error: Any) -> Error:
        """The most specific cause: the one of a timeout comes as a separate event."""
        self._consumer.poll(0)  # delivers pending events
        worst = cause(self._events, error)
        return explain_error(self.servers, worst.code(), worst.str(), self._connector)


def missing_topic(servers: str, name: str, known: Iterable[str]) -> ConnectorError:
    why = f"Topics visible to this login: {', '.join(sorted(known)[:10]) or 'none'}."
    return no_topic(servers, name, why, known)


def isolation_level(connector: Kafka) -> str:
    """The isolation level of a stream that reads this connector; Spark's default is uncommitted."""
    given = {name.lower(): value for name, value in resolve_secrets(connector.options).items()}
    level = given.get("kafka.isolation.level")
    is_committed = connector.exactly_once if level is None else level == COMMITTED
    return COMMITTED if is_committed else UNCOMMITTED


def client_key(connector: Kafka) -> str:
    """Connectors with the same key can share a client: cluster, login, isolation."""
    return json.dumps([connector.client(), isolation_level(connector)], sort_keys=True)


def create_client(
    kind: Any,
    connector: Kafka,
    settings: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Any:
    """`settings` override the user's `options`. Raises for invalid ones, without a connection."""
    own = {**connector.client(), **(options or {}), **settings, "log_level": 0}
    try:
        return kind(own, logger=QUIET)
    except confluent().KafkaException as exc:
        error = exc.args[0]
        if options and error.code() == confluent().KafkaError._INVALID_ARG:
            raise producer_options.option_error(error.str()) from exc
        raise explain_error(connector.servers, error.code(), error.str(), connector) from exc


def check_connection(connector: Kafka, wanted: Sequence[str] = (WRITE,)) -> str:
    """Connect and describe what the connector reads or writes; raises on problems. `wanted` are
    the permissions needed on a sink's topic."""
    with BrokerClient(connector) as broker:
        if not connector.is_source:
            return broker.describe_sink(*wanted)
        found = broker.find_partitions()
        ends = broker.ends(found)
        at = {place: (one.low, one.high) for place, one in ends.items()}
        if wrong := start_offsets.find_problem(connector.starting, at):
            raise start_offsets.invalid_offsets("starting", json.loads(connector.starting), wrong)
        there = next((at for at, one in ends.items() if one.records), None)
        if there is not None:
            broker.timestamp_at(*there, ends[there].low)  # reads one record
        broker.require([topic for topic in found if not there or topic != there[0]], READ)
    records = sum(one.records for one in ends.values())
    names = ", ".join(found) or f"no topic matches {connector.pattern}"
    return f"{names}: {format_partition_count(len(ends))}, {records:,} records"


def format_partition_count(partitions: int) -> str:
    return f"{partitions} partition{'s' * (partitions != 1)}"
