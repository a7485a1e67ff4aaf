"""How fast a query is: input against processing rate, and how long its batches take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.notebook import chart
from headrace.notebook.cells import number

BEATS_MAX = 60
WIDTH, HEIGHT = 680, 76
TOP, BOTTOM, GAP = 22, 8, 30
INPUT, PROCESSED, DURATION = chart.COLOURS[0], chart.COLOURS[1], chart.COLOURS[3]


@dataclass(frozen=True, slots=True)
class Beat:
    """One report of progress. A rate is None where Spark cannot say it (the first batch)."""

    batch: int
    at: str
    rows: int
    input_per_s: float | None
    processed_per_s: float | None
    duration_ms: float


def beat(progress: Mapping[str, Any]) -> Beat:
    took = progress.get("batchDuration")
    if took is None:
        took = (progress.get("durationMs") or {}).get("triggerExecution")
    return Beat(
        batch=int(progress.get("batchId", -1)),
        at=str(progress.get("timestamp", "")),
        rows=int(progress.get("numInputRows") or 0),
        input_per_s=number(progress.get("inputRowsPerSecond")),
        processed_per_s=number(progress.get("processedRowsPerSecond")),
        duration_ms=number(took) or 0.0,
    )


def words(beats: Sequence[Beat]) -> str:
    """Of the last report, and of the last batch that had rows."""
    if not beats:
        return "No batch yet."
    last = beats[-1]
    told = [
        f"input {_per_s(last.input_per_s)}",
        f"processing {_per_s(last.processed_per_s)}",
        f"batch {last.batch}: {last.rows:,} rows in {_duration(last.duration_ms)}",
    ]
    return " · ".join(told)


def strip(beats: Sequence[Beat]) -> str:
    """Two small pictures side by side: both rates, and the duration of batches."""
    shown = beats[-BEATS_MAX:]
    half = (WIDTH - GAP) / 2
    rates = [v for b in shown for v in (b.input_per_s, b.processed_per_s) if v is not None]
    top_rate, top_ms = max(rates, default=0.0), max((b.duration_ms for b in shown), default=0.0)
    inputs = [b.input_per_s for b in shown]
    done = [b.processed_per_s for b in shown]
    parts = [
        _legend(0, INPUT, "input"),
        _legend(58, PROCESSED, f"processing, rows/s (up to {chart.short(round(top_rate, 1))})"),
        _line(inputs, 0, half, top_rate, INPUT),
        _line(done, 0, half, top_rate, PROCESSED),
        _legend(half + GAP, DURATION, f"batch duration (up to {_duration(top_ms)})"),
        _bars([b.duration_ms for b in shown], half + GAP, half, top_ms),
        _ground(0, half),
        _ground(half + GAP, half),
    ]
    return chart.frame("".join(parts), WIDTH, HEIGHT)


def _per_s(rate: float | None) -> str:
    return "–" if rate is None else f"{chart.short(round(rate, 1))} rows/s"


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _legend(x: float, colour: str, text: str) -> str:
    mark = f"<rect x='{x}' y='4' width='10' height='10' fill='{colour}'/>"
    return mark + chart.words_at(x + 14, 13, text)


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
        return (
            f"<circle cx='{points[0][0] + 3:.1f}' cy='{points[0][1]:.1f}' r='3' fill='{colour}'/>"
        )
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
