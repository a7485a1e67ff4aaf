"""A live table: `hr.live(key="minute", chart="bar", x="minute", y="logins")`, the newest result of
a query, for the page, for SQL and for programs.

It holds the newest row of every key, or without a key the newest rows; in complete mode exactly
what the query gives. Bounded: `rows` of them. The files are in `connectors/snapshots.py`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import Settings
from headrace.connectors import columns as named
from headrace.connectors.connector import Connector, given_folder, started
from headrace.connectors.snapshots import Snapshots
from headrace.errors import ConnectorError
from headrace.words import near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

CHARTS = ("line", "bar", "area", "number", "table")
ROWS_MAX = 1_000_000  # all of them are in memory once a batch
_NEEDS = {"line": ("x", "y"), "bar": ("x", "y"), "area": ("x", "y"), "number": ("y",)}


@dataclass(frozen=True)
class Live(Connector):
    """`path` is the folder of its snapshots, which Headrace gives it: RESULTS/PIPELINE/QUERY/v1."""

    key: tuple[str, ...] = ()
    chart: str | None = None
    x: str | None = None
    y: tuple[str, ...] = ()
    rows: int = 10_000
    path: str | None = None

    kind: ClassVar[str] = "live"
    is_sink: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False  # begun anew at batch 0, the table is begun anew too
    delivery: ClassVar[str] = "exactly-once"
    delivery_why: ClassVar[str] = "a batch seen again gives the same table"

    @property
    def modes(self) -> tuple[str, ...]:  # type: ignore[override]
        """An update says which row it replaces by the key alone."""
        return ("append", "update", "complete") if self.key else ("append", "complete")

    def of_query(self, settings: Settings, pipeline: str, query: str) -> Live:
        folder = settings.result(pipeline, query)
        return replace(self, path=re.sub(r"^file:(//)?(?=/)", "", folder))

    def identity(self) -> str | None:
        return self.path

    def shaped(self, frame: DataFrame) -> DataFrame:
        """As it is. Refuses a folder that is not on a disk here, before anything starts."""
        if self.path is not None and re.match(r"[a-z][a-z0-9+.-]+:", self.path):
            raise ConnectorError(
                f"A live table cannot be kept in {self.path}.",
                why="Its snapshots are replaced by renaming, which an object store cannot do.",
                fix='Set results = "results" (a folder of this machine) below [project].',
                slug="results-not-local",
            )
        return frame

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        used = {"key": self.key, "x": (self.x,) if self.x else (), "y": self.y}
        for role, names in used.items():
            if wrong := named.unknown(role, names, columns):
                return wrong
        return named.unfit(self.key, columns)

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        about = {"key": list(self.key), "chart": self.chart, "x": self.x, "y": list(self.y)}
        table = Snapshots(given_folder(self.kind, self.path), self.key, self.rows, about)
        is_whole = mode == "complete"

        def take(frame: DataFrame, batch: int) -> None:
            # Of a complete result the first rows count: it may be sorted. Else the newest.
            rows, is_cut = named.bounded(frame, self.rows, last=not is_whole)
            table.add(batch, rows, at=time.time(), is_whole=is_whole, is_cut=is_cut)

        writer = started(writer, query=query, mode=mode, checkpoint=checkpoint)
        return writer.foreachBatch(take)


def live(
    key: str | list[str] | tuple[str, ...] | None = None,
    chart: str | None = None,
    x: str | None = None,
    y: str | list[str] | tuple[str, ...] | None = None,
    rows: int = 10_000,
) -> Live:
    if chart is not None and chart not in CHARTS:
        meant = near(str(chart), CHARTS)
        raise ConnectorError(
            f"chart={chart!r} is no chart.",
            why=f"Charts are {', '.join(CHARTS)}.",
            fix=f'Write chart="{meant}".' if meant else None,
            slug="bad-option",
        )
    given: dict[str, Any] = {"x": x, "y": y}
    missing = [name for name in _NEEDS.get(chart or "", ()) if given[name] is None]
    if missing:
        raise ConnectorError(
            f"chart={chart!r} needs {' and '.join(missing)}.",
            fix=f'Name the column: {missing[0]}="…".',
            slug="bad-option",
        )
    if type(rows) is not int or not 1 <= rows <= ROWS_MAX:
        raise ConnectorError(
            f"rows={rows!r} has to be a whole number from 1 to {ROWS_MAX:,}.", slug="bad-option"
        )
    by = () if key is None else named.listed("key", key)
    across = named.listed("x", x) if x is not None else ()
    if len(across) > 1:
        raise ConnectorError(f"x={x!r} has to be one column.", slug="bad-option")
    up = () if y is None else named.listed("y", y)
    return Live(by, chart, across[0] if across else None, up, rows)
