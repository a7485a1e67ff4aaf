"""Azure Event Hubs as source and sink, over its Kafka endpoint, without a jar of its own.

Rows have the columns of the native connector: body, partition, offset, sequenceNumber,
enqueuedTime, partitionKey, properties. The connection string is the SASL PLAIN password of the user
`$ConnectionString`. It is a secret and stays a reference until the driver needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import secrets
from headrace.config import resolve_path
from headrace.connectors.connector import (
    Capabilities,
    Connector,
    check_all,
    plain_options,
    require,
    require_secret_reference,
)
from headrace.connectors.kafka import login, start_offsets
from headrace.connectors.kafka.connector import Kafka, find_column_problem, kafka
from headrace.connectors.kafka.read_options import ReadOptions
from headrace.connectors.settings_tables import flatten
from headrace.durations import optional_duration
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

USER = "$ConnectionString"
PORT = 9093
_POSITIONS = {"start": "earliest", "end": "latest"}
_FIELDS = {"subscribe": "hub", "topic": "hub", "servers": "connection_string",
           "group_prefix": "consumer_group"}  # fmt: skip
_ENDPOINT = re.compile(r"sb://([^/:;]+)(?::(\d+))?/?$")
_TAKES = {
    "body": ("string", "binary"),
    "partitionKey": ("string",),
    "partition": ("int", "string"),
    "properties": ("map<string,string>",),
}
_EXAMPLE = "Endpoint=sb://NAME.servicebus.windows.net/;SharedAccessKeyName=…;SharedAccessKey=…"


@dataclass(frozen=True)
class EventHubs(Connector):
    """`hub` is the event hub, needed if the connection string has no EntityPath."""

    connection_string: str
    hub: str | None = None
    starting: str = "latest"
    consumer_group: str | None = None
    reading: ReadOptions = field(default_factory=ReadOptions)
    ca: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_gap_accepted: bool = False  # set for one run by --accept-gap, not in headrace.toml

    kind: ClassVar[str] = "event_hubs"

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(
            is_source=True,
            is_sink=True,
            is_broker=True,
            can_run_in_real_time=True,
            is_replayable=True,
            has_batch_limit=self.reading.has_batch_limit,
            has_one_writer=False,
            needs_checkpoint=False,
            delivery_why="after a failure, a batch is sent again",
        )

    def fields(self) -> dict[str, Any]:
        return flatten(super().fields(), "reading")

    def resolve_paths(self, project: Path) -> EventHubs:
        return replace(self, ca=resolve_path(project, self.ca)) if self.ca else self

    def accepting_gap(self) -> EventHubs:
        return replace(self, is_gap_accepted=True)

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self.as_kafka(is_source=True).read(spark, streaming=streaming)
        properties = F.map_from_entries(
            F.transform("headers", lambda one: F.struct(one["key"], one["value"].cast("string")))
        )
        return rows.select(
            F.col("value").alias("body"),
            F.col("partition").cast("string"),
            F.col("offset").cast("string"),
            F.col("offset").alias("sequenceNumber"),
            F.col("timestamp").alias("enqueuedTime"),
            F.col("key").cast("string").alias("partitionKey"),
            properties.alias("properties"),
        )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        made = self.as_kafka(is_source=False)
        return made.attach(writer, query=query, mode=mode, checkpoint=checkpoint)

    def write(self, frame: DataFrame) -> None:
        self.as_kafka(is_source=False).write(self.prepare_frame(frame))

    def prepare_frame(self, frame: DataFrame) -> DataFrame:
        """Convert events to Kafka records. Invalid rows stay, for `sink_problem` to report."""
        from pyspark.sql import functions as F

        if self.sink_problem(dict(frame.dtypes)) is not None:
            return frame
        headers = F.transform(
            F.map_entries("properties"),
            lambda one: F.struct(
                one["key"].alias("key"), one["value"].cast("binary").alias("value")
            ),
        )
        columns = {
            "body": F.col("body").alias("value"),
            "partitionKey": F.col("partitionKey").alias("key"),
            "partition": F.col("partition").cast("int").alias("partition"),
            "properties": headers.alias("headers"),
        }
        return frame.select(*(columns[name] for name in columns if name in frame.columns))

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        if "value" in columns and "body" not in columns:
            # After `prepare_frame` the columns are those of a Kafka record.
            return Kafka(servers="", topic="any").sink_problem(columns)
        return find_column_problem("an event", "body", _TAKES, columns)

    def identity(self) -> str | None:
        return f"event_hubs://{self.hub or self.connection_string}"

    def feeds(self, source: Connector) -> bool:
        if not isinstance(source, EventHubs):
            return False
        return (source.connection_string, source.hub) == (self.connection_string, self.hub)

    def check_connection(self, *, as_sink: bool = False) -> str:
        return self.as_kafka(is_source=not as_sink).check_connection()

    def as_kafka(self, *, is_source: bool = True) -> Kafka:
        """Resolves the connection string."""
        host, port, hub = parse_connection_string(secrets.resolve(self.connection_string), self.hub)
        shared: dict[str, Any] = {
            "tls": True,
            "ca": self.ca,
            "user": USER,
            "password": self.connection_string,
            "options": dict(self.options),
        }
        if not is_source:
            return kafka(f"{host}:{port}", topic=hub, headers=True, **shared)
        shared |= asdict(replace(self.reading, group_prefix=self.consumer_group))
        made = kafka(
            f"{host}:{port}", subscribe=hub, starting=self.starting, headers=True, **shared
        )
        return made.accepting_gap() if self.is_gap_accepted else made


def parse_connection_string(text: str, hub: str | None) -> tuple[str, int, str]:
    """Host, port and event hub of a connection string, which is a secret: errors do not show it."""
    parts = dict(one.split("=", 1) for one in text.split(";") if "=" in one)
    endpoint = _ENDPOINT.match(parts.get("Endpoint", ""))
    missing = [n for n in ("SharedAccessKeyName", "SharedAccessKey") if not parts.get(n)]
    if endpoint is None or missing:
        what = "Endpoint=sb://…" if endpoint is None else " and ".join(missing)
        raise ConnectorError(
            f"The Event Hubs connection string has no {what}.",
            why=f"The expected format is {_EXAMPLE};EntityPath=HUB.",
            fix="Copy the complete string from the portal (Shared access policies).",
            slug="event-hubs-connection",
        )
    named = hub or parts.get("EntityPath")
    if not named:
        raise ConnectorError(
            "The event hub's name is missing.",
            why="The connection string is for a whole namespace: it has no EntityPath.",
            fix='Add hub="NAME".',
            slug="event-hubs-connection",
        )
    return endpoint[1], int(endpoint[2] or PORT), named


def event_hubs(
    connection_string: str,
    *,
    hub: str | None = None,
    starting: str | Mapping[str, Any] = "end",
    consumer_group: str | None = None,
    max_rows: int | None = None,
    min_rows: int | None = None,
    max_delay: str | float | None = None,
    min_partitions: int | None = None,
    max_partition_rows: int | None = None,
    poll_timeout: str | float | None = None,
    offset_retries: int | None = None,
    offset_retry_delay: str | float | None = None,
    ca: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> EventHubs:
    """Events of an event hub. `starting` is "start", "end" or a timestamp; the connection string
    is a secret reference: "${env:EVENT_HUBS}"."""
    require("connection_string", connection_string, str, 'connection_string="${env:EVENT_HUBS}"')
    plain = plain_options(options)
    reading = ReadOptions(
        max_rows, min_rows, optional_duration(max_delay), min_partitions, max_partition_rows, None,
        optional_duration(poll_timeout), offset_retries, optional_duration(offset_retry_delay),
    )  # fmt: skip
    check_all(
        lambda: require_secret_reference("connection_string", connection_string),
        lambda: login.check_options(plain, is_source=True, is_sink=True, fields=_FIELDS),
        lambda: _position(starting),
        reading.check,
    )
    return EventHubs(
        connection_string, hub, _position(starting), consumer_group, reading, ca, plain
    )


def _position(starting: str | Mapping[str, Any]) -> str:
    # The native connector takes JSON: {"offset": "…", "seqNo": …, "enqueuedTime": …}.
    is_native = isinstance(starting, Mapping) and "offset" in starting
    is_text = isinstance(starting, str) and re.search(r'"offset"\s*:|^-?\d+$|^@latest$', starting)
    if is_native or is_text:
        raise ConnectorError(
            "The Kafka endpoint of Event Hubs does not support byte offsets.",
            why="On that endpoint, an event's offset is its sequence number.",
            fix='Set starting to a time ("2026-01-31T08:00:00Z"), to "start" or "end", or to a '
            'sequence number for each partition ({"HUB": {"0": 1234}}).',
            slug="event-hubs-offset",
        )
    if isinstance(starting, str):
        starting = _POSITIONS.get(starting, starting)
    return start_offsets.normalise("starting", starting)
