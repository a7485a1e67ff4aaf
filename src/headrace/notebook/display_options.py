"""The options of `hr.display`, checked before a query starts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.connectors.columns import parse_names
from headrace.connectors.live import CHARTS
from headrace.durations import parse_duration
from headrace.errors import ConnectorError, DefinitionError
from headrace.spelling import closest

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
    if chart is not None and chart not in CHARTS:
        meant = closest(str(chart), CHARTS)
        raise ConnectorError(
            f"Invalid value for chart: {chart!r}.",
            why=f"Allowed: {', '.join(CHARTS)}.",
            fix=f'Write chart="{meant}".' if meant else "Leave it out for a table.",
            slug="bad-option",
        )
    if type(rows) is not int or not 1 <= rows <= ROWS_MAX:
        raise ConnectorError(
            f"Invalid value for rows: {rows!r}. Allowed: a whole number from 1 to {ROWS_MAX:,}.",
            why="All rows are kept in this process and sent to the browser.",
            fix="Aggregate first, or write to a sink and query it with hr.sql.",
            slug="bad-option",
        )
    x_names = () if x is None else parse_names("x", x)
    if len(x_names) > 1:
        raise ConnectorError(f"x must be one column, not {x!r}.", slug="bad-option")
    return DisplayOptions(
        title=None if title is None else str(title),
        chart=chart or "table",
        x=x_names[0] if x_names else None,
        y=() if y is None else parse_names("y", y),
        rows=rows,
        every_s=max(EVERY_S_MIN, parse_duration(every)),
    )


def require_columns(options: DisplayOptions, columns: Iterable[str]) -> None:
    """Raises DefinitionError if a column of x or y does not exist."""
    known = list(columns)
    for role, names in (("x", (options.x,) if options.x else ()), ("y", options.y)):
        for name in names:
            if name not in known:
                meant = closest(name, known)
                raise DefinitionError(
                    f"Unknown column for {role}: {name!r}.",
                    why=f"Columns: {', '.join(known)}.",
                    fix=f'Write {role}="{meant}".' if meant else f"Set {role}= to one of them.",
                    slug="unknown-column",
                )
