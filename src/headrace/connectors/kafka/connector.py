"""Kafka as source and sink, with a field for each option of Spark's connector; options of the
Kafka client pass through as `kafka.…`.

A source selects topics with exactly one of `subscribe`, `pattern` and `assign`; Spark keeps offsets
in the checkpoint, not in a consumer group. The sink is at-least-once, or with `exactly_once` writes
each batch in a transaction (`transactions`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import resolve_path
from headrace.connectors.connector import (
    Capabilities,
    Connector,
    check_all,
    configure_writer,
    create_temp_checkpoint,
    plain_options,
    require,
    require_secret_reference,
    resolve_secrets,
)
from headrace.connectors.kafka import broker_client, client_errors, start_offsets, transactions
from headrace.connectors.kafka import login as kafka_login
from headrace.connectors.kafka.login import Login
from headrace.connectors.kafka.read_options import ReadOptions
from headrace.connectors.settings_tables import flatten
from headrace.durations import optional_duration
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, "
COLUMNS += "timestamp timestamp, timestampType int"
_TEXT = ("string", "binary")
_TAKES = {  # columns of a record and their types
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True)
class Kafka(Connector):
    """`starting` is earliest, latest, a timestamp, or offsets or timestamps by topic and partition.
    `topic` is where a sink writes; without it each row needs a column `topic`."""

    servers: str
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: Mapping[str, list[int]] = field(default_factory=dict)
    topic: str | None = None
    starting: str = "latest"
    ending: str = "latest"
    reading: ReadOptions = field(default_factory=ReadOptions)
    headers: bool = False
    login: Login = field(default_factory=Login)
    exactly_once: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "kafka"

    @property
    def is_source(self) -> bool:
        return bool(self.subscribe or self.pattern or self.assign)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        why = "after a failure, a batch is sent again"
        if self.exactly_once:
            why = "each batch is one transaction; readers must set isolation.level=read_committed"
        return Capabilities(
            is_source=self.is_source,
            is_sink=not self.is_source,
            is_broker=True,
            can_run_in_real_time=not self.exactly_once,
            is_replayable=True,
            has_batch_limit=self.reading.has_batch_limit,
            can_read_back=self.topic is not None,
            has_one_writer=False,
            needs_checkpoint=self.exactly_once,  # otherwise batch numbers do not matter
            delivery="exactly-once" if self.exactly_once else "at-least-once",
            delivery_why=why,
        )

    def as_kafka(self, *, is_source: bool = True) -> Kafka:
        return self

    def fields(self) -> dict[str, Any]:
        return flatten(super().fields(), "reading", "login")

    def resolve_paths(self, project: Path) -> Kafka:
        given = {name: getattr(self.login, name) for name in ("ca", "certificate", "key")}
        paths: dict[str, Any] = {
            name: resolve_path(project, path) for name, path in given.items() if path
        }
        return replace(self, login=replace(self.login, **paths))

    def accepting_gap(self) -> Kafka:
        return replace(self, options={**self.options, "failOnDataLoss": "false"})

    def covers(self, topic: str) -> bool:
        if self.pattern:
            return self.matches(topic)
        return topic in (*self.subscribe, *self.assign, self.topic)

    def matches(self, topic: str) -> bool:
        """Whether the pattern, a Java regular expression, matches. A few do not compile here."""
        try:
            return re.fullmatch(self.pattern or "", topic) is not None
        except re.error as exc:
            raise ConnectorError(
                f"Invalid pattern: {self.pattern!r}: {exc}.",
                why="It must be a valid regular expression in Java (for Spark) and in Python (for "
                "Headrace).",
                fix="Use the common syntax: letters, [classes], ., *, +, ?, |, (groups).",
                slug="bad-option",
            ) from exc

    def lacks_as_source(self) -> str | None:
        named = self.topic or "TOPIC"
        return f'subscribe = "{named}", pattern or assign. The topic field is only for sinks'

    def identity(self) -> str | None:
        return f"kafka://{self.servers}/{self.topic}" if self.topic else None

    def feeds(self, source: Connector) -> bool:
        if not isinstance(source, Kafka) or source.servers != self.servers or self.topic is None:
            return False
        try:
            return source.covers(self.topic)
        except ConnectorError:  # a pattern that only Java understands
            return False

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        reader: Any = spark.readStream if streaming else spark.read
        options = self._client() | self._topics()
        if streaming:
            # The output of another query is read from its beginning.
            begin = self.starting if self.is_source else "earliest"
            if self.exactly_once:
                options["kafka.isolation.level"] = "read_committed"
            options |= start_offsets.to_spark_options("starting", begin)
        else:
            # A batch that starts at "latest" would be empty.
            begin = "earliest" if self.starting == "latest" else self.starting
            options |= start_offsets.to_spark_options("starting", begin)
            options |= start_offsets.to_spark_options("ending", self.ending)
        options |= self.reading.options(streaming=streaming)
        if self.headers:
            options["includeHeaders"] = "true"
        options |= resolve_secrets(self.options)
        rows: DataFrame = reader.format("kafka").options(**options).load()
        return rows

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        place = checkpoint or create_temp_checkpoint(writer)
        writer = configure_writer(writer, query=query, mode=mode, checkpoint=place)
        if self.exactly_once:
            client_errors.confluent()  # raises if it is not installed
            sink = transactions.Transactions(
                self.client(), resolve_secrets(self.options), self.topic, checkpoint
            )
            return writer.foreachBatch(sink.take)
        return writer.format("kafka").options(**self._sink_options())

    def write(self, frame: DataFrame) -> None:
        frame.write.format("kafka").options(**self._sink_options()).save()

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        problem = find_column_problem("a record", "value", _TAKES, columns)
        if problem is None and self.topic is None and "topic" not in columns:
            return "the sink has no topic, and the query has no topic column"
        return problem

    def check_connection(self, *, as_sink: bool = False) -> str:
        return broker_client.check_connection(self)

    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers, **self.login.for_librdkafka()}

    def _client(self) -> dict[str, str]:
        login = {f"kafka.{k}": v for k, v in self.login.for_java().items()}
        return {"kafka.bootstrap.servers": self.servers, **login}

    def _topics(self) -> dict[str, str]:
        if self.pattern:
            return {"subscribePattern": self.pattern}
        if self.assign:
            return {"assign": json.dumps(dict(self.assign))}
        return {"subscribe": ",".join(self.subscribe or ((self.topic,) if self.topic else ()))}

    def _sink_options(self) -> dict[str, str]:
        options = self._client()
        if self.topic:
            options["topic"] = self.topic
        if self.headers:
            options["includeHeaders"] = "true"
        return options | resolve_secrets(self.options)


def find_column_problem(
    what: str, body: str, takes: Mapping[str, tuple[str, ...]], columns: Mapping[str, str]
) -> str | None:
    """`takes` has the fields of a record or event, and their types; `body` is required."""
    found = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    if body not in columns:
        return f"{what} needs a {body} column (string or binary), but the query has {found}"
    for name, kinds in takes.items():
        if name in columns and columns[name] not in kinds:
            return f"{name} must be {' or '.join(kinds)}, but the query has {found}"
    if extra := [name for name in columns if name not in takes]:
        return f"{what} has no field {', '.join(extra)}; its fields are {', '.join(takes)}"
    return None


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
    """Topics of a Kafka cluster: a source with subscribe, pattern or assign, a sink with topic.
    `ca`, `certificate` and `key` are PEM files; `mechanism` is the SASL mechanism of user and
    password. With `exactly_once` the driver writes each batch in one transaction."""
    given = {"subscribe": subscribe, "pattern": pattern, "assign": assign}
    plain = plain_options(options)
    is_source = bool(subscribe or pattern or assign)
    login = Login(tls, ca, certificate, key, key_password, user, password, mechanism)
    reading = ReadOptions(
        max_rows, min_rows, optional_duration(max_delay), min_partitions, max_partition_rows,
        group_prefix, optional_duration(poll_timeout), offset_retries,
        optional_duration(offset_retry_delay),
    )  # fmt: skip
    check_all(
        lambda: require("servers", servers, (str, list), 'servers="broker:9092"'),
        lambda: _check_topics(given, topic),
        lambda: kafka_login.check_options(plain, is_source=is_source, is_sink=not is_source),
        login.check,
        lambda: require_secret_reference("password", password),
        lambda: require_secret_reference("key_password", key_password),
        reading.check,
        lambda: _check_exactly_once(exactly_once, is_source),
    )
    made = Kafka(
        servers=servers if isinstance(servers, str) else ",".join(servers),
        subscribe=_parse_names(subscribe),
        pattern=pattern,
        assign=_parse_assign(assign),
        topic=topic,
        starting=start_offsets.normalise("starting", starting),
        ending=start_offsets.normalise("ending", ending),
        reading=reading,
        headers=headers,
        login=login,
        exactly_once=exactly_once,
        options=plain,
    )
    for side, text in (("starting", made.starting), ("ending", made.ending)):
        start_offsets.check_topics(side, text, made.covers, (*made.subscribe, *made.assign))
    return made


def _check_topics(given: Mapping[str, object], topic: str | None) -> None:
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise ConnectorError(
            f"{' and '.join(chosen)} cannot be combined.",
            why=f"A source selects topics with exactly one of {', '.join(given)}.",
            fix=f"Keep {chosen[0]} and remove {' and '.join(chosen[1:])}.",
            slug="kafka-topics",
        )
    if chosen and topic:
        raise ConnectorError(
            f"{chosen[0]} and topic cannot be combined.",
            why=f"{chosen[0]} makes the connector a source; topic makes it a sink.",
            fix="Use two connectors.",
            slug="kafka-topics",
        )


def _check_exactly_once(exactly_once: bool, is_source: bool) -> None:
    if exactly_once and is_source:
        raise ConnectorError(
            "exactly_once is for sinks, but this connector is a source.",
            why="The checkpoint already ensures that a source reads each record once.",
            fix="Remove exactly_once. To read only committed records, set "
            'options={"kafka.isolation.level": "read_committed"}.',
            slug="bad-option",
        )


def _parse_names(value: str | list[str] | None) -> tuple[str, ...]:
    require("subscribe", value or "", (str, list, tuple), 'subscribe="topic" or ["one", "other"]')
    listed = value.split(",") if isinstance(value, str) else value or []
    return tuple(name.strip() for name in listed if name.strip())


def _parse_assign(value: Mapping[str, list[int]] | str | None) -> dict[str, list[int]]:
    try:
        given = json.loads(value) if isinstance(value, str) else value or {}
        return {str(topic): [int(one) for one in found] for topic, found in given.items()}
    except (ValueError, TypeError, AttributeError) as exc:
        raise ConnectorError(
            f"Invalid value for assign: {value!r}.",
            why=str(exc),
            fix='Write assign={"topic": [0, 1]}.',
            slug="bad-option",
        ) from exc
