"""Rows that people should know of: `hr.alert(key="cluster_id", title="Cluster {cluster_id}: …")`.

A row opens the alert of its key, further ones are counted on it, and one with `resolved` (or for
which `clear` holds) resolves it. The sink leaves one file of lines a batch below
`.headrace/alerts`; the supervisor takes each batch once (`supervisor/taking.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import alertlines, wholefile
from headrace.connectors import columns as named
from headrace.connectors.alerttopic import AlertTopic, Owner, topic_of
from headrace.connectors.connector import Connector, check_all, given_folder, require, started
from headrace.connectors.kafka import Kafka
from headrace.errors import ConnectorError
from headrace.model.alerts import SEVERITIES, AlertRow
from headrace.model.places import Places
from headrace.state.homes import home
from headrace.words import near, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

ALERT_ROWS_MAX = 100_000
_TIMES = ("timestamp", "timestamp_ntz")
_QUERY_ID = "sql.streaming.queryId"  # Spark sets it in the thread that runs a batch


@dataclass(frozen=True)
class Alert(Connector):
    """`resolve_after` is in seconds; `path` is the folder that Headrace gives it."""

    key: tuple[str, ...]
    title: str
    severity: str = "warning"
    clear: str | None = None
    resolve_after: float | None = None
    at: str | None = None
    path: str | None = None
    topic: Kafka | None = None  # of [alerts]
    owner: Owner | None = None

    kind: ClassVar[str] = "alert"
    is_sink: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False  # a new query has a new id: its batch 0 is another one
    delivery: ClassVar[str] = "exactly-once"
    delivery_why: ClassVar[str] = "the supervisor takes the rows of a batch once"

    @property
    def can_real_time(self) -> bool:  # type: ignore[override]
        return self.topic is not None

    def in_real_time(self) -> Connector:
        if self.topic is None or self.owner is None:
            return self
        return AlertTopic(self, self.topic, self.owner)

    def lacks_for_real_time(self) -> str | None:
        return None if self.topic else "[alerts] in headrace.toml, the topic for alert rows"

    def of_query(self, settings: Settings, pipeline: str, query: str) -> Alert:
        path = str(Places(settings.state).alert_rows / pipeline / query)
        owner = Owner(home(Places(settings.state)), pipeline, query) if settings.alerts else None
        return replace(self, path=path, topic=topic_of(settings), owner=owner)

    def fields(self) -> dict[str, Any]:
        """Without what Headrace gave it: nobody is to read there but the supervisor."""
        given = ("path", "topic", "owner")
        return {name: value for name, value in super().fields().items() if name not in given}

    @property
    def shape(self) -> alertlines.Shape:
        return alertlines.Shape(self.key, self.title, self.severity, self.resolve_after, self.at)

    def shaped(self, frame: DataFrame) -> DataFrame:
        """With the column `resolved`: by `clear`, else the query's own, else never."""
        from pyspark.sql import functions as F

        known = dict(frame.dtypes)
        if self.clear is not None:
            resolved = F.expr(self.clear)
        elif alertlines.RESOLVED not in known:
            return frame.withColumn(alertlines.RESOLVED, F.lit(False))
        elif known[alertlines.RESOLVED] == "boolean":
            resolved = F.col(alertlines.RESOLVED)
        else:
            raise ConnectorError(
                f"The column resolved is of type {known[alertlines.RESOLVED]}, not boolean.",
                why="It says of each row whether it opens the alert or resolves it.",
                fix='Rename it, or say when an alert is over: clear="…".',
                slug="bad-option",
            )
        return frame.withColumn(alertlines.RESOLVED, F.coalesce(resolved, F.lit(False)))

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        at = (self.at,) if self.at else ()
        used = {"key": self.key, "title": alertlines.columns_in(self.title), "at": at}
        for role, names in used.items():
            if wrong := named.unknown(role, names, columns):
                return wrong
        if self.at and columns[self.at] not in _TIMES:
            return f"at={self.at!r} is of type {columns[self.at]}, not a timestamp"
        return named.unfit(self.key, columns)

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        folder = given_folder(self.kind, self.path)

        def take(frame: DataFrame, batch: int) -> None:
            id_ = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
            if not id_:
                raise ConnectorError(f"Spark does not say which query batch {batch} is of.")
            of = alertlines.Batch(id_, batch, time.time())
            write(folder, of, self.lines(frame, of))

        writer = started(writer, query=query, mode=mode, checkpoint=checkpoint)
        return writer.foreachBatch(take)

    def lines(self, frame: DataFrame, batch: alertlines.Batch) -> list[AlertRow]:
        table, is_more = named.bounded(frame, ALERT_ROWS_MAX, by=self.at)
        found = alertlines.lines(alertlines.rows_of(table), self.shape, batch)
        return [*found, alertlines.left_out(batch, ALERT_ROWS_MAX)] if is_more else found


def write(folder: Path, batch: alertlines.Batch, rows: list[AlertRow]) -> None:
    """One file a batch: BATCH-ID.jsonl. A checkpoint begun anew never writes over one of the last,
    which may not be taken yet. Nothing to say, no file."""
    if not rows:
        return
    content = "".join(row.to_line() + "\n" for row in rows).encode("ascii")
    path = folder / f"{batch.number}-{batch.query_id[:8]}.jsonl"
    wholefile.write(path, lambda file: file.write(content), mode=0o600)


def alert(
    key: str | list[str] | tuple[str, ...],
    title: str,
    severity: str = "warning",
    clear: str | None = None,
    resolve_after: str | float | None = None,
    at: str | None = None,
) -> Alert:
    check_all(
        lambda: _check_severity(severity),
        lambda: _check_key(key),
        lambda: _template(title),
        lambda: require("clear", "x" if clear is None else clear, str, 'clear="…"'),
        lambda: require("at", "x" if at is None else at, str, 'at="…"'),
        lambda: resolve_after is None or parse_duration(resolve_after),
    )
    after = None if resolve_after is None else parse_duration(resolve_after)
    return Alert(named.listed("key", key), _template(title), severity, clear, after, at)


def _check_severity(severity: str) -> None:
    if severity not in SEVERITIES:
        meant = near(str(severity), SEVERITIES)
        raise ConnectorError(
            f"Unknown severity {severity!r}.",
            why=f"Severities are {', '.join(SEVERITIES)}.",
            fix=f'Write severity="{meant}".' if meant else None,
            slug="bad-option",
        )


def _check_key(key: str | list[str] | tuple[str, ...]) -> None:
    if not named.listed("key", key):
        raise ConnectorError(
            "An alert needs a key.",
            why="Rows of the same key are one alert; another key opens another one.",
            fix='Name the column: key="cluster_id".',
            slug="bad-option",
        )


def _template(title: object) -> str:
    example = 'title="Cluster {cluster_id}: load {load}"'
    require("title", title, str, example)
    try:
        alertlines.columns_in(str(title))
    except ValueError as exc:
        raise ConnectorError(
            f"title={title!r} is no template.",
            why=f"{exc}.",
            fix=f"Write columns between braces, {example}; a brace itself is written twice.",
            slug="bad-option",
        ) from exc
    if not str(title).strip():
        raise ConnectorError("title is empty.", fix=f"Write {example}.", slug="bad-option")
    return str(title)
