"""Measures the latency of results, from the append time of a record in Kafka. Pure.

No time comes from the pipeline itself: all are append times of the broker, times of checkpoint
files, or times from the alert store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SILENT_AFTER_MS = 60_000.0  # as in project/pipelines/metrics.py
Beat = tuple[int, int]  # cluster, microseconds


@dataclass(frozen=True, slots=True)
class Latency:
    p50_ms: float
    p99_ms: float
    count: int

    def to_json(self) -> dict[str, Any]:
        return {"p50": round(self.p50_ms, 1), "p99": round(self.p99_ms, 1), "count": self.count}


def from_samples(milliseconds: Iterable[float]) -> Latency | None:
    """None without samples."""
    ordered = sorted(milliseconds)
    if not ordered:
        return None
    return Latency(_at(ordered, 0.5), _at(ordered, 0.99), len(ordered))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure_beats(
    went_in: Mapping[Beat, float], came_out: Iterable[tuple[Beat, float]]
) -> list[float]:
    """The first output of each heartbeat; later ones are repetitions. Heartbeats from before the
    first output are left out: they waited for the first start."""
    first: dict[Beat, float] = {}
    for beat, at in came_out:
        first[beat] = min(at, first.get(beat, at))
    started = min(first.values(), default=0.0)
    known = [(went_in[beat], at) for beat, at in first.items() if beat in went_in]
    return [at - before for before, at in known if before >= started]


def measure_batches(
    appended: Mapping[int, Sequence[float]], batches: Iterable[tuple[Mapping[int, int], float]]
) -> list[float]:
    """`appended`: append times by partition, from offset 0. `batches`: end offsets and commit time
    of each batch, in order. The first batch only gives the start offsets of the second."""
    found: list[float] = []
    before: Mapping[int, int] | None = None
    for upto, done in batches:
        for partition, end in upto.items() if before is not None else ():
            begin = (before or {}).get(partition, 0)
            found += [done - at for at in appended.get(partition, ())[begin:end]]
        before = upto
    return found


def measure_silences(
    came_out: Iterable[tuple[Beat, float]], noticed: Iterable[tuple[int, float]]
) -> list[float]:
    """`noticed`: cluster and time of an alert, which is due one minute after the cluster's last
    heartbeat. Heartbeats within that minute are from after the silence, and do not count."""
    beats: dict[int, list[float]] = {}
    for (cluster, _), at in came_out:
        beats.setdefault(cluster, []).append(at)
    found = []
    for cluster, at in noticed:
        before = [beat for beat in beats.get(cluster, []) if beat <= at - SILENT_AFTER_MS]
        if before:
            found.append(at - max(before) - SILENT_AFTER_MS)
    return found
