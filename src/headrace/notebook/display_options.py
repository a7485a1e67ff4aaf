"""The options of `hr.display`, checked before a query starts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.column_parameters import parse_name, parse_names
from headrace.connectors.connector import require_choice, require_int
from headrace.connectors.live import CHARTS
from headrace.durations import parse_duration

ROWS_MAX = 10_000  # every update sends all of them to the browser
EVERY_S_MIN = 0.1


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    title: str | None = None
    chart: str = "table"
    x: str | None = None
    y: tuple[str, ...] = ()
    rows: int = 100
    every_s: float = 1.0


def parse_options(
    title: object,
    chart: str | None,
    x: str | None,
    y: str | list[str] | tuple[str, ...] | None,
    rows: int,
    every: str | float,
) -> DisplayOptions:
    require_choice("chart", chart, (None, *CHARTS))
    require_int(
        "rows",
        rows,
        ROWS_MAX,
        why="This process keeps all rows in memory and sends them to the browser.",
        fix="Aggregate first, or write to a sink and query it with hr.sql.",
    )
    return DisplayOptions(
        title=None if title is None else str(title),
        chart=chart or "table",
        x=parse_name("x", x),
        y=parse_names("y", y),
        rows=rows,
        every_s=max(EVERY_S_MIN, parse_duration(every)),
    )
