"""The input rate, processing rate and batch duration of a query, as text and SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.progress import Progress
from headrace.notebook import chart

BATCHES_MAX = 60
WIDTH, HEIGHT = 680, 76
TOP, BOTTOM, GAP = 22, 8, 30
INPUT, PROCESSED, DURATION = chart.COLOURS[0], chart.COLOURS[1], chart.COLOURS[3]


def describe(batches: Sequence[Progress]) -> str:
    if not batches:
        return "No batches yet."
    last = batches[-1]
    return (
        f"input {_per_s(last.input_rate)} · processing {_per_s(last.processing_rate)} · "
        f"batch {last.batch}: {last.rows_in:,} rows in {_duration(last.batch_ms or 0.0)}"
    )


def strip(batches: Sequence[Progress]) -> str:
    """Two small charts side by side: both rates, and the duration of batches."""
    shown = batches[-BATCHES_MAX:]
    half = (WIDTH - GAP) / 2
    inputs, done = [b.input_rate for b in shown], [b.processing_rate for b in shown]
    durations = [b.batch_ms or 0.0 for b in shown]
    top_rate = max((rate for rate in (*inputs, *done) if rate is not None), default=0.0)
    top_ms, top = max(durations, default=0.0), chart.format_number(round(top_rate, 1))
    parts = [
        _legend(0, INPUT, "input"),
        _legend(58, PROCESSED, f"processing, rows/s (up to {top})"),
        _line(inputs, 0, half, top_rate, INPUT),
        _line(done, 0, half, top_rate, PROCESSED),
        _legend(half + GAP, DURATION, f"batch duration (up to {_duration(top_ms)})"),
        _bars(durations, half + GAP, half, top_ms),
        _ground(0, half),
        _ground(half + GAP, half),
    ]
    return chart.frame("".join(parts), WIDTH, HEIGHT)


def _per_s(rate: float | None) -> str:
    return "–" if rate is None else f"{chart.format_number(round(rate, 1))} rows/s"


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _legend(x: float, colour: str, text: str) -> str:
    mark = f"<rect x='{x}' y='4' width='10' height='10' fill='{colour}'/>"
    return mark + chart.text_at(x + 14, 13, text)


def _ground(x: float, width: float) -> str:
    y = HEIGHT - BOTTOM
    at = f"x1='{x}' x2='{x + width}' y1='{y}' y2='{y}'"
    return f"<line {at} stroke='{chart.INK}' stroke-opacity='0.5'/>"


def _height(value: float, top: float) -> float:
    return value / top * (HEIGHT - TOP - BOTTOM) if top else 0.0


def _line(
    values: Sequence[float | None], left: float, width: float, top: float, colour: str
) -> str:
    step = width / max(len(values) - 1, 1)
    points = [
        (left + n * step, HEIGHT - BOTTOM - _height(v, top))
        for n, v in enumerate(values)
        if v is not None
    ]
    if len(points) == 1:
        [(x, y)] = points
        return chart.dot(x + 3, y, colour)
    return chart.path(points, colour)


def _bars(values: Sequence[float], left: float, width: float, top: float) -> str:
    band = min(width / max(len(values), 1), 24.0)
    parts = []
    for n, value in enumerate(values):
        height = _height(value, top)
        y = HEIGHT - BOTTOM - height
        place = f"x='{left + n * band:.1f}' y='{y:.1f}'"
        parts.append(f"<rect {place} width='{band * 0.8:.1f}' height='{height:.1f}'/>")
    return f"<g fill='{DURATION}'>{''.join(parts)}</g>"
