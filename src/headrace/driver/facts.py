"""Counts and gauges of a batch, from Spark's progress object: what `model/conditions` judge by.

Called by the listener on Spark's bus for every progress; the answer travels in the `progressed`
event. Spark has all of it already, so it costs no query anything.
Invariant: never raises, whatever Spark says; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.model.series import number
from headrace.transforms.quarantine import OBSERVED

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
AHEAD_S = 600.0  # an event time this far after its batch is no clock that runs a little fast
NAME_MAX = 200
ITEMS_MAX = 20


def of_batch(progress: Mapping[str, Any]) -> dict[str, Any]:
    """`counts` add up over batches, of `gauges` the newest counts; `sources` and `operators` are
    what their numbers stand for."""
    sources = _items(progress.get("sources"))
    operators = _items(progress.get("stateOperators"))
    counts = {"rows": number(progress.get("numInputRows")) or 0.0, "batches": 1.0}
    gauges: dict[str, float] = {}
    _count_phases(counts, progress.get("durationMs"))
    _count_state(counts, gauges, operators)
    for place, source in enumerate(sources):
        counts[f"in.{place}"] = number(source.get("numInputRows")) or 0.0
    observed = _mapping(_mapping(progress.get("observedMetrics")).get(OBSERVED))
    if observed:
        counts["quarantine.in"] = number(observed.get("rows")) or 0.0
        counts["quarantine.bad"] = number(observed.get("bad")) or 0.0
    _measure_event_time(counts, gauges, progress)
    return {
        "counts": counts,
        "gauges": gauges,
        "sources": [str(source.get("description"))[:NAME_MAX] for source in sources],
        "operators": [str(one.get("operatorName"))[:NAME_MAX] for one in operators],
    }


def _count_phases(counts: dict[str, float], durations: Any) -> None:
    known = _mapping(durations)
    for phase in (*PHASES, "triggerExecution"):
        took = number(known.get(phase))
        if took is not None:
            counts[f"ms.{phase}"] = took


def _count_state(
    counts: dict[str, float], gauges: dict[str, float], operators: list[Mapping[str, Any]]
) -> None:
    for place, one in enumerate(operators):
        counts[f"state.{place}.updated"] = number(one.get("numRowsUpdated")) or 0.0
        counts[f"state.{place}.removed"] = number(one.get("numRowsRemoved")) or 0.0
        gauges[f"state.{place}.rows"] = number(one.get("numRowsTotal")) or 0.0
        gauges[f"state.{place}.bytes"] = _state_bytes(one)
        late = number(one.get("numRowsDroppedByWatermark")) or 0.0
        counts["late"] = counts.get("late", 0.0) + late
        reached = late + counts[f"state.{place}.updated"]  # both counted after partial grouping
        counts["late.of"] = counts.get("late.of", 0.0) + reached


def _state_bytes(operator: Mapping[str, Any]) -> float:
    """What the state takes: files of RocksDB, else memory."""
    files = number(_mapping(operator.get("customMetrics")).get("rocksdbSstFileSize"))
    return files or number(operator.get("memoryUsedBytes")) or 0.0


def _measure_event_time(
    counts: dict[str, float], gauges: dict[str, float], progress: Mapping[str, Any]
) -> None:
    told = _mapping(progress.get("eventTime"))
    for name in ("watermark", "max"):
        at = _moment(told.get(name))
        if at is not None:
            gauges[f"event.{name}"] = at
    batch, newest, mean = (
        _moment(progress.get("timestamp")),
        gauges.get("event.max"),
        _moment(told.get("avg")),
    )
    if batch is None or newest is None or mean is None or newest < batch + AHEAD_S:
        return
    # Spark gives no count of them. As if they were all as far ahead as the farthest, and the
    # others as old as the batch: at least one, at most all.
    rows = counts["rows"]
    share = (mean - batch) / (newest - batch)
    counts["ahead"] = min(rows, max(1.0, round(rows * share)))


def _moment(text: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is None:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _items(value: Any) -> list[Mapping[str, Any]]:
    found = value if isinstance(value, list) else []
    return [one for one in found if isinstance(one, Mapping)][:ITEMS_MAX]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
