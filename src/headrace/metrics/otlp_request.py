"""A request of OpenTelemetry's protocol (OTLP) with all metrics. Needs the extra `otel`.

Only the published message classes are used: the SDK would measure by itself, and these values are
measured already. Counters are cumulative, and their start time is left out: totals are older than
this process, and a new start time would look like a reset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.errors import ConfigError
from headrace.metrics.metric import BASE_UNITS, PREFIX, Family, Kind, Sample


def require_extra() -> None:
    try:
        import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2  # noqa: F401
    except ImportError as exc:
        raise ConfigError(
            "The OpenTelemetry package is not installed.",
            why="[metrics.otlp] needs it to write requests.",
            fix='pip install "headrace[otel]"',
            slug="missing-extra",
        ) from exc


def build(
    families: Iterable[Family], resource: Mapping[str, str], version: str, at: float
) -> tuple[bytes, int]:
    """The body and the number of its data points. `resource`: service.name and so on."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.metrics.v1 import metrics_pb2
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    families = tuple(families)
    scope = metrics_pb2.ScopeMetrics(
        scope=InstrumentationScope(name=PREFIX, version=version),
        metrics=[_metric(metrics_pb2, family, int(at * 1e9)) for family in families],
    )
    of_project = metrics_pb2.ResourceMetrics(
        resource=Resource(attributes=_attributes(resource)), scope_metrics=[scope]
    )
    request = metrics_service_pb2.ExportMetricsServiceRequest(resource_metrics=[of_project])
    return bytes(request.SerializeToString()), sum(len(family.samples) for family in families)


def rejected(reply: bytes) -> tuple[int, str]:
    """How many data points the receiver refused, and why; (0, "") for any other reply."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    try:
        found = metrics_service_pb2.ExportMetricsServiceResponse.FromString(reply).partial_success
    except DecodeError:
        return 0, ""
    return max(0, found.rejected_data_points), found.error_message[:500]


def _metric(pb: Any, family: Family, at: int) -> Any:
    metric = family.metric
    unit = BASE_UNITS.get(metric.unit, f"{{{metric.unit}}}" if metric.unit else "1")
    found = pb.Metric(name=f"{PREFIX}.{metric.dotted_name}", description=metric.help, unit=unit)
    if metric.kind is Kind.HISTOGRAM:
        found.histogram.aggregation_temporality = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
        found.histogram.data_points.extend(_histogram(pb, family, s, at) for s in family.samples)
        return found
    points = [
        pb.NumberDataPoint(attributes=_labels(family, s), time_unix_nano=at, as_double=s.number)
        for s in family.samples
    ]
    if metric.kind is Kind.COUNTER:
        found.sum.aggregation_temporality = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
        found.sum.is_monotonic = True
        found.sum.data_points.extend(points)
    else:
        found.gauge.data_points.extend(points)
    return found


def _histogram(pb: Any, family: Family, sample: Sample, at: int) -> Any:
    value = sample.histogram
    return pb.HistogramDataPoint(
        attributes=_labels(family, sample),
        time_unix_nano=at,
        count=value.count,
        sum=value.sum,
        bucket_counts=value.counts,
        explicit_bounds=[bound for bound in value.bounds if not math.isinf(bound)],
    )


def _labels(family: Family, sample: Sample) -> list[Any]:
    return _attributes(dict(zip(family.metric.labels, sample.labels, strict=True)))


def _attributes(pairs: Mapping[str, str]) -> list[Any]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    return [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in pairs.items()]
