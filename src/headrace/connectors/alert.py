"""A sink that turns rows into alerts: `hr.alert(key="cluster_id", title="Load {load}")`.

The first row of a key opens an alert, further rows increase its count, and a row with `resolved`
(or matching `clear`) resolves it. The sink writes one file per batch below `.headrace/alerts`; the
supervisor reads each batch once (`supervisor/alert_files.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import alert_rows
from headrace.connectors import column_parameters as named
from headrace.connectors.alert_topic import AlertTopic, Owner, topic_of
from headrace.connectors.connector import (
    Capabilities,
    Connector,
    check_all,
    query_id,
    require,
    require_choice,
    require_folder,
)
from headrace.connectors.kafka.connector import Kafka
from headrace.durations import optional_duration
from headrace.errors import ConnectorError
from headrace.json_file import write_file
from headrace.model.alerts import SEVERITIES, AlertRow
from headrace.model.state_paths import StatePaths
from headrace.state.installation_id import home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

ALERT_ROWS_MAX = 100_000
_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class AlertSink(Connector):
    """`resolve_after` is in seconds; Headrace assigns `path`, the folder of its files."""

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

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(
            is_sink=True,
            can_run_in_real_time=self.topic is not None,
            needs_checkpoint=False,  # a restart has a new query id, so its batch 0 is no repetition
            delivery="exactly-once",
            delivery_why="the supervisor reads each batch once",
        )

    def in_real_time(self) -> Connector:
        if self.topic is None or self.owner is None:
            return self
        return AlertTopic(self, self.topic, self.owner)

    def lacks_for_real_time(self) -> str | None:
        return None if self.topic else "[alerts] in headrace.toml (the topic for alert rows)"

    def bind_to_query(self, settings: Settings, pipeline: str, query: str) -> AlertSink:
        places = StatePaths(settings.state)
        path = str(places.alert_rows / pipeline / query)
        owner = Owner(home(places), pipeline, query) if settings.alerts else None
        return replace(self, path=path, topic=topic_of(settings), owner=owner)

    def fields(self) -> dict[str, Any]:
        """Without what Headrace assigned: only the supervisor reads from there."""
        given = ("path", "topic", "owner")
        return {name: value for name, value in super().fields().items() if name not in given}

    @property
    def shape(self) -> alert_rows.AlertTemplate:
        return alert_rows.AlertTemplate(
            self.key, self.title, self.severity, self.resolve_after, self.at
        )

    def prepare_frame(self, frame: DataFrame) -> DataFrame:
        """Add the column `resolved`: from `clear`, or else the query's own, or else false."""
        from pyspark.sql import functions as F

        known = dict(frame.dtypes)
        if self.clear is not None:
            resolved = F.expr(self.clear)
        elif alert_rows.RESOLVED not in known:
            return frame.withColumn(alert_rows.RESOLVED, F.lit(False))
        elif known[alert_rows.RESOLVED] == "boolean":
            resolved = F.col(alert_rows.RESOLVED)
        else:
            raise ConnectorError(
                "The `resolved` column must be boolean, but its type is "
                f"{known[alert_rows.RESOLVED]}.",
                why="Its value decides whether a row opens or resolves an alert.",
                fix='Rename the column, or set clear="…" to the condition that resolves an alert.',
                slug="bad-option",
            )
        return frame.withColumn(alert_rows.RESOLVED, F.coalesce(resolved, F.lit(False)))

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        title = alert_rows.columns_in(self.title)
        problem = named.find_problem({"key": self.key, "title": title, "at": (self.at,)}, columns)
        if problem is None and self.at and columns[self.at] not in _TIMES:
            return f"at must name a timestamp column, but {self.at!r} has type {columns[self.at]}"
        return problem

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        folder = require_folder(self.kind, self.path)

        def take(frame: DataFrame, batch: int) -> None:
            of = alert_rows.AlertBatch(query_id(frame), batch, time.time())
            write(folder, of, self.lines(frame, of))

        return writer.foreachBatch(take)

    def lines(self, frame: DataFrame, batch: alert_rows.AlertBatch) -> list[AlertRow]:
        table, is_more = named.collect_rows(frame, ALERT_ROWS_MAX, by=self.at)
        found = alert_rows.lines(alert_rows.rows_of(table), self.shape, batch)
        return [*found, alert_rows.truncation_alert(batch, ALERT_ROWS_MAX)] if is_more else found


def write(folder: Path, batch: alert_rows.AlertBatch, rows: list[AlertRow]) -> None:
    """One file per batch with rows: BATCH-ID.jsonl. The id keeps a query with a new checkpoint from
    overwriting files that the supervisor has not read yet."""
    if not rows:
        return
    content = "".join(row.to_line() + "\n" for row in rows).encode("ascii")
    path = folder / f"{batch.number}-{batch.query_id[:8]}.jsonl"
    write_file(path, lambda file: file.write(content), is_only_writer=True)


def alert(
    key: str | list[str] | tuple[str, ...],
    title: str,
    severity: str = "warning",
    clear: str | None = None,
    resolve_after: str | float | None = None,
    at: str | None = None,
) -> AlertSink:
    check_all(
        lambda: require_choice("severity", severity, SEVERITIES),
        lambda: _check_key(key),
        lambda: _check_title(title),
        lambda: require("clear", "x" if clear is None else clear, str, 'clear="…"'),
        lambda: require("at", "x" if at is None else at, str, 'at="…"'),
        lambda: optional_duration(resolve_after),
    )
    after = optional_duration(resolve_after)
    return AlertSink(named.parse_names("key", key), _check_title(title), severity, clear, after, at)


def _check_key(key: str | list[str] | tuple[str, ...]) -> None:
    if not named.parse_names("key", key):
        raise ConnectorError(
            "An alert needs a key.",
            why="Rows with the same key belong to the same alert.",
            fix='Name the column: key="cluster_id".',
            slug="bad-option",
        )


def _check_title(title: object) -> str:
    example = 'title="Cluster {cluster_id}: load {load}"'
    require("title", title, str, example)
    try:
        alert_rows.columns_in(str(title))
    except ValueError as exc:
        raise ConnectorError(
            f"Invalid title: {title!r}.",
            why=f"{exc}.",
            fix=f"Write column names in braces, for example {example}. To write a literal brace, "
            "double it.",
            slug="bad-option",
        ) from exc
    if not str(title).strip():
        raise ConnectorError("The title is empty.", fix=f"Write {example}.", slug="bad-option")
    return str(title)
