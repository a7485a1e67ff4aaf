"""Alert rows of a real-time query: into the topic of `[alerts]`, from which the relay takes them.

A file a batch, as `hr.alert` leaves it otherwise, would wait for the batch to end. Invariant: a
record says all about itself (whose it is, its key, title and severity), so that it is understood
also when its definition is gone; `opened` reads what `AlertTopic.shaped` wrote, or raises
ValueError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import alertlines, kafkaoptions
from headrace.connectors.connector import Connector
from headrace.connectors.fields import fitted
from headrace.connectors.kafka import Kafka, kafka
from headrace.connectors.kafkafollow import Record
from headrace.model.alerts import AlertRow, TopicRow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter

    from headrace.connectors.alert import Alert

TOPIC = "headraceAlerts"
_RECORD = ("key", "value")
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"  # with all that Spark knows: rows are told apart by it
_TEXTS = ("string", "binary")
_NESTED = ("array", "map", "struct", "variant")
_MOMENTS = {"timestampFormat": f"{_MOMENT}XXX", "timestampNTZFormat": _MOMENT}


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rows they are. `home` stands for the state folder: others may use the same topic."""

    home: str
    pipeline: str
    query: str


@dataclass(frozen=True)
class AlertTopic(Connector):
    alert: Alert
    topic: Kafka
    owner: Owner

    kind: ClassVar[str] = "alert"
    is_sink: ClassVar[bool] = True
    can_real_time: ClassVar[bool] = True
    delivery: ClassVar[str] = "at-least-once"
    delivery_why: ClassVar[str] = "after a failure rows are sent again; an alert opens once"

    def fields(self) -> dict[str, Any]:
        return self.alert.fields()

    def shaped(self, frame: DataFrame) -> DataFrame:
        """As records. What is no alert row is left for `sink_problem` to tell."""
        from pyspark.sql import functions as F

        rows = self.alert.shaped(frame)
        if self.alert.sink_problem(dict(rows.dtypes)) is not None:
            return rows
        own = [column for column in rows.dtypes if column[0] != alertlines.RESOLVED]
        nested = [_beginning(name) for name, kind in own if kind.startswith(_NESTED)]
        about = json.dumps({"owner": asdict(self.owner), "shape": asdict(self.alert.shape)})
        body = F.struct(
            F.lit(about).alias("about"),
            F.col(alertlines.RESOLVED).alias("resolved"),
            F.struct(*(_cut(*column) for column in own)).alias("row"),
            *([F.struct(*nested).alias("beginnings")] if nested else []),
        )
        value = F.to_json(body, {"ignoreNullFields": "false", **_MOMENTS})
        # One key a query: Kafka keeps the order of rows of one key.
        key = F.lit(f"{self.owner.home}/{self.owner.pipeline}/{self.owner.query}")
        return rows.select(key.alias("key"), value.alias("value"))

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        return None if tuple(columns) == _RECORD else self.alert.sink_problem(columns)

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        return self.topic.attach(writer, query=query, mode=mode, checkpoint=checkpoint)


def _cut(name: str, kind: str) -> Column:
    """No longer than a person would read it: what a broker refuses would fail the query."""
    from pyspark.sql import functions as F

    column = F.col(f"`{name}`")
    if kind.startswith(_TEXTS):
        column = F.substring(column, 1, alertlines.TEXT_CHARS_MAX + 1)
    elif kind.startswith(_NESTED):
        text = F.to_json(column, _MOMENTS)
        column = F.when(F.length(text) <= alertlines.DATA_CHARS_MAX, column)
    return column.alias(name)


def _beginning(name: str) -> Column:
    """Of a nested value that is larger than a row may be: text, so it has a place of its own."""
    from pyspark.sql import functions as F

    text = F.to_json(F.col(f"`{name}`"), _MOMENTS)
    first = F.substring(text, 1, alertlines.TEXT_CHARS_MAX + 1)
    return F.when(F.length(text) > alertlines.DATA_CHARS_MAX, first).alias(name)


def topic_of(settings: Settings) -> Kafka | None:
    """The sink that `[alerts]` describes, if it does; raises what is wrong with it."""
    if not settings.alerts:
        return None
    given = {"topic": TOPIC, **settings.alerts}
    where = settings.place("alerts")
    made = fitted(kafka, Kafka.kind, given, title="[alerts]", where=where)
    if made.exactly_once:
        raise kafkaoptions.not_exactly_once("[alerts]", where)
    return made.located(settings.project)


def opened(record: Record, own: str) -> TopicRow | None:
    """The row in a record; None: it is of another home. ValueError: it is none."""
    try:
        body = json.loads(record.value)
        about = json.loads(body["about"])
        owner, said = Owner(**about["owner"]), about["shape"]
        shape = alertlines.Shape(**{**said, "key": tuple(said["key"])})
        row, resolved = dict(body["row"]), bool(body["resolved"])
        row |= {name: text for name, text in body.get("beginnings", {}).items() if text is not None}
        if owner.home != own:
            return None
        at = _moment(row, shape.at)
        given = {**row, alertlines.RESOLVED: resolved, **({} if at is None else {shape.at: at})}
        batch = alertlines.Batch("topic", 0, record.at)
        (made,) = alertlines.lines([given], shape, batch)
        AlertRow.from_line(made.to_line())  # whoever wrote it: the store takes whole rows only
        "".join((owner.pipeline, owner.query, made.title, *made.key)).encode()
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise ValueError(f"it is no alert row: {exc!r}") from exc
    # With its own moment in it, the same row again is one that was sent twice.
    same = json.dumps([owner.pipeline, owner.query, resolved, row], sort_keys=True)
    twin = None if at is None else hashlib.sha256(same.encode()).digest()[:16]
    return TopicRow(owner.pipeline, owner.query, made, record.partition, record.offset, twin)


def _moment(row: Mapping[str, Any], at: str | None) -> datetime | None:
    """JSON has no moments: the one that matters is made one again. An odd one stays text. One
    without a zone keeps none: `alertlines` takes it for UTC, wherever the relay runs."""
    try:
        found = datetime.fromisoformat(row[at or ""])
        if found.tzinfo is None:
            return found
        found.timestamp()
        return found.astimezone(UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
