"""Asking a Kafka broker by our own client (confluent-kafka), without Spark: topics, partitions,
where they begin and end, one record. Every failure becomes words and a fix.

Used by `check --connect`, the relay and the driver. Invariant: reads only, and joins no consumer
group.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.connectors import kafkaoffsets, kafkaoptions
from headrace.connectors.connector import resolved
from headrace.connectors.kafkafailures import cause, confluent, explained, is_leaderless
from headrace.errors import ConnectorError, Error
from headrace.words import near

if TYPE_CHECKING:
    from headrace.connectors.kafka import Kafka

WITHIN_S = 10.0
PAUSE_S = 0.1  # while a partition has no leader: a new one is found in moments
# One record at a time: a client that reads on takes all that lies there, and where nothing does, a
# broker answers its next question only when something comes.
LITTLE = {
    "fetch.wait.max.ms": 10,
    "fetch.message.max.bytes": 16_384,  # a larger one comes as well, alone
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 5,
}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
READ, WRITE = "READ", "WRITE"  # as the broker calls what a login may do
_DONE = {READ: "read", WRITE: "written"}
QUIET = logging.Logger("librdkafka")  # what it says comes back as errors; its own words twice
QUIET.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Ends:
    """Of a partition: the first record that is still there, and the one that comes next."""

    low: int
    high: int

    @property
    def records(self) -> int:
        return self.high - self.low


class Broker:
    """A connection; a context manager. `servers` is for messages only."""

    def __init__(self, connector: Kafka, within_s: float | None = None) -> None:
        self.servers = connector.servers
        self._connector = connector
        self._within_s = WITHIN_S if within_s is None else within_s
        self._said: list[Any] = []
        self._administers: Any = None
        self._consumer = self._client(LITTLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def topics(self) -> dict[str, list[int]]:
        """Partitions by topic, of all that this login may see; internal ones are left out."""
        found = self._asked(lambda: self._consumer.list_topics(timeout=self._within_s)).topics
        return {name: sorted(one.partitions) for name, one in found.items() if name[:2] != "__"}

    def wanted(self) -> dict[str, list[int]]:
        """Partitions of the topics that the connector names; raises if one is missing."""
        known = self.topics()
        one = self._connector
        if one.pattern:
            return {name: known[name] for name in sorted(known) if one.matches(name)}
        names = one.subscribe or tuple(one.assign) or ((one.topic,) if one.topic else ())
        for name in names:
            if name not in known:
                raise self._missing(name, known)
        if one.assign:
            for name, parts in one.assign.items():
                if odd := sorted(set(parts) - set(known[name])):
                    raise ConnectorError(
                        f"The topic {name!r} has no partition {', '.join(map(str, odd))}.",
                        why=f"It has {counted(len(known[name]))}, counted from 0; Spark would "
                        "read nothing of a missing one, without a word.",
                        fix="Take it out of assign.",
                        slug="kafka-no-topic",
                    )
            return {name: list(parts) for name, parts in one.assign.items()}
        return {name: known[name] for name in names}

    def usable(self, *wanted: str) -> str:
        """What a sink would write to, in words; raises if this login may not do all of it."""
        if self._connector.topic is None:
            return f"{len(self.topics())} topics; rows say which"
        (partitions,) = self.wanted().values()
        topic = self._connector.topic
        self.require([topic], *wanted)
        done = " and ".join(_DONE[one] for one in wanted)
        return f"{topic}: {counted(len(partitions))}, may be {done}"

    def require(self, topics: Sequence[str], *wanted: str) -> None:
        """Raises if this login may not do all of it with each of them."""
        told = self._described(topics, include_authorized_operations=True)
        for topic, found in told.items():
            allowed = found.authorized_operations
            may = {one.name for one in allowed or ()}
            missing = [one for one in wanted if one not in may]
            if allowed is not None and "ALL" not in may and missing:
                raise explained(
                    self.servers,
                    confluent().KafkaError.TOPIC_AUTHORIZATION_FAILED,
                    f"it may {', '.join(sorted(may)).lower()} {topic}, not {missing[0].lower()} it",
                    self._connector,
                )

    def ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], Ends]:
        """By topic and partition."""
        kafka = confluent()
        found = {}
        for topic, numbers in partitions.items():
            for number in numbers:
                at = kafka.TopicPartition(topic, number)
                ask = partial(self._consumer.get_watermark_offsets, at, timeout=self._within_s)
                found[topic, number] = Ends(*self._asked(ask))
        return found

    def moment(
        self, topic: str, partition: int, offset: int, within_s: float | None = None
    ) -> float | None:
        """When the record at this place, or the next one that is still there, was written. None:
        none came in time; there may be none, where a transaction has left only its marker."""
        kafka = confluent()
        self._consumer.assign([kafka.TopicPartition(topic, partition, offset)])
        try:
            message = self._asked(
                lambda: self._consumer.poll(self._within_s if within_s is None else within_s)
            )
        finally:
            self._consumer.unassign()
        if message is None:
            return None
        if message.error() is not None:
            raise self._failed(message.error())
        kind, at = message.timestamp()
        return at / 1000 if kind != kafka.TIMESTAMP_NOT_AVAILABLE else None

    def newest(self, topic: str) -> float | None:
        """When its newest record was written; None: it has none. An old broker cannot say."""
        from confluent_kafka.admin import OffsetSpec

        kafka = confluent()
        known = self._asked(lambda: self._consumer.list_topics(topic, timeout=self._within_s))
        latest = OffsetSpec.max_timestamp()
        wanted = {kafka.TopicPartition(topic, n): latest for n in known.topics[topic].partitions}
        if not wanted:
            return None

        def times() -> list[int]:
            asked = self._admin().list_offsets(wanted, request_timeout=self._within_s)
            return [one.result().timestamp for one in asked.values()]

        return max((at / 1000 for at in self._asked(times) if at >= 0), default=None)

    def kept_s(self, topic: str) -> float | None:
        """How long the topic keeps a record; None: for ever, or this login is not told."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._admin().describe_configs([resource], request_timeout=self._within_s)
        try:
            found = self._asked(asked[resource].result).get("retention.ms")
        except Error:
            return None
        kept_ms = int(found.value) if found is not None else -1
        return kept_ms / 1000 if kept_ms >= 0 else None

    def _client(self, more: Mapping[str, int] | None = None) -> Any:
        settings = {
            **(more or {}),
            "group.id": "headrace-asks",  # demanded, and never joined
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # Where a partition ends is where the query may read to, not where we might.
            "isolation.level": isolation(self._connector),
            "socket.timeout.ms": int(self._within_s * 1000),
            "error_cb": self._said.append,
        }
        return begun(confluent().Consumer, self._connector, settings)

    def _described(self, topics: Sequence[str], **more: bool) -> dict[str, Any]:
        if not topics:
            return {}
        wanted = confluent().TopicCollection(list(topics))
        ask = partial(self._admin().describe_topics, wanted, request_timeout=self._within_s, **more)
        return dict(self._asked(lambda: {name: one.result() for name, one in ask().items()}))

    def _admin(self) -> Any:
        """Kept: one that nobody holds takes its answers with it."""
        from confluent_kafka.admin import AdminClient

        if self._administers is None:
            self._administers = begun(AdminClient, self._connector, {})
        return self._administers

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Again while leaders move, as with each restart of a broker: a client that only asks is
        told so, where one that reads or writes just waits."""
        kafka = confluent()
        self._said.clear()
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                return ask()
            except kafka.KafkaException as exc:
                if not is_leaderless(exc.args[0].code()) or time.monotonic() > deadline:
                    raise self._failed(exc.args[0]) from exc
            time.sleep(PAUSE_S)

    def _failed(self, error: Any) -> Error:
        """The broker's own refusal first; "no answer" has a cause, which came as an event."""
        self._consumer.poll(0)  # lets waiting events through
        worst = cause(self._said, error)
        return explained(self.servers, worst.code(), worst.str(), self._connector)

    def _missing(self, name: str, known: Mapping[str, object]) -> ConnectorError:
        meant = near(name, known)
        return ConnectorError(
            f"There is no topic {name!r} on {self.servers}.",
            why=f"This login sees {', '.join(sorted(known)[:10]) or 'no topic'}.",
            fix=f"Did you mean {meant!r}?"
            if meant
            else "Create it, or look whether the login may see it.",
            slug="kafka-no-topic",
        )


def isolation(connector: Kafka) -> str:
    """How far a stream of it reads while a transaction is open: up to its beginning, or, as Spark
    does if nothing is said, all that is there."""
    told = {name.lower(): value for name, value in resolved(connector.options).items()}
    said = told.get("kafka.isolation.level")
    is_committed = connector.exactly_once if said is None else said == COMMITTED
    return COMMITTED if is_committed else UNCOMMITTED


def shared_by(connector: Kafka) -> str:
    """Connectors of which this is the same may ask by one client: cluster, login, isolation."""
    return json.dumps([connector.client(), isolation(connector)], sort_keys=True)


def begun(
    kind: Any,
    connector: Kafka,
    settings: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A client of that kind; `settings` win over the user's `options`. What it cannot be made of is
    found here, before anything is asked."""
    own = {**connector.client(), **(options or {}), **settings, "log_level": 0}
    try:
        return kind(own, logger=QUIET)
    except confluent().KafkaException as exc:
        error = exc.args[0]
        if options and error.code() == confluent().KafkaError._INVALID_ARG:
            raise kafkaoptions.unfit(error.str()) from exc
        raise explained(connector.servers, error.code(), error.str(), connector) from exc


def reached(connector: Kafka, wanted: Sequence[str] = (WRITE,)) -> str:
    """What the connector reads or writes, in words, after really looking; raises what is wrong.
    `wanted` is what a sink's topic is for."""
    with Broker(connector) as broker:
        if not connector.is_source:
            return broker.usable(*wanted)
        found = broker.wanted()
        ends = broker.ends(found)
        at = {place: (one.low, one.high) for place, one in ends.items()}
        if wrong := kafkaoffsets.problem(connector.starting, at):
            raise kafkaoffsets.wrong("starting", json.loads(connector.starting), wrong)
        there = next((at for at, one in ends.items() if one.records), None)
        if there is not None:
            broker.moment(*there, ends[there].low)  # one record is really read
        broker.require([topic for topic in found if not there or topic != there[0]], READ)
    records = sum(one.records for one in ends.values())
    names = ", ".join(found) or f"no topic matches {connector.pattern}"
    return f"{names}: {counted(len(ends))}, {records:,} records"


def counted(partitions: int) -> str:
    return f"{partitions} partition{'s' * (partitions != 1)}"
