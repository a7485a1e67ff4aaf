"""How old the records of a batch were when it was committed, as far as it can be known.

Called by the listener for every progress object, on Spark's bus; the answer travels in the
`progressed` event. Three ways, the best one that is there:

    arrival   file sources, checkpoint on a disk here: the source's own log has every file's time;
              Kafka: the times of the first and the last record of a partition, from the broker
    event     queries with a watermark: Spark tells the batch's newest, mean and oldest event time
    trigger   rate and socket: rows came into being between the last look and this one

Invariant: never raises, whatever Spark says; what is not known is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.checkpoints import sources
from headrace.model import freshness
from headrace.model.pipeline import Node

SPREAD = 100  # steps in which a stretch of time is laid out evenly
RATE_MIN = 0.5  # rows a second; Spark rounds to a tenth, and below this that is too coarse
BORN_AS_READ = ("RateStreamV2[", "TextSocketV2[")  # how Spark describes such sources
ENTRY_MAX = 1 << 53

Points = list[tuple[float, float]]
Stretch = tuple[float, float, int]  # written from, until (ms); records


def sample(
    progress: Mapping[str, Any],
    checkpoint: Path | None,
    written: Mapping[int, Sequence[Stretch]] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """`fresh` of a `progressed` event; None for a batch without rows, or if nothing is known.
    `written` is what is known of the sources that are topics, by their number."""
    rows, committed_ms = _count(progress.get("numInputRows")), _committed_ms(progress)
    if rows == 0 or committed_ms is None:
        return None
    read = [
        (number, source)
        for number, source in enumerate(_items(progress.get("sources")))
        if isinstance(source, Mapping) and _count(source.get("numInputRows")) > 0
    ]
    arrived = [
        _written(written[number], _count(source.get("numInputRows")), committed_ms)
        if number in written
        else _arrived(source, number, checkpoint, committed_ms)
        for number, source in read
    ]
    if arrived and all(arrived):
        return freshness.told("arrival", rows, _together(arrived))
    if points := _by_event_time(progress.get("eventTime"), committed_ms):
        return freshness.told("event", rows, points)
    took_ms = committed_ms - (_time_ms(progress.get("timestamp")) or committed_ms)
    known = [one or _born(source, took_ms) for one, (_, source) in zip(arrived, read, strict=True)]
    if known and all(known):
        return freshness.told("trigger", rows, _together(known))
    return None


def after(nodes: Iterable[Node], inputs: Iterable[str]) -> list[str]:
    """The queries whose output is read back, also through views: their share of the age."""
    by_name = {node.name: node for node in nodes}
    found: dict[str, None] = {}
    queue, seen = list(inputs), set[str]()
    while queue:
        name = queue.pop(0)
        node = by_name.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.kind == "query":
            found[name] = None
        else:
            queue += node.inputs
    return list(found)


def _together(parts: Sequence[Points]) -> Points:
    return [point for points in parts for point in points]


def _arrived(
    source: Mapping[str, Any], number: int, checkpoint: Path | None, committed_ms: float
) -> Points:
    """The rows of a source, shared out evenly over its files: how many each had is not written."""
    upto, before = entry(source.get("endOffset")), entry(source.get("startOffset"))
    if checkpoint is None or upto is None:
        return []
    files = sources.arrivals(checkpoint, number, -1 if before is None else before, upto)
    count = math.fsum(weight for _, weight in files)
    rows = _count(source.get("numInputRows"))
    return [(committed_ms - ms, rows * weight / count) for ms, weight in files]


def _written(stretches: Sequence[Stretch], rows: int, committed_ms: float) -> Points:
    """The rows of a source; of many partitions some stand for all. As if written evenly."""
    known = sum(records for _, _, records in stretches)
    return [
        point
        for begin, end, records in stretches
        for point in _evenly(committed_ms - end, committed_ms - begin, rows * records / known)
    ]


def _by_event_time(told: Any, committed_ms: float) -> Points:
    if not isinstance(told, Mapping):
        return []
    times = [_time_ms(told.get(key)) for key in ("max", "avg", "min")]
    return _spread(times, committed_ms, 1.0)


def _spread(times: Sequence[float | None], until: float, weight: float) -> Points:
    """`times` are the newest, the mean, the oldest. Evenly around the mean, from the newest to as
    far beyond it, if any was so old."""
    newest, mean, oldest = times
    if newest is None or mean is None or not weight:
        return []
    low = max(2 * mean - newest, -math.inf if oldest is None else oldest)
    return _evenly(max(0.0, until - newest), max(0.0, until - low), weight)


def _born(source: Mapping[str, Any], took_ms: float) -> Points:
    """Spark's rate is the rows over the time since its last look: so that time is known, too."""
    rate, rows = _number(source.get("inputRowsPerSecond")), _count(source.get("numInputRows"))
    if not str(source.get("description")).startswith(BORN_AS_READ):
        return []
    if rate is None or rate < RATE_MIN:
        return []
    return _evenly(took_ms, took_ms + rows / rate * 1000, rows)


def _evenly(low: float, high: float, weight: float) -> Points:
    step = (high - low) / SPREAD
    return [(low + step * number, weight / (SPREAD + 1)) for number in range(SPREAD + 1)]


def _committed_ms(progress: Mapping[str, Any]) -> float | None:
    durations = progress.get("durationMs")
    took = _number(durations.get("triggerExecution")) if isinstance(durations, Mapping) else None
    began = _time_ms(progress.get("timestamp"))
    return None if took is None or began is None else began + max(0.0, took)


def entry(offset: Any) -> int | None:
    """A file source's own count. Other sources have other offsets: None."""
    number = offset.get("logOffset") if isinstance(offset, Mapping) else None
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if -1 <= number < ENTRY_MAX else None


def _time_ms(text: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is None:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < ENTRY_MAX else 0


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -1e15 < value < 1e15 else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
