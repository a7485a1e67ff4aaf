"""How something is to be shown: title, chart, columns, rows, how often. What cannot be is refused
before anything starts, with the near miss. Pure; read by everything else in this room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.connectors.columns import listed
from headrace.connectors.live import CHARTS
from headrace.errors import ConnectorError, DefinitionError
from headrace.words import near, parse_duration

ROWS_MAX = 10_000  # all of them travel to the browser with every change
EVERY_S_MIN = 0.1


@dataclass(frozen=True, slots=True)
class Look:
    title: str | None = None
    chart: str = "table"
    x: str | None = None
    y: tuple[str, ...] = ()
    rows: int = 100
    every_s: float = 1.0


def look(
    title: object,
    chart: str | None,
    x: str | None,
    y: str | list[str] | tuple[str, ...] | None,
    rows: int,
    every: str | float,
) -> Look:
    if chart is not None and chart not in CHARTS:
        meant = near(str(chart), CHARTS)
        raise ConnectorError(
            f"chart={chart!r} is no chart.",
            why=f"Charts are {', '.join(CHARTS)}.",
            fix=f'Write chart="{meant}".' if meant else "Leave it out for a table.",
            slug="bad-option",
        )
    if type(rows) is not int or not 1 <= rows <= ROWS_MAX:
        raise ConnectorError(
            f"rows={rows!r} has to be a whole number from 1 to {ROWS_MAX:,}.",
            why="They are all kept in this process, and sent to the browser.",
            fix="Aggregate first, or write to a sink and ask with hr.sql.",
            slug="bad-option",
        )
    across = () if x is None else listed("x", x)
    if len(across) > 1:
        raise ConnectorError(f"x={x!r} has to be one column.", slug="bad-option")
    return Look(
        title=None if title is None else str(title),
        chart=chart or "table",
        x=across[0] if across else None,
        y=() if y is None else listed("y", y),
        rows=rows,
        every_s=max(EVERY_S_MIN, parse_duration(every)),
    )


def require_columns(wanted: Look, columns: Iterable[str]) -> None:
    """Of a chart's x and y: they have to be there, before a query is started for them."""
    known = list(columns)
    for role, names in (("x", (wanted.x,) if wanted.x else ()), ("y", wanted.y)):
        for name in names:
            if name not in known:
                meant = near(name, known)
                raise DefinitionError(
                    f"{role}={name!r} is no column of it.",
                    why=f"The columns are {', '.join(known)}.",
                    fix=f'Write {role}="{meant}".' if meant else f"Give {role}= one of them.",
                    slug="unknown-column",
                )
