"""The numbers in one progress object of Spark, and how they add up over time. Pure.

Read by `store/progress.py`. Invariant: nothing in a progress object can make this fail; a number
that is missing or no number is None, or 0 where it is a count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from headrace.store import texts

_N = TypeVar("_N", int, float)


# The parts of a batch that are rolled up: the column, and Spark's own name.
PHASES: Mapping[str, str] = {
    "latest_offset_ms": "latestOffset",
    "get_batch_ms": "getBatch",
    "query_planning_ms": "queryPlanning",
    "wal_commit_ms": "walCommit",
    "add_batch_ms": "addBatch",
    "commit_offsets_ms": "commitOffsets",
}


@dataclass(frozen=True, slots=True)
class Fresh:
    """How old the records of a batch were when it was committed; `n` of them, 0: not known."""

    basis: str | None = None
    n: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    newest_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    batch: int
    rows_in: int
    rows_out: int | None  # None: the sink does not tell
    input_rate: float | None
    processing_rate: float | None
    batch_ms: float | None
    phases: Mapping[str, float]  # milliseconds, by Spark's own names
    state_rows: int | None
    state_bytes: int | None
    watermark: float | None
    dropped: int
    fresh: Fresh


@dataclass(frozen=True, slots=True)
class Bucket:
    """What all batches of a stretch of time have in common. `rows_in` and `batch_ms` are sums."""

    start: float
    batches: int
    rows_in: int
    rows_in_min: int
    rows_in_max: int
    rows_out: int | None
    batch_ms: float | None
    batch_ms_max: float | None
    dropped: int
    state_rows_max: int | None
    state_bytes_max: int | None
    watermark: float | None  # the last one
    watermark_at: float | None
    fresh_n: int = 0  # records whose age is known
    fresh_p50_ms_by_n: float | None = None  # the p50 of each batch times its records, added up
    fresh_p99_ms_max: float | None = None
    latest_offset_ms: float | None = None  # PHASES, each a sum
    get_batch_ms: float | None = None
    query_planning_ms: float | None = None
    wal_commit_ms: float | None = None
    add_batch_ms: float | None = None
    commit_offsets_ms: float | None = None

    @property
    def fresh_p50_ms(self) -> float | None:
        """The mean of the batches' p50, each with the weight of its records."""
        if self.fresh_p50_ms_by_n is None or self.fresh_n == 0:
            return None
        return self.fresh_p50_ms_by_n / self.fresh_n


def of(progress: Mapping[str, Any], fresh: Any = None) -> Measure | None:
    """None if it has no batch number: then it is no progress of a batch."""
    batch = texts.whole(progress.get("batchId"))
    if batch is None:
        return None
    durations = _mapping(progress.get("durationMs"))
    phases = {str(k): ms for k, v in durations.items() if (ms := texts.real(v)) is not None}
    operators = [o for o in _sequence(progress.get("stateOperators")) if isinstance(o, Mapping)]
    batch_ms = phases.get("triggerExecution", texts.real(progress.get("batchDuration")))
    return Measure(
        batch=batch,
        rows_in=_rows_in(progress),
        rows_out=_rows_out(progress),
        input_rate=texts.real(progress.get("inputRowsPerSecond")),
        processing_rate=texts.real(progress.get("processedRowsPerSecond")),
        batch_ms=batch_ms,
        phases=phases,
        state_rows=_total(operators, "numRowsTotal"),
        state_bytes=_total(operators, "memoryUsedBytes"),
        watermark=_watermark(_mapping(progress.get("eventTime")).get("watermark")),
        dropped=_total(operators, "numRowsDroppedByWatermark") or 0,
        fresh=_fresh(fresh),
    )


def bucket_of(measure: Measure, at: float, width_s: float | None) -> Bucket:
    """A bucket with this one batch in it; without a width it starts at the batch's own time."""
    return Bucket(
        start=at if width_s is None else math.floor(at / width_s) * width_s,
        batches=1,
        rows_in=measure.rows_in,
        rows_in_min=measure.rows_in,
        rows_in_max=measure.rows_in,
        rows_out=measure.rows_out,
        batch_ms=measure.batch_ms,
        batch_ms_max=measure.batch_ms,
        dropped=measure.dropped,
        state_rows_max=measure.state_rows,
        state_bytes_max=measure.state_bytes,
        watermark=measure.watermark,
        watermark_at=None if measure.watermark is None else at,
        fresh_n=measure.fresh.n,
        fresh_p50_ms_by_n=None
        if measure.fresh.p50_ms is None
        else measure.fresh.p50_ms * measure.fresh.n,
        fresh_p99_ms_max=measure.fresh.p99_ms,
        **{column: measure.phases.get(name) for column, name in PHASES.items()},
    )


def merged(parts: Iterable[Bucket], step_s: float | None) -> list[Bucket]:
    """Parts in order of time, put together into steps; None: they start at their step already."""
    steps: dict[float, list[Bucket]] = {}
    for part in parts:
        start = part.start if step_s is None else math.floor(part.start / step_s) * step_s
        steps.setdefault(start, []).append(part)
    return [_together(start, group) for start, group in steps.items()]


def _together(start: float, group: list[Bucket]) -> Bucket:
    if len(group) == 1 and group[0].start == start:
        return group[0]
    last = max(group, key=_watermark_order)
    return Bucket(
        start=start,
        batches=sum(b.batches for b in group),
        rows_in=sum(b.rows_in for b in group),
        rows_in_min=min(b.rows_in_min for b in group),
        rows_in_max=max(b.rows_in_max for b in group),
        rows_out=_sum(b.rows_out for b in group),
        batch_ms=_sum(b.batch_ms for b in group),
        batch_ms_max=_largest(b.batch_ms_max for b in group),
        dropped=sum(b.dropped for b in group),
        state_rows_max=_largest(b.state_rows_max for b in group),
        state_bytes_max=_largest(b.state_bytes_max for b in group),
        watermark=last.watermark,
        watermark_at=last.watermark_at,
        fresh_n=sum(b.fresh_n for b in group),
        fresh_p50_ms_by_n=_sum(b.fresh_p50_ms_by_n for b in group),
        fresh_p99_ms_max=_largest(b.fresh_p99_ms_max for b in group),
        **{column: _sum(getattr(b, column) for b in group) for column in PHASES},
    )


def _watermark_order(bucket: Bucket) -> tuple[float, float]:
    if bucket.watermark_at is None or bucket.watermark is None:
        return (-math.inf, -math.inf)
    return (bucket.watermark_at, bucket.watermark)


def _sum(values: Iterable[_N | None]) -> _N | None:
    """Of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _largest(values: Iterable[_N | None]) -> _N | None:
    return max((value for value in values if value is not None), default=None)


def _fresh(body: Any) -> Fresh:
    """All of it or nothing: an age without its weight cannot be added up."""
    told = _mapping(body)
    basis, n = told.get("basis"), texts.whole(told.get("n"))
    p50, p99 = texts.real(told.get("p50_ms")), texts.real(told.get("p99_ms"))
    if not isinstance(basis, str) or n is None or n <= 0 or p50 is None or p99 is None:
        return Fresh()
    return Fresh(basis[:20], n, p50, p99, texts.real(told.get("newest_ms")))


def _rows_in(progress: Mapping[str, Any]) -> int:
    """At the top in Spark's JSON; in PySpark's own object only in the sources."""
    rows = texts.whole(progress.get("numInputRows"))
    if rows is None:
        sources = [s for s in _sequence(progress.get("sources")) if isinstance(s, Mapping)]
        rows = _total(sources, "numInputRows")
    return max(0, rows or 0)


def _rows_out(progress: Mapping[str, Any]) -> int | None:
    rows = texts.whole(_mapping(progress.get("sink")).get("numOutputRows"))
    return None if rows is None or rows < 0 else rows  # -1: Spark does not know


def _total(parts: Iterable[Mapping[str, Any]], name: str) -> int | None:
    numbers = [n for part in parts if (n := texts.whole(part.get(name))) is not None]
    return texts.whole(sum(numbers)) if numbers else None


def _watermark(text: Any) -> float | None:
    """Seconds; None for 1970-01-01, Spark's way of saying that there is none yet."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() or None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []
