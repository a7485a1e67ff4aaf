"""Rows that wait in a source, from the offsets in Spark's progress object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def waiting(sources: Any) -> int | None:
    """Rows that wait in sources which count their offsets (topic, partition, number), else None."""
    lag: int | None = None
    for source in sources if isinstance(sources, list | tuple) else ():
        if isinstance(source, Mapping):
            rows = _difference(source.get("latestOffset"), source.get("endOffset"))
            lag = lag if rows is None else (lag or 0) + rows
    return lag


def _difference(latest: Any, end: Any) -> int | None:
    if not isinstance(latest, Mapping) or not isinstance(end, Mapping):
        return None
    total = 0
    for topic, partitions in latest.items():
        done = end.get(topic)
        if not isinstance(partitions, Mapping) or not isinstance(done, Mapping):
            return None
        for partition, offset in partitions.items():
            there, here = _integer(offset), _integer(done.get(partition, 0))
            if there is None or here is None:
                return None
            total += max(0, there - here)
    return total


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
