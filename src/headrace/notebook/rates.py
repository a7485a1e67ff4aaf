"""The input rate, processing rate and batch duration of a query, as text and SVG. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.progress import from_spark
from headrace.notebook import chart

SAMPLES_MAX = 60
WIDTH, HEIGHT = 680, 76
TOP, BOTTOM, GAP = 22, 8, 30
INPUT, PROCESSED, DURATION = chart.COLOURS[0], chart.COLOURS[1], chart.COLOURS[3]


@dataclass(frozen=True, slots=True)
class RateSample:
    """One progress report. Spark has no rates for the first batch."""

    batch: int
    at: str
    rows: int
    input_per_s: float | None
    processed_per_s: float | None
    duration_ms: float


def to_sample(raw: Mapping[str, Any]) -> RateSample:
    """From Spark's own progress object."""
    progress = from_spark(raw)
    return RateSample(
        batch=-1 if progress.batch is None else progress.batch,
        at=str(raw.get("timestamp", "")),
        rows=progress.rows_in,
        input_per_s=progress.input_rate,
        processed_per_s=progress.processing_rate,
        duration_ms=progress.batch_ms or 0.0,
    )


def describe(samples: Sequence[RateSample]) -> str:
    if not samples:
        return "No batch yet."
    last = samples[-1]
    return (
        f"input {_per_s(last.input_per_s)} · processing {_per_s(last.processed_per_s)} · "
        f"batch {last.batch}: {last.rows:,} rows in {_duration(last.duration_ms)}"
    )


def strip(samples: Sequence[RateSample]) -> str:
    """Two small charts side by side: both rates, and the duration of batches."""
    shown = samples[-SAMPLES_MAX:]
    half = (WIDTH - GAP) / 2
    rates = [v for b in shown for v in (b.input_per_s, b.processed_per_s) if v is not None]
    top_rate, top_ms = max(rates, default=0.0), max((b.duration_ms for b in shown), default=0.0)
    inputs = [b.input_per_s for b in shown]
    done = [b.processed_per_s for b in shown]
    parts = [
        _legend(0, INPUT, "input"),
        _legend(
            58, PROCESSED, f"processing, rows/s (up to {chart.format_number(round(top_rate, 1))})"
        ),
        _line(inputs, 0, half, top_rate, INPUT),
        _line(done, 0, half, top_rate, PROCESSED),
        _legend(half + GAP, DURATION, f"batch duration (up to {_duration(top_ms)})"),
        _bars([b.duration_ms for b in shown], half + GAP, half, top_ms),
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
