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
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import alertlines
from headrace.connectors.connector import Connector
from headrace.connectors.fields import fitted
from headrace.connectors.kafka import Kafka, kafka
from headrace.model.alerts import AlertRow, TopicRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

    from headrace.connectors.alert import Alert

TOPIC = "headraceAlerts"
_RECORD = ("key", "value")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rows they are. `home` stands for the state folder: others may use the same topic."""

    home: str
    pipeline: str
    query: str


def home(settings: Settings) -> str:
    return hashlib.sha256(str(settings.state).encode()).hexdigest()[:16]


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
        own = [F.col(f"`{name}`") for name in rows.columns if name != alertlines.RESOLVED]
        about = json.dumps({"owner": asdict(self.owner), "shape": asdict(self.alert.shape)})
        body = F.struct(
            F.lit(about).alias("about"),
            F.col(alertlines.RESOLVED).alias("resolved"),
            F.struct(*own).alias("row"),
        )
        value = F.to_json(body, {"ignoreNullFields": "false"})
        # One key a query: Kafka keeps the order of rows of one key.
        key = F.lit(f"{self.owner.home}/{self.owner.pipeline}/{self.owner.query}")
        return rows.select(key.alias("key"), value.alias("value"))

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        return None if tuple(columns) == _RECORD else self.alert.sink_problem(columns)

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        return self.topic.attach(writer, query=query, mode=mode, checkpoint=checkpoint)


def topic_of(settings: Settings) -> Kafka | None:
    """The sink that `[alerts]` describes, if it does; raises what is wrong with it."""
    if not settings.alerts:
        return None
    given = {"topic": TOPIC, **settings.alerts}
    where = settings.place("alerts")
    made = fitted(kafka, Kafka.kind, given, title="[alerts]", where=where)
    return made.located(settings.project)


def opened(value: bytes, at: float, own: str) -> TopicRow | None:
    """The row in a record that was written at this moment; None: it is of another home."""
    try:
        body = json.loads(value)
        about = json.loads(body["about"])
        owner, said = Owner(**about["owner"]), about["shape"]
        shape = alertlines.Shape(**{**said, "key": tuple(said["key"])})
        row = {**body["row"], alertlines.RESOLVED: body["resolved"]}
        if owner.home != own:
            return None
        batch = alertlines.Batch("topic", 0, at)
        (made,) = alertlines.lines([_timed(row, shape.at)], shape, batch)
        AlertRow.from_line(made.to_line())  # whoever wrote it: the store takes whole rows only
    except (KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ValueError(f"it is no alert row: {exc!r}") from exc
    # With its own moment in it, the same row again is one that was sent twice.
    twin = hashlib.sha256(value).hexdigest() if shape.at else None
    return TopicRow(owner.pipeline, owner.query, made, twin)


def _timed(row: dict[str, Any], at: str | None) -> dict[str, Any]:
    """JSON has no moments: the one that matters is made one again. An odd one stays text."""
    try:
        return row if at is None else {**row, at: datetime.fromisoformat(row[at])}
    except (KeyError, TypeError, ValueError):
        return row
