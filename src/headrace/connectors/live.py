"""A live table, the latest result of a query for the page, SQL and programs:
`hr.live(key="minute", chart="bar", x="minute", y="logins")`.

It holds the latest row of each key, or without a key the latest rows; in complete mode the whole
result of the query. At most `rows` rows. `connectors/live_snapshots.py` writes the files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import column_parameters as named
from headrace.connectors.connector import (
    Capabilities,
    Connector,
    require_choice,
    require_folder,
    require_int,
)
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

CHARTS = ("line", "bar", "area", "number", "table")
ROWS_MAX = 1_000_000  # each batch holds all of them in memory
_NEEDS = {"line": ("x", "y"), "bar": ("x", "y"), "area": ("x", "y"), "number": ("y",)}


@dataclass(frozen=True)
class Live(Connector):
    """`path` is the folder of its snapshots, assigned by Headrace: RESULTS/PIPELINE/QUERY/v1."""

    key: tuple[str, ...] = ()
    chart: str | None = None
    x: str | None = None
    y: tuple[str, ...] = ()
    rows: int = 10_000
    path: str | None = None

    kind: ClassVar[str] = "live"

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(
            is_sink=True,
            needs_checkpoint=False,  # a query that restarts at batch 0 also restarts the table
            # Only a key says which row an update replaces.
            modes=("append", "update", "complete") if self.key else ("append", "complete"),
            delivery="exactly-once",
            delivery_why="a repeated batch gives the same table",
        )

    def bind_to_query(self, settings: Settings, pipeline: str, query: str) -> Live:
        folder = settings.result(pipeline, query)
        return replace(self, path=re.sub(r"^file:(//)?(?=/)", "", folder))

    def identity(self) -> str | None:
        return self.path

    def prepare_frame(self, frame: DataFrame) -> DataFrame:
        """Unchanged. Rejects a folder on an object store before anything starts."""
        if self.path is not None and re.match(r"[a-z][a-z0-9+.-]+:", self.path):
            raise ConnectorError(
                f"A live table cannot be stored in {self.path}.",
                why="Snapshots are replaced by an atomic rename, which object stores do not "
                "support.",
                fix='Set results = "results" (a local folder) under [project].',
                slug="results-not-local",
            )
        return frame

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        return named.find_problem({"key": self.key, "x": (self.x,), "y": self.y}, columns)

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        about = {"key": list(self.key), "chart": self.chart, "x": self.x, "y": list(self.y)}
        table = LiveSnapshots(require_folder(self.kind, self.path), self.key, self.rows, about)
        is_whole = mode == "complete"

        def take(frame: DataFrame, batch: int) -> None:
            # A complete result may be sorted: keep its first rows. Otherwise keep the latest.
            rows, is_cut = named.collect_rows(frame, self.rows, last=not is_whole)
            table.add(batch, rows, at=time.time(), is_whole=is_whole, is_cut=is_cut)

        return writer.foreachBatch(take)


def live(
    key: str | list[str] | tuple[str, ...] | None = None,
    chart: str | None = None,
    x: str | None = None,
    y: str | list[str] | tuple[str, ...] | None = None,
    rows: int = 10_000,
) -> Live:
    require_choice("chart", chart, (None, *CHARTS))
    given: dict[str, Any] = {"x": x, "y": y}
    missing = [name for name in _NEEDS.get(chart or "", ()) if given[name] is None]
    if missing:
        raise ConnectorError(
            f"chart={chart!r} needs {' and '.join(missing)}.",
            fix="Add " + " and ".join(f'{name}="…"' for name in missing) + ".",
            slug="bad-option",
        )
    require_int("rows", rows, ROWS_MAX)
    return Live(
        key=named.parse_names("key", key),
        chart=chart,
        x=named.parse_name("x", x),
        y=named.parse_names("y", y),
        rows=rows,
    )
