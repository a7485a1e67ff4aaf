"""Azure Event Hubs, as source and as sink, over its Kafka endpoint: no jar of its own is needed.

Rows look as with the native connector: body, partition, offset, sequenceNumber, enqueuedTime,
partitionKey, properties. The connection string is the login: SASL PLAIN with the user name
`$ConnectionString`. It is a secret, so it stays a reference until the driver needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import references
from headrace.config import counted_from
from headrace.connectors import kafkaclient, kafkaoffsets
from headrace.connectors.connector import Connector, check_all, plain_options, require, secret
from headrace.connectors.kafka import Kafka, kafka
from headrace.connectors.kafkareading import Reading
from headrace.errors import ConnectorError
from headrace.words import seconds

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
    """`hub` is the event hub, where the connection string has no EntityPath."""

    connection_string: str
    hub: str | None = None
    starting: str = "latest"
    consumer_group: str | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay: float | None = None
    min_partitions: int | None = None
    max_partition_rows: int | None = None
    poll_timeout: float | None = None
    offset_retries: int | None = None
    offset_retry_delay: float | None = None
    ca: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_gap_accepted: bool = False  # by a person, for one run; no field of headrace.toml

    kind: ClassVar[str] = "event_hubs"
    is_source: ClassVar[bool] = True
    is_sink: ClassVar[bool] = True
    can_real_time: ClassVar[bool] = True
    is_broker: ClassVar[bool] = True
    has_one_writer: ClassVar[bool] = False
    is_replayable: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False  # as a sink of Kafka
    delivery: ClassVar[str] = "at-least-once"
    delivery_why: ClassVar[str] = "after a failure a batch is sent again"

    @property
    def limits_batches(self) -> bool:  # type: ignore[override]
        return self._reading.limits_batches

    @property
    def _reading(self) -> Reading:
        own = {one.name: getattr(self, one.name, None) for one in fields(Reading)}
        return replace(Reading(**own), group_prefix=self.consumer_group)

    def located(self, project: Path) -> EventHubs:
        return replace(self, ca=counted_from(project, self.ca)) if self.ca else self

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
        self.as_kafka(is_source=False).write(self.shaped(frame))

    def shaped(self, frame: DataFrame) -> DataFrame:
        """Events as records of Kafka. What is no event is left for `sink_problem` to tell."""
        from pyspark.sql import functions as F

        if self.sink_problem(dict(frame.dtypes)) is not None:
            return frame
        columns = [F.col("body").alias("value")]
        if "partitionKey" in frame.columns:
            columns.append(F.col("partitionKey").alias("key"))
        if "partition" in frame.columns:
            columns.append(F.col("partition").cast("int").alias("partition"))
        if "properties" in frame.columns:
            entries = F.transform(
                F.map_entries("properties"),
                lambda one: F.struct(
                    one["key"].alias("key"), one["value"].cast("binary").alias("value")
                ),
            )
            columns.append(entries.alias("headers"))
        return frame.select(*columns)

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        if "value" in columns and "body" not in columns:
            return self.as_record_problem(columns)
        found = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        if "body" not in columns:
            return f"an event needs a column body (text or binary), and the query gives {found}"
        for name, kinds in _TAKES.items():
            if name in columns and columns[name] not in kinds:
                return f"{name} has to be {' or '.join(kinds)}, and the query gives {found}"
        if extra := [name for name in columns if name not in _TAKES]:
            return f"an event has no room for {', '.join(extra)}: it takes {', '.join(_TAKES)}"
        return None

    def identity(self) -> str | None:
        return f"event_hubs://{self.hub or self.connection_string}"

    def feeds(self, source: Connector) -> bool:
        if not isinstance(source, EventHubs):
            return False
        return (source.connection_string, source.hub) == (self.connection_string, self.hub)

    def reached(self, *, as_sink: bool = False) -> str:
        return self.as_kafka(is_source=not as_sink).reached()

    def as_record_problem(self, columns: Mapping[str, str]) -> str | None:
        """After `shaped`: the columns are a record's already."""
        return Kafka(servers="", topic="shaped").sink_problem(columns)

    def as_kafka(self, *, is_source: bool) -> Kafka:
        """The same by Kafka's name. The connection string is resolved here, in the driver."""
        host, port, hub = parsed(references.resolve(self.connection_string), self.hub)
        shared: dict[str, Any] = {
            "tls": True,
            "ca": self.ca,
            "user": USER,
            "password": self.connection_string,
            "options": dict(self.options),
        }
        if not is_source:
            return kafka(f"{host}:{port}", topic=hub, headers=True, **shared)
        shared |= asdict(self._reading)
        made = kafka(
            f"{host}:{port}", subscribe=hub, starting=self.starting, headers=True, **shared
        )
        return made.accepting_gap() if self.is_gap_accepted else made


def parsed(text: str, hub: str | None) -> tuple[str, int, str]:
    """Host, port and event hub of a connection string; no error shows the text: it is a secret."""
    parts = dict(one.split("=", 1) for one in text.split(";") if "=" in one)
    endpoint = _ENDPOINT.match(parts.get("Endpoint", ""))
    missing = [n for n in ("SharedAccessKeyName", "SharedAccessKey") if not parts.get(n)]
    if endpoint is None or missing:
        what = "Endpoint=sb://…" if endpoint is None else " and ".join(missing)
        raise ConnectorError(
            f"The connection string of Event Hubs has no {what}.",
            why=f"It looks like {_EXAMPLE};EntityPath=HUB.",
            fix="Copy it whole from the portal (Shared access policies) into the secret.",
            slug="event-hubs-connection",
        )
    named = hub or parts.get("EntityPath")
    if not named:
        raise ConnectorError(
            "Which event hub is not said.",
            why="The connection string is of the whole namespace: it has no EntityPath.",
            fix='Give it with hub="NAME".',
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
    """Events of an event hub. `starting` is "start", "end" or a moment; the connection string a
    reference: "${env:EVENT_HUBS}"."""
    require("connection_string", connection_string, str, 'connection_string="${env:EVENT_HUBS}"')
    plain = plain_options(options)
    check_all(
        lambda: secret("connection_string", connection_string),
        lambda: kafkaclient.refuse(plain, is_source=True, is_sink=True, fields=_FIELDS),
        lambda: _position(starting),
    )
    made = EventHubs(
        connection_string,
        hub=hub,
        starting=_position(starting),
        consumer_group=consumer_group,
        max_rows=max_rows,
        min_rows=min_rows,
        max_delay=seconds(max_delay),
        min_partitions=min_partitions,
        max_partition_rows=max_partition_rows,
        poll_timeout=seconds(poll_timeout),
        offset_retries=offset_retries,
        offset_retry_delay=seconds(offset_retry_delay),
        ca=ca,
        options=plain,
    )
    made._reading.check()
    return made


def _position(starting: str | Mapping[str, Any]) -> str:
    # The native connector's own form is JSON: {"offset": "…", "seqNo": …, "enqueuedTime": …}.
    is_native = isinstance(starting, Mapping) and "offset" in starting
    is_text = isinstance(starting, str) and re.search(r'"offset"\s*:|^-?\d+$|^@latest$', starting)
    if is_native or is_text:
        raise ConnectorError(
            "A byte offset does not exist on the Kafka endpoint of Event Hubs.",
            why="It counts events: what Kafka calls an offset is the sequence number.",
            fix='Begin at a moment, starting="2026-01-31T08:00:00Z", at "start" or at "end"; or at '
            'a sequence number of each partition: {"HUB": {"0": 1234}}.',
            slug="event-hubs-offset",
        )
    if isinstance(starting, str):
        starting = _POSITIONS.get(starting, starting)
    return kafkaoffsets.plain("starting", starting)
