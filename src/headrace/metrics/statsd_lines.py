"""StatsD lines and packets, with DogStatsD tags or with the labels in the name. Pure.

Formats: https://github.com/statsd/statsd/blob/master/docs/metric_types.md and
https://docs.datadoghq.com/developers/dogstatsd/datagram_shell. A counter is sent as its increase
since the last packet, so the last values are stored (`relay/statsd_export.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.metrics.metric import Family, Histogram, Kind, Metric, Sample

PACKET_BYTES_MAX = 1432  # fits into one Ethernet frame
_NOT_IN_TAGS = re.compile(r"[|,#\s\x00-\x1f]+")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")

Counters = Mapping[str, float]  # name and labels -> value


@dataclass(frozen=True, slots=True)
class Lines:
    """`counters` are the values after these lines were sent."""

    lines: tuple[str, ...]
    counters: Counters


def write(
    families: Iterable[Family], prefix: str, *, has_tags: bool, before: Counters | None
) -> Lines:
    """`before`: the counters at the last call. None: unknown, so no counter is sent this time."""
    lines: list[str] = []
    counters: dict[str, float] = {}
    for family in families:
        for name, sample, value, is_counter in _values(family, prefix):
            series = _series(name, family.metric, sample, has_tags=has_tags)
            if not is_counter:
                lines += _gauge(series, value)
                continue
            key = "".join(series)
            counters[key] = value
            if before is not None and (increase := _increase(before.get(key), value)):
                lines.append(f"{series[0]}:{_number(increase)}|c{series[1]}")
    return Lines(tuple(lines), counters)


def pack(lines: Iterable[str]) -> Iterator[tuple[bytes, int]]:
    """Packets with the number of their lines. A line that does not fit is a packet of its own."""
    packet, count = b"", 0
    for line in lines:
        content = line.encode()
        if packet and len(packet) + 1 + len(content) > PACKET_BYTES_MAX:
            yield packet, count
            packet, count = b"", 0
        packet, count = (packet + b"\n" + content if packet else content), count + 1
    if packet:
        yield packet, count


def _values(family: Family, prefix: str) -> Iterator[tuple[str, Sample, float, bool]]:
    """Name, sample, value, and whether it is a counter. A histogram is its sum: the number of
    batches is a counter of its own."""
    metric = family.metric
    name = f"{prefix}.{metric.dotted_name}" if prefix else metric.dotted_name
    for sample in family.samples:
        if isinstance(sample.value, Histogram):
            yield f"{name}.sum", sample, sample.value.sum, True
        else:
            yield name, sample, sample.value, metric.kind is Kind.COUNTER


def _series(name: str, metric: Metric, sample: Sample, *, has_tags: bool) -> tuple[str, str]:
    """The name, and the tags with their separator."""
    pairs = [(k, v) for k, v in zip(metric.labels, sample.labels, strict=True) if v]
    if has_tags:
        tags = ",".join(f"{label}:{_NOT_IN_TAGS.sub('_', value)}" for label, value in pairs)
        return name, f"|#{tags}" if tags else ""
    return ".".join([name, *(_NOT_IN_NAMES.sub("_", value) for _, value in pairs)]), ""


def _gauge(series: tuple[str, str], value: float) -> list[str]:
    """A sign means a change, so a negative value is set from 0."""
    line = f"{series[0]}:{_number(value)}|g{series[1]}"
    return [f"{series[0]}:0|g{series[1]}", line] if value < 0 else [line]


def _increase(before: float | None, value: float) -> float:
    """A counter that is new or has gone back started at 0."""
    return value if before is None or value < before else value - before


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
