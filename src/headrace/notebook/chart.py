"""Rows as a chart: an SVG without scripts, or a plotly figure. Pure.

The SVG is an image inside the HTML: the saved notebook keeps it, and it is shown where scripts and
inline SVG are not trusted. Colours are readable on light and dark pages.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from headrace.notebook.cell_text import (
    Rows,
    cut,
    is_number_kind,
    is_time_kind,
    number,
    safe,
    shorten,
    text_of,
)
from headrace.notebook.display_options import DisplayOptions

COLOURS = ("#3d85c6", "#e0812b", "#4c9f70", "#a46bb5", "#c75d6c", "#8c8c3f")
INK = "#808080"
WIDTH, HEIGHT = 680, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 26, 34
POINTS_MAX = 1_000
LABELS_MAX = 8
LABEL_CHARS_MAX = 14
FONT = "font-family='system-ui,sans-serif' font-size='11'"


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """The labels of `x`, and the numbers of each column of `y`."""

    x_name: str
    x: tuple[str, ...]
    places: tuple[float, ...]  # 0 to 1 along the axis
    y: tuple[tuple[str, tuple[float | None, ...]], ...]


def series(rows: Rows, options: DisplayOptions) -> ChartSeries | str:
    """The chart's numbers, or the reason why there is nothing to draw."""
    if not rows.values:
        return "No rows yet."
    kinds = dict(zip(rows.names, rows.kinds, strict=True))
    x = options.x or _first_x(rows, options)
    numbers = [n for n in rows.names if is_number_kind(kinds[n]) and n != x]
    y = list(options.y or numbers[: len(COLOURS)])
    if not y:
        return "There is nothing to draw: no column other than x is numeric."
    wrong = [name for name in y if not is_number_kind(kinds[name])]
    if wrong:
        others = f" Numeric columns: {', '.join(numbers)}." if numbers else ""
        return f"There is nothing to draw: {wrong[0]} is {kinds[wrong[0]]}, not a number.{others}"
    at = rows.names.index(x)
    points = list(rows.values)
    if is_time_kind(kinds[x]) or is_number_kind(kinds[x]):
        points = sorted((r for r in points if r[at] is not None), key=lambda r: r[at])
    points = points[-POINTS_MAX:]
    columns = tuple((n, tuple(number(r[rows.names.index(n)]) for r in points)) for n in y)
    if not any(v is not None for _, values in columns for v in values):
        return f"There is nothing to draw: all values of {', '.join(y)} are null."
    x_values = [r[at] for r in points]
    return ChartSeries(x, _labels(x_values), _places(x_values, options.chart), columns)


def svg(drawn: ChartSeries, chart: str) -> str:
    if chart == "number":
        return _number(drawn)
    values = [v for _, column in drawn.y for v in column if v is not None]
    steps = ticks(min(values), max(values), from_zero=chart != "line")
    low, high = steps[0], steps[-1]
    parts = [_axes(drawn, steps)]
    for index in range(len(drawn.y)):
        if chart == "bar":
            parts.append(_bars(drawn, index, low, high))
        else:
            parts.append(_line(drawn, index, low, high, filled=chart == "area"))
    return frame("".join(parts), WIDTH, HEIGHT)


def image(drawing: str, description: str) -> str:
    """An SVG as an HTML image, with a description for screen readers."""
    data = base64.b64encode(drawing.encode()).decode()
    style = "max-width:100%;display:block"
    return f'<img alt="{safe(description)}" style="{style}" src="data:image/svg+xml;base64,{data}">'


def describe(drawn: ChartSeries, chart: str, most: int = 20) -> str:
    """The chart's last numbers as text."""
    columns = []
    for name, column in drawn.y:
        pairs = list(zip(drawn.x, column, strict=True))[-most:]
        columns.append(f"{name}: " + ", ".join(f"{x} = {format_number(v)}" for x, v in pairs))
    return f"{chart} chart over {drawn.x_name}. " + "; ".join(columns)


def figure(drawn: ChartSeries, chart: str, title: str | None = None) -> Any:
    """The same as an interactive plotly figure."""
    import plotly.graph_objects as go  # type: ignore[import-untyped]

    result = go.Figure()
    for index, (name, column) in enumerate(drawn.y):
        colour = COLOURS[index % len(COLOURS)]
        data = {"x": list(drawn.x), "y": list(column), "name": name}
        if chart == "bar":
            result.add_bar(**data, marker_color=colour)
        else:
            fill = "tozeroy" if chart == "area" else None
            result.add_scatter(**data, mode="lines+markers", fill=fill, line_color=colour)
    y_name = drawn.y[0][0] if len(drawn.y) == 1 else None
    return result.update_layout(title=title, xaxis_title=drawn.x_name, yaxis_title=y_name)


def ticks(low: float, high: float, *, from_zero: bool, count: int = 4) -> list[float]:
    """Round numbers from at most `low` to at least `high`."""
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or abs(high) or 1.0
    raw = max(span / count, 1e-300)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next((m * size for m in (1, 2, 2.5, 5) if m * size >= raw), 10 * size)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [n * step for n in range(first, max(last, first + 1) + 1)]


def format_number(value: float | None) -> str:
    if value is None:
        return "null"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if 1e-3 <= abs(value) < 1e6 else f"{value:.3g}"


def frame(inside: str, width: int, height: int) -> str:
    size = f"viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>{inside}</svg>"


def text_at(x: float, y: float, text: str, anchor: str = "start", colour: str = INK) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{colour}'>{safe(text)}</text>"
    )


def path(points: Sequence[tuple[float, float]], colour: str) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{joined}' fill='none' stroke='{colour}' stroke-width='2'/>"


def dot(x: float, y: float, colour: str) -> str:
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>"


def _first_x(rows: Rows, options: DisplayOptions) -> str:
    """The first time column, else the first text, else the first column that is not in y."""
    free = [(n, k) for n, k in zip(rows.names, rows.kinds, strict=True) if n not in options.y]
    times = [n for n, k in free if is_time_kind(k)]
    others = [n for n, k in free if not is_number_kind(k)]
    return (times or others or [n for n, _ in free] or [rows.names[0]])[0]


def _labels(values: Sequence[Any]) -> tuple[str, ...]:
    """Times within one day without the day, whole minutes without seconds."""
    if values and all(isinstance(v, datetime) for v in values):
        is_one_day = len({v.date() for v in values}) == 1
        is_whole = all(not (v.second or v.microsecond) for v in values)
        form = ("" if is_one_day else "%m-%d ") + ("%H:%M" if is_whole else "%H:%M:%S")
        return tuple(v.strftime(form) for v in values)
    return tuple(shorten(text_of(v), 60) for v in values)


def _places(values: Sequence[Any], chart: str) -> tuple[float, ...]:
    """Bars are evenly spaced. Other charts use the scale of x, if it has one."""
    even = tuple((n + 0.5) / len(values) for n in range(len(values)))
    if chart == "bar" or len(values) < 2:
        return even
    scaled: list[float | None] = []
    for value in values:
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


def _axes(drawn: ChartSeries, steps: Sequence[float]) -> str:
    parts, x_end = [], WIDTH - RIGHT
    for step in steps:
        y = _y(step, steps[0], steps[-1])
        parts.append(
            f"<line x1='{LEFT}' x2='{x_end}' y1='{y:.1f}' y2='{y:.1f}' stroke='{INK}' "
            "stroke-opacity='0.3'/>"
        )
        parts.append(text_at(LEFT - 6, y + 4, format_number(step), "end"))
    every = math.ceil(len(drawn.x) / LABELS_MAX)
    for n in range(0, len(drawn.x), every):
        place = _x(drawn.places[n])
        anchor = "end" if place > x_end - 20 else "middle"
        label = cut(drawn.x[n], LABEL_CHARS_MAX)
        parts.append(text_at(place, HEIGHT - BOTTOM + 16, label, anchor))
    parts.append(text_at((LEFT + x_end) / 2, HEIGHT - 4, shorten(drawn.x_name, 60), "middle"))
    x = float(LEFT)
    for index, (name, _) in enumerate(drawn.y):
        shown, colour = shorten(name, 24), COLOURS[index % len(COLOURS)]
        parts.append(f"<rect x='{x}' y='6' width='10' height='10' fill='{colour}'/>")
        parts.append(text_at(x + 14, 15, shown))
        x += 30 + 7 * len(shown)
    return "".join(parts)


def _bars(drawn: ChartSeries, index: int, low: float, high: float) -> str:
    _, column = drawn.y[index]
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


def _line(drawn: ChartSeries, index: int, low: float, high: float, *, filled: bool) -> str:
    colour = COLOURS[index % len(COLOURS)]
    points = [
        (_x(place), _y(value, low, high))
        for place, value in zip(drawn.places, drawn.y[index][1], strict=True)
        if value is not None
    ]
    parts = [path(points, colour)]
    if len(points) <= 60:
        parts += [dot(x, y, colour) for x, y in points]
    if filled and points:
        zero = _y(0.0, low, high)
        corners = [(points[0][0], zero), *points, (points[-1][0], zero)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts.append(f"<polygon points='{joined}' fill='{colour}' fill-opacity='0.25'/>")
    return "".join(parts)


def _number(drawn: ChartSeries) -> str:
    name, column = drawn.y[0]
    value = next((v for v in reversed(column) if v is not None), None)
    big = (
        f"<text x='8' y='58' font-size='48' fill='{COLOURS[0]}'>{safe(format_number(value))}</text>"
        + text_at(10, 84, shorten(name, 60))
    )
    return frame(big, WIDTH, 96)
