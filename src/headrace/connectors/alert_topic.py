"""Alert rows of a real-time query: written to the topic of `[alerts]`, read by the relay.

The file per batch that `hr.alert` writes otherwise would wait for the end of the batch. Invariant:
a record describes itself (owner, key, title, severity), so it can be read without its definition.
`AlertTopic.prepare_frame` writes it, `parse_record` reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import alert_rows
from headrace.connectors.connector import Capabilities, Connector
from headrace.connectors.kafka import producer_options
from headrace.connectors.kafka.connector import Kafka, kafka
from headrace.connectors.kafka.topic_follower import Record
from headrace.connectors.settings_tables import build_from_fields
from headrace.model.alerts import AlertRow, TopicRow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter

    from headrace.connectors.alert import AlertSink

TOPIC = "headraceAlerts"
_RECORD = ("key", "value")
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"  # full precision: it distinguishes rows
_TEXTS = ("string", "binary")
_NESTED = ("array", "map", "struct", "variant")
_MOMENTS = {"timestampFormat": f"{_MOMENT}XXX", "timestampNTZFormat": _MOMENT}


@dataclass(frozen=True, slots=True)
class Owner:
    """The query that wrote a row. `home` is the state folder's id: projects may share a topic."""

    home: str
    pipeline: str
    query: str


@dataclass(frozen=True)
class AlertTopic(Connector):
    alert: AlertSink
    topic: Kafka
    owner: Owner

    kind: ClassVar[str] = "alert"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_sink=True,
        can_run_in_real_time=True,
        delivery_why="after a failure, rows are sent again, but an alert opens only once",
    )

    def fields(self) -> dict[str, Any]:
        return self.alert.fields()

    def prepare_frame(self, frame: DataFrame) -> DataFrame:
        """Convert rows to records. Invalid rows stay, for `sink_problem` to report."""
        from pyspark.sql import functions as F

        rows = self.alert.prepare_frame(frame)
        if self.alert.sink_problem(dict(rows.dtypes)) is not None:
            return rows
        own = [column for column in rows.dtypes if column[0] != alert_rows.RESOLVED]
        nested = [_first_chars(name) for name, kind in own if kind.startswith(_NESTED)]
        about = json.dumps({"owner": asdict(self.owner), "shape": asdict(self.alert.shape)})
        body = F.struct(
            F.lit(about).alias("about"),
            F.col(alert_rows.RESOLVED).alias("resolved"),
            F.struct(*(_truncate_column(*column) for column in own)).alias("row"),
            *([F.struct(*nested).alias("beginnings")] if nested else []),
        )
        value = F.to_json(body, {"ignoreNullFields": "false", **_MOMENTS})
        # One key per query: Kafka preserves the order of records with the same key.
        key = F.lit(f"{self.owner.home}/{self.owner.pipeline}/{self.owner.query}")
        return rows.select(key.alias("key"), value.alias("value"))

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        return None if tuple(columns) == _RECORD else self.alert.sink_problem(columns)

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        return self.topic.attach(writer, query=query, mode=mode, checkpoint=checkpoint)


def _truncate_column(name: str, kind: str) -> Column:
    """Limit the size: a record that the broker rejects would fail the query."""
    from pyspark.sql import functions as F

    column = F.col(f"`{name}`")
    if kind.startswith(_TEXTS):
        column = F.substring(column, 1, alert_rows.TEXT_CHARS_MAX + 1)
    elif kind.startswith(_NESTED):
        text = F.to_json(column, _MOMENTS)
        column = F.when(F.length(text) <= alert_rows.DATA_CHARS_MAX, column)
    return column.alias(name)


def _first_chars(name: str) -> Column:
    """The first characters of a nested value that is too large for a row, as text."""
    from pyspark.sql import functions as F

    text = F.to_json(F.col(f"`{name}`"), _MOMENTS)
    first = F.substring(text, 1, alert_rows.TEXT_CHARS_MAX + 1)
    return F.when(F.length(text) > alert_rows.DATA_CHARS_MAX, first).alias(name)


def topic_of(settings: Settings) -> Kafka | None:
    """The sink described by `[alerts]`, if it is set; raises if it is invalid."""
    if not settings.alerts:
        return None
    given = {"topic": TOPIC, **settings.alerts}
    where = settings.place("alerts")
    made = build_from_fields(kafka, Kafka.kind, given, title="[alerts]", where=where)
    if made.exactly_once:
        raise producer_options.not_exactly_once("[alerts]", where)
    return made.resolve_paths(settings.project)


def parse_record(record: Record, own: str) -> TopicRow | None:
    """The alert row in a record; None if another project wrote it. ValueError if it is invalid."""
    try:
        body = json.loads(record.value)
        about = json.loads(body["about"])
        owner, template = Owner(**about["owner"]), about["shape"]
        shape = alert_rows.AlertTemplate(**{**template, "key": tuple(template["key"])})
        row, resolved = dict(body["row"]), bool(body["resolved"])
        row |= {name: text for name, text in body.get("beginnings", {}).items() if text is not None}
        if owner.home != own:
            return None
        at = _parse_timestamp(row, shape.at)
        given = {**row, alert_rows.RESOLVED: resolved, **({} if at is None else {shape.at: at})}
        batch = alert_rows.AlertBatch("topic", 0, record.at)
        (made,) = alert_rows.lines([given], shape, batch)
        AlertRow.from_line(made.to_line())  # raises for a row that the store would reject
        "".join((owner.pipeline, owner.query, made.title, *made.key)).encode()
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise ValueError(f"it is not an alert row: {exc!r}") from exc
    # Rows with a timestamp are unique, so an equal row was sent twice.
    same = json.dumps([owner.pipeline, owner.query, resolved, row], sort_keys=True)
    twin = None if at is None else hashlib.sha256(same.encode()).digest()[:16]
    return TopicRow(owner.pipeline, owner.query, made, record.partition, record.offset, twin)


def _parse_timestamp(row: Mapping[str, Any], at: str | None) -> datetime | None:
    """The timestamp in the column `at`, in UTC; None if it cannot be parsed. One without a zone
    stays without: `alert_rows` reads it as UTC."""
    try:
        found = datetime.fromisoformat(row[at or ""])
        if found.tzinfo is None:
            return found
        found.timestamp()
        return found.astimezone(UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
