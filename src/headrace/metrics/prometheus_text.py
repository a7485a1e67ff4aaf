"""The page `/metrics`: Prometheus text, or OpenMetrics if the client prefers it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric as PrometheusMetric
from prometheus_client.openmetrics import exposition as openmetrics

from headrace.metrics.metric import Family, Histogram, Kind

_SIMPLE = {Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily}


TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def page(families: Iterable[Family], accept: str) -> tuple[bytes, str]:
    """The page and its content type. `accept` is the request's Accept header."""
    registry = CollectorRegistry()
    registry.register(_Families(families))
    if prefers_openmetrics(accept):
        return bytes(openmetrics.generate_latest(registry)), OPENMETRICS  # type: ignore[no-untyped-call]
    return bytes(generate_latest(registry)), TEXT


def prefers_openmetrics(accept: str) -> bool:
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        q = next(
            (found for p in parameters if (found := re.fullmatch(r"q=([01](\.\d*)?)", p))), None
        )
        if kind in weights:
            weights[kind] = max(weights[kind], float(q[1]) if q else 1.0)
    mine, plain = weights.values()
    return mine > 0.0 and mine >= plain


class _Families:
    """Passes the families to the library's encoders."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[PrometheusMetric]:
        return map(_converted, self._families)

    def describe(self) -> Iterable[PrometheusMetric]:
        return ()


def _converted(family: Family) -> PrometheusMetric:
    metric = family.metric
    if metric.kind is Kind.SUMMARY:
        summary = SummaryMetricFamily(metric.name, metric.help)
        for one in family.samples:
            summary.add_sample(
                metric.name, dict(zip(metric.labels, one.labels, strict=True)), one.number
            )
        return summary
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for one in family.samples:
            histogram.add_metric(one.labels, _buckets(one.histogram), one.histogram.sum)
        return histogram
    simple = _SIMPLE[metric.kind]
    found: CounterMetricFamily | GaugeMetricFamily = simple(
        metric.name, metric.help, labels=metric.labels
    )
    for one in family.samples:
        found.add_metric(one.labels, one.number)
    return found


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus wants them."""
    found, total = [], 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        total += count
        found.append(("+Inf" if math.isinf(bound) else repr(bound), float(total)))
    return found
