"""Kafka, as source and as sink. What Spark's connector can do, with names that say what they are;
options of the client itself pass through as `kafka.…`.

A source reads topics by exactly one of `subscribe`, `pattern` and `assign`; Spark keeps offsets in
the checkpoint, never in a consumer group. As a sink it writes at least once, or with `exactly_once`
each batch as a transaction (`kafkaonce`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import counted_from
from headrace.connectors import kafkabroker, kafkaclient, kafkafailures, kafkaoffsets, kafkaonce
from headrace.connectors.connector import (
    Connector,
    check_all,
    checkpoint_for_now,
    plain_options,
    require,
    resolved,
    secret,
    started,
)
from headrace.connectors.kafkaclient import Login
from headrace.connectors.kafkareading import Reading
from headrace.errors import ConnectorError
from headrace.words import seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, "
COLUMNS += "timestamp timestamp, timestampType int"
_TEXT = ("string", "binary")
_TAKES = {  # what the sink takes, and of which types
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True)
class Kafka(Connector):
    """`starting` is Spark's text: earliest, latest, offsets or timestamps by topic and partition.
    `topic` is the sink's; without it rows name theirs in a column `topic`."""

    servers: str
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: Mapping[str, list[int]] = field(default_factory=dict)
    topic: str | None = None
    starting: str = "latest"
    ending: str = "latest"
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay: float | None = None
    min_partitions: int | None = None
    max_partition_rows: int | None = None
    group_prefix: str | None = None
    poll_timeout: float | None = None
    offset_retries: int | None = None
    offset_retry_delay: float | None = None
    headers: bool = False
    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    user: str | None = None
    password: str | None = None
    mechanism: str | None = None
    exactly_once: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "kafka"
    is_broker: ClassVar[bool] = True
    has_one_writer: ClassVar[bool] = False
    is_replayable: ClassVar[bool] = True
    jars: ClassVar[str] = "kafka"

    @property
    def is_source(self) -> bool:  # type: ignore[override]
        return bool(self.subscribe or self.pattern or self.assign)

    @property
    def is_sink(self) -> bool:  # type: ignore[override]
        return not self.is_source

    @property
    def can_real_time(self) -> bool:  # type: ignore[override]
        return not self.exactly_once

    @property
    def needs_checkpoint(self) -> bool:  # type: ignore[override]
        return self.exactly_once  # otherwise it sends whatever it gets: it knows no batch numbers

    @property
    def delivery(self) -> str:  # type: ignore[override]
        return "exactly-once" if self.exactly_once else "at-least-once"

    @property
    def delivery_why(self) -> str:  # type: ignore[override]
        if self.exactly_once:
            return "a batch is one transaction, for readers with isolation.level=read_committed"
        return "after a failure a batch is sent again"

    @property
    def limits_batches(self) -> bool:  # type: ignore[override]
        return self._reading.limits_batches

    @property
    def can_read_back(self) -> bool:  # type: ignore[override]
        return self.topic is not None

    def located(self, project: Path) -> Kafka:
        def found(path: str | None) -> str | None:
            return counted_from(project, path) if path else None

        return replace(
            self, ca=found(self.ca), certificate=found(self.certificate), key=found(self.key)
        )

    def accepting_gap(self) -> Kafka:
        return replace(self, options={**self.options, "failOnDataLoss": "false"})

    def covers(self, topic: str) -> bool:
        """Whether it reads this topic."""
        if self.pattern:
            return self.matches(topic)
        return topic in (*self.subscribe, *self.assign, self.topic)

    def matches(self, topic: str) -> bool:
        """By the pattern, which is Java's: a few cannot be read here."""
        try:
            return re.fullmatch(self.pattern or "", topic) is not None
        except re.error as exc:
            raise _not_for_python(self.pattern, exc) from exc

    def lacks_as_source(self) -> str | None:
        named = self.topic or "TOPIC"
        return f'subscribe = "{named}", or pattern or assign; topic is where a sink writes to'

    def identity(self) -> str | None:
        return f"kafka://{self.servers}/{self.topic}" if self.topic else None

    def feeds(self, source: Connector) -> bool:
        if not isinstance(source, Kafka) or source.servers != self.servers or self.topic is None:
            return False
        try:
            return source.covers(self.topic)
        except ConnectorError:  # a pattern that only Java can read: Spark takes it
            return False

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        reader: Any = spark.readStream if streaming else spark.read
        options = self._client() | self._topics()
        if streaming:
            # What a stream of ours has written is read back from its beginning.
            begin = self.starting if self.is_source else "earliest"
            if self.exactly_once:
                options["kafka.isolation.level"] = "read_committed"
            options |= kafkaoffsets.option("starting", begin)
        else:
            # Of all that is there: "latest" is where a stream begins, and a batch would be empty.
            begin = "earliest" if self.starting == "latest" else self.starting
            options |= kafkaoffsets.option("starting", begin)
            options |= kafkaoffsets.option("ending", self.ending)
        options |= self._reading.options(streaming=streaming)
        if self.headers:
            options["includeHeaders"] = "true"
        rows: DataFrame = reader.format("kafka").options(**(options | self._plain())).load()
        return rows

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        place = checkpoint or checkpoint_for_now(writer)
        writer = started(writer, query=query, mode=mode, checkpoint=place)
        if self.exactly_once:
            kafkafailures.confluent()  # missing, it is told before the first batch
            sink = kafkaonce.Transactions(self.client(), self._plain(), self.topic, checkpoint)
            return writer.foreachBatch(sink.take)
        return writer.format("kafka").options(**self._sink_options())

    def write(self, frame: DataFrame) -> None:
        frame.write.format("kafka").options(**self._sink_options()).save()

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        found = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        if "value" not in columns:
            return f"a record needs a column value (text or binary), and the query gives {found}"
        for name, kinds in _TAKES.items():
            if name in columns and columns[name] not in kinds:
                return f"{name} has to be {' or '.join(kinds)}, and the query gives {found}"
        if self.topic is None and "topic" not in columns:
            return f"neither topic= nor a column topic says where to; the query gives {found}"
        if extra := [name for name in columns if name not in _TAKES]:
            return f"a record has no room for {', '.join(extra)}: it takes {', '.join(_TAKES)}"
        return None

    def reached(self, *, as_sink: bool = False) -> str:
        return kafkabroker.reached(self)

    def client(self) -> dict[str, str]:
        """For our own client (confluent-kafka): the same servers and login, secrets resolved."""
        return {"bootstrap.servers": self.servers, **self._login.for_librdkafka()}

    @property
    def _login(self) -> Login:
        return Login(**{one.name: getattr(self, one.name) for one in fields(Login)})

    @property
    def _reading(self) -> Reading:
        return Reading(**{one.name: getattr(self, one.name) for one in fields(Reading)})

    def _client(self) -> dict[str, str]:
        login = {f"kafka.{k}": v for k, v in self._login.for_java().items()}
        return {"kafka.bootstrap.servers": self.servers, **login}

    def _topics(self) -> dict[str, str]:
        if self.pattern:
            return {"subscribePattern": self.pattern}
        if self.assign:
            return {"assign": json.dumps(dict(self.assign))}
        return {"subscribe": ",".join(self.subscribe or ((self.topic,) if self.topic else ()))}

    def _plain(self) -> dict[str, str]:
        return resolved(self.options)

    def _sink_options(self) -> dict[str, str]:
        options = self._client()
        if self.topic:
            options["topic"] = self.topic
        if self.headers:
            options["includeHeaders"] = "true"
        return options | self._plain()


def kafka(
    servers: str | list[str],
    *,
    subscribe: str | list[str] | None = None,
    pattern: str | None = None,
    assign: Mapping[str, list[int]] | str | None = None,
    topic: str | None = None,
    starting: str | Mapping[str, Any] = "latest",
    ending: str | Mapping[str, Any] = "latest",
    max_rows: int | None = None,
    min_rows: int | None = None,
    max_delay: str | float | None = None,
    min_partitions: int | None = None,
    max_partition_rows: int | None = None,
    group_prefix: str | None = None,
    poll_timeout: str | float | None = None,
    offset_retries: int | None = None,
    offset_retry_delay: str | float | None = None,
    headers: bool = False,
    tls: bool = False,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    key_password: str | None = None,
    user: str | None = None,
    password: str | None = None,
    mechanism: str | None = None,
    exactly_once: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Kafka:
    """Topics of a Kafka cluster: as a source with subscribe, pattern or assign, as a sink with
    topic. `ca`, `certificate` and `key` are PEM files; user and password log in by `mechanism`.
    `exactly_once` is a sink's: each batch is one transaction, sent by the driver."""
    given = {"subscribe": subscribe, "pattern": pattern, "assign": assign}
    plain = plain_options(options)
    is_source = bool(subscribe or pattern or assign)
    login = Login(tls, ca, certificate, key, key_password, user, password, mechanism)
    reading = Reading(
        max_rows, min_rows, seconds(max_delay), min_partitions, max_partition_rows, group_prefix,
        seconds(poll_timeout), offset_retries, seconds(offset_retry_delay),
    )  # fmt: skip
    check_all(
        lambda: require("servers", servers, (str, list), 'servers="broker:9092"'),
        lambda: _one_of(given, topic),
        lambda: kafkaclient.refuse(plain, is_source=is_source, is_sink=not is_source),
        login.check,
        lambda: secret("password", password),
        lambda: secret("key_password", key_password),
        reading.check,
        lambda: _only_for_a_sink(exactly_once, is_source),
    )
    made = Kafka(
        servers=servers if isinstance(servers, str) else ",".join(servers),
        subscribe=_names(subscribe),
        pattern=pattern,
        assign=_assigned(assign),
        topic=topic,
        starting=kafkaoffsets.plain("starting", starting),
        ending=kafkaoffsets.plain("ending", ending),
        headers=headers,
        **asdict(reading),
        **login.given(),  # type: ignore[arg-type]
        exactly_once=exactly_once,
        options=plain,
    )
    for side, text in (("starting", made.starting), ("ending", made.ending)):
        kafkaoffsets.unfit(side, text, made.covers, (*made.subscribe, *made.assign))
    return made


def _one_of(given: Mapping[str, object], topic: str | None) -> None:
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise ConnectorError(
            f"Give one of {', '.join(given)}, not {' and '.join(chosen)}.",
            why="Each of them alone says which topics are read.",
            fix=f"Keep {chosen[0]} and remove {' and '.join(chosen[1:])}.",
            slug="kafka-topics",
        )
    if chosen and topic:
        raise ConnectorError(
            f"{chosen[0]} reads topics and topic writes to one: a connector does one of the two.",
            fix="Make two: one with it as source, one with topic as sink.",
            slug="kafka-topics",
        )


def _not_for_python(pattern: str | None, exc: re.error) -> ConnectorError:
    return ConnectorError(
        f"pattern={pattern!r} cannot be looked up: {exc}.",
        why="Spark reads it by Java's rules, Headrace by Python's.",
        fix="Write it with what both know: letters, [classes], ., *, +, ?, |, (groups).",
        slug="bad-option",
    )


def _only_for_a_sink(exactly_once: bool, is_source: bool) -> None:
    if exactly_once and is_source:
        raise ConnectorError(
            "exactly_once is about writing, and this connector reads.",
            why="A source reads each record once by its checkpoint.",
            fix='Remove it. To read only what was committed: options={"kafka.isolation.level": '
            '"read_committed"}.',
            slug="bad-option",
        )


def _names(value: str | list[str] | None) -> tuple[str, ...]:
    require("subscribe", value or "", (str, list, tuple), 'subscribe="topic" or ["one", "other"]')
    listed = value.split(",") if isinstance(value, str) else value or []
    return tuple(name.strip() for name in listed if name.strip())


def _assigned(value: Mapping[str, list[int]] | str | None) -> dict[str, list[int]]:
    example = 'assign={"topic": [0, 1]}'
    try:
        given = json.loads(value) if isinstance(value, str) else value or {}
        made = {str(topic): [int(one) for one in found] for topic, found in given.items()}
    except (ValueError, TypeError, AttributeError) as exc:
        raise ConnectorError(
            f"assign={value!r} does not name partitions.",
            why=str(exc),
            fix=f"Write {example}.",
            slug="bad-option",
        ) from exc
    return made
