"""How the numbers of batches add up over time. Pure; used by `store/progress.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.numbers import real, whole
from headrace.model.progress import PHASES as SPARK_PHASES
from headrace.model.progress import Progress

# The parts of a batch that are rolled up: the column, and Spark's own name.
PHASES: Mapping[str, str] = {f"{one.name.lower()}_ms": one.value for one in SPARK_PHASES}


@dataclass(frozen=True, slots=True)
class FreshnessMetric:
    """Ages of the `n` records of a batch when it was committed. 0: unknown."""

    basis: str | None = None
    n: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    newest_ms: float | None = None


@dataclass(frozen=True, slots=True)
class MetricBucket:
    """All batches of a time range. `rows_in` and `batch_ms` are sums."""

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
        """The mean of the batches' p50, weighted by their records."""
        if self.fresh_p50_ms_by_n is None or self.fresh_n == 0:
            return None
        return self.fresh_p50_ms_by_n / self.fresh_n


def bucket_of(
    progress: Progress, fresh: FreshnessMetric, at: float, width_s: float
) -> MetricBucket:
    """A bucket with this one batch in it."""
    watermark = watermark_of(progress)
    return MetricBucket(
        start=math.floor(at / width_s) * width_s,
        batches=1,
        rows_in=progress.rows_in,
        rows_in_min=progress.rows_in,
        rows_in_max=progress.rows_in,
        rows_out=progress.rows_out,
        batch_ms=progress.batch_ms,
        batch_ms_max=progress.batch_ms,
        dropped=progress.rows_late,
        state_rows_max=progress.state_rows,
        state_bytes_max=progress.state_bytes,
        watermark=watermark,
        watermark_at=None if watermark is None else at,
        fresh_n=fresh.n,
        fresh_p50_ms_by_n=None if fresh.p50_ms is None else fresh.p50_ms * fresh.n,
        fresh_p99_ms_max=fresh.p99_ms,
        **{column: progress.phases.get(name) for column, name in PHASES.items()},
    )


# How the fields of two buckets are combined. The others: `rows_in_min` and the last watermark.
_COUNTS = ("batches", "rows_in", "rows_out", "batch_ms", "dropped", "fresh_n", "fresh_p50_ms_by_n")
SUMS = (*_COUNTS, *PHASES)
MAXIMA = ("rows_in_max", "batch_ms_max", "state_rows_max", "state_bytes_max", "fresh_p99_ms_max")


def watermark_of(progress: Progress) -> float | None:
    """Seconds; None for 1970-01-01, which Spark writes before the first one."""
    return progress.event_times.watermark or None


def parse_fresh(body: Any) -> FreshnessMetric:
    """All fields or none: an age without its weight cannot be added up."""
    given = body if isinstance(body, Mapping) else {}
    basis, n = given.get("basis"), whole(given.get("n"))
    p50, p99 = real(given.get("p50_ms")), real(given.get("p99_ms"))
    if not isinstance(basis, str) or n is None or n <= 0 or p50 is None or p99 is None:
        return FreshnessMetric()
    return FreshnessMetric(basis[:20], n, p50, p99, real(given.get("newest_ms")))


def merge_buckets(parts: Iterable[MetricBucket], step_s: float | None) -> list[MetricBucket]:
    """Ordered parts, merged into steps; None: they already start at their step."""
    steps: dict[float, list[MetricBucket]] = {}
    for part in parts:
        start = part.start if step_s is None else math.floor(part.start / step_s) * step_s
        steps.setdefault(start, []).append(part)
    return [_together(start, group) for start, group in steps.items()]


def _together(start: float, group: list[MetricBucket]) -> MetricBucket:
    if len(group) == 1 and group[0].start == start:
        return group[0]
    last = max(group, key=_watermark_order)
    return MetricBucket(
        start=start,
        rows_in_min=min(b.rows_in_min for b in group),
        watermark=last.watermark,
        watermark_at=last.watermark_at,
        **{name: _known(sum, group, name) for name in SUMS},
        **{name: _known(max, group, name) for name in MAXIMA},
    )


def _watermark_order(bucket: MetricBucket) -> tuple[float, float]:
    if bucket.watermark_at is None or bucket.watermark is None:
        return (-math.inf, -math.inf)
    return (bucket.watermark_at, bucket.watermark)


def _known(combine: Callable[[list[Any]], Any], group: list[MetricBucket], name: str) -> Any:
    """Combines the known values; None if all are unknown."""
    values = [value for bucket in group if (value := getattr(bucket, name)) is not None]
    return combine(values) if values else None
