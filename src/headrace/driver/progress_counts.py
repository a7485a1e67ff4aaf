"""Counts and gauges of a batch, from its progress. `health/conditions` judge by them.

Called by the listener on Spark's bus; the result is part of the `progressed` event.
Invariant: never raises. What is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.model.numbers import real
from headrace.model.progress import PHASES, Phase, Progress, StateOperator
from headrace.transforms.record_parser import OBSERVED

AHEAD_S = 600.0  # an event time this far after its batch is more than a clock running fast
NAME_MAX = 200
ITEMS_MAX = 20


def from_progress(progress: Progress) -> dict[str, Any]:
    """`counts` add up over batches; of `gauges` the newest value counts. `sources` and `operators`
    name what the numbers in their keys stand for."""
    sources, operators = progress.sources[:ITEMS_MAX], progress.operators[:ITEMS_MAX]
    counts = {"rows": float(progress.rows_in), "batches": 1.0}
    gauges: dict[str, float] = {}
    for phase in (*PHASES, Phase.WHOLE):
        if phase in progress.phases:
            counts[f"ms.{phase}"] = progress.phases[phase]
    _count_state(counts, gauges, operators)
    for place, source in enumerate(sources):
        counts[f"in.{place}"] = float(source.rows)
    observed = progress.observed.get(OBSERVED)
    if isinstance(observed, Mapping) and observed:
        counts["quarantine.in"] = real(observed.get("rows")) or 0.0
        counts["quarantine.bad"] = real(observed.get("bad")) or 0.0
    _measure_event_time(counts, gauges, progress)
    if counts.get("late") and len(sources) == 1:  # of several, Spark gives the times of one
        counts["late"] = min(counts["late"], _late_share_max(progress) * counts["late.of"])
    return {
        "counts": counts,
        "gauges": gauges,
        "sources": [source.description[:NAME_MAX] for source in sources],
        "operators": [operator.name for operator in operators],
    }


def _count_state(
    counts: dict[str, float], gauges: dict[str, float], operators: Sequence[StateOperator]
) -> None:
    for number, state in enumerate(operators):
        counts[f"state.{number}.updated"] = float(state.rows_updated)
        counts[f"state.{number}.removed"] = float(state.rows_removed)
        gauges[f"state.{number}.rows"] = float(state.rows or 0)
        gauges[f"state.{number}.bytes"] = float(state.file_bytes or state.memory_bytes or 0)
        counts["late"] = counts.get("late", 0.0) + state.rows_late
        counts["late.of"] = counts.get("late.of", 0.0) + state.rows_late + state.rows_updated


def _measure_event_time(
    counts: dict[str, float], gauges: dict[str, float], progress: Progress
) -> None:
    times, began = progress.event_times, progress.began_at
    for name, at in (("watermark", times.watermark), ("max", times.newest)):
        if at is not None:
            gauges[f"event.{name}"] = at
    if began is None or times.newest is None or times.mean is None:
        return
    if times.newest < began + AHEAD_S:
        return
    # Spark does not count them. Estimate: all of them are as far ahead as the farthest, and the
    # others are as old as the batch. At least one, at most all.
    rows = counts["rows"]
    share = (times.mean - began) / (times.newest - began)
    counts["ahead"] = min(rows, max(1.0, round(rows * share)))


def _late_share_max(progress: Progress) -> float:
    """An upper bound of the share of late rows, from the mean of their event times.

    An aggregation counts groups, not rows: one late row among thousands is one of a few groups.
    The bound holds because a late row is older than the watermark and no row is newer than `max`.
    """
    times = progress.event_times
    mean, newest, watermark = times.mean, times.newest, times.watermark
    if mean is None or newest is None or watermark is None or newest <= watermark:
        return 1.0
    return min(1.0, max(0.0, (newest - mean) / (newest - watermark)))
