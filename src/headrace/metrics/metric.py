"""A metric, its samples, and its names in other systems. Pure.

Names follow Prometheus: base units, `_total` for counters, the prefix `headrace_`. StatsD and
OpenTelemetry use dots and no `_total`: `headrace_query_input_rows_total` is
`headrace.query.input_rows` there. A collector that exports to Prometheus makes the first name from
the second again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.metrics.facts import Facts

PREFIX = "headrace"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"  # quantiles only


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` are not cumulative; the last bound is infinite."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Sample:
    """One series: the values of the metric's labels, in their order."""

    labels: tuple[str, ...]
    value: float | Histogram

    @property
    def number(self) -> float:
        """Of any metric but a histogram."""
        assert not isinstance(self.value, Histogram)  # noqa: S101 - see table.py
        return self.value

    @property
    def histogram(self) -> Histogram:
        assert isinstance(self.value, Histogram)  # noqa: S101 - see table.py
        return self.value


@dataclass(frozen=True, slots=True)
class Metric:
    """`unit` is a base unit (seconds, bytes) or what is counted. `read` omits unknown values."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    unit: str
    read: Callable[[Facts], Iterable[Sample]]

    @property
    def dotted_name(self) -> str:
        """Without prefix and `_total`: query.input_rows."""
        short = self.name.removeprefix(f"{PREFIX}_").removesuffix("_total")
        group, _, rest = short.partition("_")
        return f"{group}.{rest}" if group in GROUPS and rest else short


BASE_UNITS = {"seconds": "s", "bytes": "By"}  # and their codes in OpenTelemetry
GROUPS = ("pipeline", "query", "driver", "supervisor", "exporter", "alerts")


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its current samples."""

    metric: Metric
    samples: tuple[Sample, ...]
