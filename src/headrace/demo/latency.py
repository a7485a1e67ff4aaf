"""How long each result took, from the moment its record was in Kafka. Pure.

Every moment is told by somebody else than the pipeline: the broker's append times, the files of a
checkpoint, the store of alerts.
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


def of(milliseconds: Iterable[float]) -> Latency | None:
    """None of nothing."""
    ordered = sorted(milliseconds)
    if not ordered:
        return None
    return Latency(_at(ordered, 0.5), _at(ordered, 0.99), len(ordered))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def of_beats(went_in: Mapping[Beat, float], came_out: Iterable[tuple[Beat, float]]) -> list[float]:
    """Of each heartbeat the first time that it came out: later ones were sent again. What went in
    before any had come out waited for the very first start."""
    first: dict[Beat, float] = {}
    for beat, at in came_out:
        first[beat] = min(at, first.get(beat, at))
    begun = min(first.values(), default=0.0)
    known = [(went_in[beat], at) for beat, at in first.items() if beat in went_in]
    return [at - before for before, at in known if before >= begun]


def of_batches(
    appended: Mapping[int, Sequence[float]], batches: Iterable[tuple[Mapping[int, int], float]]
) -> list[float]:
    """`appended`: by partition the moments of its records, from offset 0. `batches`: in order, up
    to where each has read, and when it was done. The first is only where the next one begins."""
    found: list[float] = []
    before: Mapping[int, int] | None = None
    for upto, done in batches:
        for partition, end in upto.items() if before is not None else ():
            begin = (before or {}).get(partition, 0)
            found += [done - at for at in appended.get(partition, ())[begin:end]]
        before = upto
    return found


def of_silences(
    came_out: Iterable[tuple[Beat, float]], noticed: Iterable[tuple[int, float]]
) -> list[float]:
    """`noticed`: cluster and moment of an alert. A minute after its last heartbeat it was due; one
    that came while it was due already, the cluster being back, is not that."""
    beats: dict[int, list[float]] = {}
    for (cluster, _), at in came_out:
        beats.setdefault(cluster, []).append(at)
    found = []
    for cluster, at in noticed:
        before = [one for one in beats.get(cluster, []) if one <= at - SILENT_AFTER_MS]
        if before:
            found.append(at - max(before) - SILENT_AFTER_MS)
    return found
