"""How old the records of a batch were when it was committed, as far as that is known.

Called by the listener for every batch, on Spark's bus; the result is part of the `progressed`
event. There are three ways; the first that applies is used:

    arrival   file sources, checkpoint on a local disk: the source's own log has every file's time;
              Kafka: the times of the first and the last record of a partition, from the broker
    event     queries with a watermark: Spark reports the newest, mean and oldest event time
    trigger   rate and socket: rows were created between the previous trigger and this one

Invariant: never raises. An unknown age is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.checkpoints import source_logs
from headrace.model import freshness
from headrace.model.progress import Progress, SourceProgress

SPREAD = 100  # steps over which a time range is spread evenly
RATE_MIN = 0.5  # rows per second; Spark rounds to a tenth, which is too coarse below this
BORN_AS_READ = ("RateStreamV2[", "TextSocketV2[")  # how Spark describes such sources

Points = list[tuple[float, float]]
Stretch = tuple[float, float, int]  # written from, until (ms); records


def sample(
    progress: Progress,
    checkpoint: Path | None,
    written: Mapping[int, Sequence[Stretch]] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """`fresh` of a `progressed` event; None for a batch without rows, or if nothing is known.
    `written` is what the brokers reported, by the number of the source."""
    rows, committed_at = progress.rows_in, progress.committed_at
    if rows == 0 or committed_at is None:
        return None
    committed_ms = committed_at * 1000
    read = [(number, source) for number, source in enumerate(progress.sources) if source.rows > 0]
    arrived = [
        _ages_from_records(written[number], source.rows, committed_ms)
        if number in written
        else _ages_from_files(source, number, checkpoint, committed_ms)
        for number, source in read
    ]
    if arrived and all(arrived):
        return freshness.ages_to_json("arrival", rows, list(chain.from_iterable(arrived)))
    if points := _ages_from_event_time(progress, committed_ms):
        return freshness.ages_to_json("event", rows, points)
    took_ms = committed_ms - (progress.began_at or committed_at) * 1000
    known = [
        ages or _ages_from_rate(source, took_ms)
        for ages, (_, source) in zip(arrived, read, strict=True)
    ]
    if known and all(known):
        return freshness.ages_to_json("trigger", rows, list(chain.from_iterable(known)))
    return None


def _ages_from_files(
    source: SourceProgress, number: int, checkpoint: Path | None, committed_ms: float
) -> Points:
    """The rows of a source, spread evenly over its files: the log has no count for each."""
    upto, before = source.end_entry, source.start_entry
    if checkpoint is None or upto is None:
        return []
    files = source_logs.arrivals(checkpoint, number, -1 if before is None else before, upto)
    count = math.fsum(weight for _, weight in files)
    return [(committed_ms - ms, source.rows * weight / count) for ms, weight in files]


def _ages_from_records(stretches: Sequence[Stretch], rows: int, committed_ms: float) -> Points:
    """As if written evenly. Some of many partitions stand for all."""
    known = sum(records for _, _, records in stretches)
    return [
        point
        for begin, end, records in stretches
        for point in _evenly(committed_ms - end, committed_ms - begin, rows * records / known)
    ]


def _ages_from_event_time(progress: Progress, committed_ms: float) -> Points:
    """Evenly around the mean: from the newest to as far beyond the mean, or to the oldest."""
    times = progress.event_times
    if times.newest is None or times.mean is None:
        return []
    low = max(2 * times.mean - times.newest, -math.inf if times.oldest is None else times.oldest)
    young, old = (max(0.0, committed_ms - at * 1000) for at in (times.newest, low))
    return _evenly(young, old, 1.0)


def _ages_from_rate(source: SourceProgress, took_ms: float) -> Points:
    """Spark's rate is the rows over the time since its last trigger, which gives that time."""
    rate = source.input_rate
    if not source.description.startswith(BORN_AS_READ) or rate is None or rate < RATE_MIN:
        return []
    return _evenly(took_ms, took_ms + source.rows / rate * 1000, source.rows)


def _evenly(low: float, high: float, weight: float) -> Points:
    step = (high - low) / SPREAD
    return [(low + step * number, weight / (SPREAD + 1)) for number in range(SPREAD + 1)]
