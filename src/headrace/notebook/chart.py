"""Rows as a chart: an SVG of our own that needs no script, or a plotly figure. Pure.

The SVG travels as an image inside the HTML: it is kept in the saved notebook, and is shown there
also where scripts and inline SVG are not trusted. Colours are readable on light and on dark.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from headrace.notebook.cells import (
    Rows,
    is_number_kind,
    is_time_kind,
    number,
    safe,
    shortened,
    text_of,
)
from headrace.notebook.look import Look

COLOURS = ("#3d85c6", "#e0812b", "#4c9f70", "#a46bb5", "#c75d6c", "#8c8c3f")
INK = "#808080"
WIDTH, HEIGHT = 680, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 26, 34
POINTS_MAX = 1_000
LABELS_MAX = 8
LABEL_CHARS_MAX = 14
FONT = "font-family='system-ui,sans-serif' font-size='11'"


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn: `x` as text for each position, and the numbers of every column of `y`."""

    x_name: str
    x: tuple[str, ...]
    places: tuple[float, ...]  # 0 to 1 along the axis
    y: tuple[tuple[str, tuple[float | None, ...]], ...]


def series(rows: Rows, look: Look) -> Series | str:
    """The chart's numbers, or in words why there is nothing to draw."""
    if not rows.values:
        return "No rows yet."
    kinds = dict(zip(rows.names, rows.kinds, strict=True))
    x = look.x or _first_x(rows, look)
    numbers = [n for n in rows.names if is_number_kind(kinds[n]) and n != x]
    wanted = list(look.y or numbers[: len(COLOURS)])
    if not wanted:
        return "There is nothing to draw: no column beside x holds numbers."
    wrong = [name for name in wanted if not is_number_kind(kinds[name])]
    if wrong:
        others = f" Numbers are in: {', '.join(numbers)}." if numbers else ""
        return f"There is nothing to draw: {wrong[0]} is {kinds[wrong[0]]}, not a number.{others}"
    at = rows.names.index(x)
    found = list(rows.values)
    if is_time_kind(kinds[x]) or is_number_kind(kinds[x]):
        found = sorted((r for r in found if r[at] is not None), key=lambda r: r[at])
    found = found[-POINTS_MAX:]
    ys = tuple((n, tuple(number(r[rows.names.index(n)]) for r in found)) for n in wanted)
    if not any(v is not None for _, values in ys for v in values):
        return f"There is nothing to draw: {', '.join(wanted)} holds only nulls."
    given = [r[at] for r in found]
    return Series(x, _labels(given), _places(given, look.chart), ys)


def svg(drawn: Series, chart: str) -> str:
    if chart == "number":
        return _number(drawn)
    values = [v for _, column in drawn.y for v in column if v is not None]
    steps = ticks(min(values), max(values), from_zero=chart != "line")
    low, high = steps[0], steps[-1]
    parts = [_axes(drawn, steps)]
    for index, (_, column) in enumerate(drawn.y):
        if chart == "bar":
            parts.append(_bars(drawn, column, index, low, high))
        else:
            parts.append(_line(drawn, column, index, (low, high), filled=chart == "area"))
    return frame("".join(parts), WIDTH, HEIGHT)


def image(drawing: str, words: str) -> str:
    """An SVG as an HTML image, with words for who does not see it."""
    data = base64.b64encode(drawing.encode()).decode()
    style = "max-width:100%;display:block"
    return f'<img alt="{safe(words)}" style="{style}" src="data:image/svg+xml;base64,{data}">'


def words(drawn: Series, chart: str, most: int = 20) -> str:
    """The chart's numbers as text: the newest, if there are too many."""
    told = []
    for name, column in drawn.y:
        pairs = list(zip(drawn.x, column, strict=True))[-most:]
        told.append(f"{name}: " + ", ".join(f"{x} = {short(v)}" for x, v in pairs))
    return f"{chart} chart over {drawn.x_name}. " + "; ".join(told)


def figure(drawn: Series, chart: str, title: str | None = None) -> Any:
    """The same as a plotly figure, to zoom and point into."""
    import plotly.graph_objects as go  # type: ignore[import-untyped]

    made = go.Figure()
    for index, (name, column) in enumerate(drawn.y):
        colour = COLOURS[index % len(COLOURS)]
        given = {"x": list(drawn.x), "y": list(column), "name": name}
        if chart == "bar":
            made.add_bar(**given, marker_color=colour)
        else:
            fill = "tozeroy" if chart == "area" else None
            made.add_scatter(**given, mode="lines+markers", fill=fill, line_color=colour)
    one = drawn.y[0][0] if len(drawn.y) == 1 else None
    return made.update_layout(title=title, xaxis_title=drawn.x_name, yaxis_title=one)


def ticks(low: float, high: float, *, from_zero: bool, count: int = 4) -> list[float]:
    """Round numbers that hold all values between the first and the last."""
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or abs(high) or 1.0
    raw = max(span / count, 1e-300)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next((m * size for m in (1, 2, 2.5, 5) if m * size >= raw), 10 * size)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [n * step for n in range(first, max(last, first + 1) + 1)]


def short(value: float | None) -> str:
    if value is None:
        return "null"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if 1e-3 <= abs(value) < 1e6 else f"{value:.3g}"


def frame(inside: str, width: int, height: int) -> str:
    size = f"viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>{inside}</svg>"


def words_at(x: float, y: float, text: str, anchor: str = "start", colour: str = INK) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{colour}'>{safe(text)}</text>"
    )


def path(points: Sequence[tuple[float, float]], colour: str) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{joined}' fill='none' stroke='{colour}' stroke-width='2'/>"


def _first_x(rows: Rows, look: Look) -> str:
    """A time before a text before whatever stands first; never one that is drawn as y."""
    free = [(n, k) for n, k in zip(rows.names, rows.kinds, strict=True) if n not in look.y]
    times = [n for n, k in free if is_time_kind(k)]
    others = [n for n, k in free if not is_number_kind(k)]
    return (times or others or [n for n, _ in free] or [rows.names[0]])[0]


def _labels(given: Sequence[Any]) -> tuple[str, ...]:
    """Times of one day without the day, whole minutes without seconds."""
    if given and all(isinstance(v, datetime) for v in given):
        is_one_day = len({v.date() for v in given}) == 1
        is_whole = all(not (v.second or v.microsecond) for v in given)
        form = ("" if is_one_day else "%m-%d ") + ("%H:%M" if is_whole else "%H:%M:%S")
        return tuple(v.strftime(form) for v in given)
    return tuple(shortened(text_of(v), 60) for v in given)


def _places(given: Sequence[Any], chart: str) -> tuple[float, ...]:
    """A bar has its own band. A line goes along the true scale where x has one."""
    even = tuple((n + 0.5) / len(given) for n in range(len(given)))
    if chart == "bar" or len(given) < 2:
        return even
    scaled: list[float | None] = []
    for value in given:
        if isinstance(value, datetime):
            value = (value.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001
        elif isinstance(value, date):
            value = value.toordinal()
        scaled.append(number(value))
    known = [v for v in scaled if v is not None]
    if len(known) < len(scaled) or known[0] == known[-1]:
        return even
    return tuple((v - known[0]) / (known[-1] - known[0]) for v in known)


def _x(place: float) -> float:
    return LEFT + place * (WIDTH - LEFT - RIGHT)


def _y(value: float, low: float, high: float) -> float:
    return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _axes(drawn: Series, steps: Sequence[float]) -> str:
    parts, x_end = [], WIDTH - RIGHT
    for step in steps:
        y = _y(step, steps[0], steps[-1])
        parts.append(
            f"<line x1='{LEFT}' x2='{x_end}' y1='{y:.1f}' y2='{y:.1f}' stroke='{INK}' "
            "stroke-opacity='0.3'/>"
        )
        parts.append(words_at(LEFT - 6, y + 4, short(step), "end"))
    every = math.ceil(len(drawn.x) / LABELS_MAX)
    for n in range(0, len(drawn.x), every):
        label = drawn.x[n]
        cut = label if len(label) <= LABEL_CHARS_MAX else label[: LABEL_CHARS_MAX - 1] + "…"
        place = _x(drawn.places[n])
        anchor = "end" if place > x_end - 20 else "middle"
        parts.append(words_at(place, HEIGHT - BOTTOM + 16, cut, anchor))
    parts.append(words_at((LEFT + x_end) / 2, HEIGHT - 4, shortened(drawn.x_name, 60), "middle"))
    x = float(LEFT)
    for index, (name, _) in enumerate(drawn.y):
        shown, colour = shortened(name, 24), COLOURS[index % len(COLOURS)]
        parts.append(f"<rect x='{x}' y='6' width='10' height='10' fill='{colour}'/>")
        parts.append(words_at(x + 14, 15, shown))
        x += 30 + 7 * len(shown)
    return "".join(parts)


def _bars(
    drawn: Series, column: Sequence[float | None], index: int, low: float, high: float
) -> str:
    band = (WIDTH - LEFT - RIGHT) / len(column)
    width = max(band * 0.8 / len(drawn.y), 0.5)
    zero, parts = _y(0.0, low, high), []
    for place, value in zip(drawn.places, column, strict=True):
        if value is None:
            continue
        x, y = _x(place) - band * 0.4 + index * width, _y(value, low, high)
        top, height = min(y, zero), abs(zero - y)
        parts.append(f"<rect x='{x:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}'/>")
    return f"<g fill='{COLOURS[index % len(COLOURS)]}'>{''.join(parts)}</g>"


def _line(
    drawn: Series,
    column: Sequence[float | None],
    index: int,
    scale: tuple[float, float],
    *,
    filled: bool,
) -> str:
    colour = COLOURS[index % len(COLOURS)]
    points = [
        (_x(place), _y(value, *scale))
        for place, value in zip(drawn.places, column, strict=True)
        if value is not None
    ]
    parts = [path(points, colour)]
    if len(points) <= 60:
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in points]
    if filled and points:
        zero = _y(0.0, *scale)
        corners = [(points[0][0], zero), *points, (points[-1][0], zero)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts.append(f"<polygon points='{joined}' fill='{colour}' fill-opacity='0.25'/>")
    return "".join(parts)


def _number(drawn: Series) -> str:
    name, column = drawn.y[0]
    value = next((v for v in reversed(column) if v is not None), None)
    big = (
        f"<text x='8' y='58' font-size='48' fill='{COLOURS[0]}'>{safe(short(value))}</text>"
        + words_at(10, 84, shortened(name, 60))
    )
    return frame(big, WIDTH, 96)
