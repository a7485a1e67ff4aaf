"""The table of all metrics. docs/reference/metrics.md lists the same ones; a test compares them.

Invariant: a value that is unknown is left out, never 0. The number of series is bounded by the
numbers of pipelines and queries: no label has a value from the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from headrace.metrics.facts import Facts, PipelineFacts, QueryFacts
from headrace.metrics.metric import Family, Histogram, Kind, Metric, Sample
from headrace.model.alerts import SEVERITIES
from headrace.model.status import WORKING, State
from headrace.store.totals import DURATIONS_MS

SERIES_MAX = 50_000
FAILURE_KINDS = ("retry", "retry-then-human", "human", "data", "unknown")  # always exported
PIPELINE = ("pipeline",)
QUERY = ("pipeline", "query")

_OfPipeline = Callable[[PipelineFacts], float | None]
_OfQuery = Callable[[QueryFacts], float | None]


def read_all(facts: Facts) -> list[Family]:
    """The current samples of every metric. If there are too many series, the last ones are cut:
    a page that a monitoring system refuses would lose all of them."""
    found, left = [], SERIES_MAX
    for metric in METRICS:
        samples = tuple(metric.read(facts))[:left]
        left -= len(samples)
        if samples:
            found.append(Family(metric, samples))
    return found


def _of_pipelines(read: _OfPipeline, facts: Facts) -> Iterator[Sample]:
    for one in facts.pipelines:
        if (value := read(one)) is not None:
            yield Sample((one.status.name,), float(value))


def _of_queries(read: _OfQuery, facts: Facts) -> Iterator[Sample]:
    for pipeline in facts.pipelines:
        for query in pipeline.queries:
            if (value := read(query)) is not None:
                yield Sample((pipeline.status.name, query.name), float(value))


def _of_status(field: str, scale: float = 1.0) -> _OfQuery:
    def read(query: QueryFacts) -> float | None:
        value = getattr(query.status, field, None)
        return None if value is None else value * scale

    return read


def _of_totals(field: str, scale: float = 1.0) -> _OfQuery:
    def read(query: QueryFacts) -> float | None:
        value = getattr(query.totals, field, None)
        return None if value is None else value * scale

    return read


def _of_driver(field: str) -> _OfPipeline:
    return lambda pipeline: getattr(pipeline.driver, field)


def _is_up(pipeline: PipelineFacts) -> float:
    return float(pipeline.status.state in WORKING)


def _started_at(pipeline: PipelineFacts) -> float | None:
    return pipeline.status.since if pipeline.status.state in WORKING else None


def _states(facts: Facts) -> Iterator[Sample]:
    for one in facts.pipelines:
        for state in State:
            is_current = one.status.state == state
            yield Sample((one.status.name, str(state)), float(is_current))


def _failures(facts: Facts) -> Iterator[Sample]:
    for one in facts.pipelines:
        if one.failures is not None:
            for kind, count in {**dict.fromkeys(FAILURE_KINDS, 0), **one.failures}.items():
                yield Sample((one.status.name, kind), float(count))


def _alerts(facts: Facts) -> Iterator[Sample]:
    if facts.alerts is None:
        return
    names = {"", *(one.status.name for one in facts.pipelines)}
    for name in sorted(names):
        for severity in SEVERITIES:
            yield Sample((name, severity), float(facts.alerts.get((name, severity), 0)))


def _findings(facts: Facts) -> Iterator[Sample]:
    for one in facts.pipelines:
        counts = Counter(
            (query.name, finding.slug) for query in one.status.queries for finding in query.findings
        )
        for (query, slug), count in sorted(counts.items()):
            yield Sample((one.status.name, query, slug), float(count))


def _freshness(facts: Facts) -> Iterator[Sample]:
    for pipeline in facts.pipelines:
        for query in pipeline.queries:
            for quantile, field in (("0.5", "fresh_p50_ms"), ("0.99", "fresh_p99_ms")):
                if (age_ms := getattr(query.status, field, None)) is not None:
                    yield Sample((pipeline.status.name, query.name, quantile), age_ms / 1000)


def _durations(facts: Facts) -> Iterator[Sample]:
    for pipeline in facts.pipelines:
        for query in pipeline.queries:
            if query.durations:
                yield Sample((pipeline.status.name, query.name), _histogram(query))


def _histogram(query: QueryFacts) -> Histogram:
    counts = dict.fromkeys(DURATIONS_MS, 0)
    for one in query.durations:  # an earlier version may have had other limits
        limit = next(limit for limit in DURATIONS_MS if one.le_ms <= limit)
        counts[limit] += one.batches
    seconds = sum(one.ms for one in query.durations) / 1000
    return Histogram([ms / 1000 for ms in counts], list(counts.values()), seconds)


def _lag_rows(query: QueryFacts) -> float | None:
    if query.lag is not None:
        return query.lag.records
    return None if query.status is None or query.status.is_lag_unknown else query.status.lag_rows


def _lag_s(query: QueryFacts) -> float | None:
    return query.lag.seconds if query.lag is not None and not query.lag.is_real_time else None


def _loss_in_s(query: QueryFacts) -> float | None:
    return None if query.lag is None or query.lag.problem else query.lag.loss_in_s


def _info(facts: Facts) -> Iterator[Sample]:
    yield Sample((facts.version, facts.project, facts.profile), 1.0)


def _supervised(facts: Facts) -> Iterator[Sample]:
    yield Sample((), float(facts.is_supervised))


def _of_exports(field: str, facts: Facts) -> Iterator[Sample]:
    for export in facts.exports:
        yield Sample((export.name,), float(getattr(export, field)))


def _exports_up(facts: Facts) -> Iterator[Sample]:
    for export in facts.exports:
        yield Sample((export.name,), float(export.problem is None))


def _pipeline(name: str, kind: Kind, unit: str, help: str, read: _OfPipeline) -> Metric:
    return Metric(f"headrace_{name}", kind, help, PIPELINE, unit, partial(_of_pipelines, read))


def _query(name: str, kind: Kind, unit: str, help: str, read: _OfQuery) -> Metric:
    metric = f"headrace_query_{name}"
    return Metric(metric, kind, help, QUERY, unit, partial(_of_queries, read))


def _other(
    name: str,
    kind: Kind,
    unit: str,
    help: str,
    labels: tuple[str, ...],
    read: Callable[[Facts], Iterable[Sample]],
) -> Metric:
    return Metric(f"headrace_{name}", kind, help, labels, unit, read)


METRICS: tuple[Metric, ...] = (
    _other("build_info", Kind.GAUGE, "", "Always 1; the labels name the version and the project.",
           ("version", "project", "profile"), _info),
    _other("supervisor_up", Kind.GAUGE, "", "1 while the supervisor runs.", (), _supervised),
    _pipeline("pipeline_up", Kind.GAUGE, "",
              "1 if the pipeline commits batches (running, degraded or catching up), else 0.",
              _is_up),
    _other("pipeline_state", Kind.GAUGE, "",
           "1 for the current state of the pipeline, 0 for every other state.",
           ("pipeline", "state"), _states),
    _pipeline("pipeline_start_timestamp_seconds", Kind.GAUGE, "seconds",
              "When the current run started, in seconds since 1970.", _started_at),
    _pipeline("pipeline_restarts_total", Kind.COUNTER, "restarts",
              "Restarts by Headrace after a failure.", lambda one: one.restarts),
    _other("pipeline_failures_total", Kind.COUNTER, "failures",
           "Runs that failed, by the kind of failure.", ("pipeline", "kind"), _failures),
    _other("alerts_open", Kind.GAUGE, "alerts",
           "Open alerts; those of the project itself have an empty pipeline label.",
           ("pipeline", "severity"), _alerts),
    _other("findings", Kind.GAUGE, "findings",
           "Current findings: problems of queries that have not failed.",
           ("pipeline", "query", "slug"), _findings),
    _pipeline("driver_heap_used_bytes", Kind.GAUGE, "bytes",
              "Memory in use on the heap of the driver's JVM.", _of_driver("heap_used")),
    _pipeline("driver_heap_max_bytes", Kind.GAUGE, "bytes",
              "The limit of the heap of the driver's JVM.", _of_driver("heap_max")),
    _pipeline("driver_resident_memory_bytes", Kind.GAUGE, "bytes",
              "Resident memory of the driver and all its child processes.",
              _of_driver("memory")),
    _pipeline("driver_cpu_seconds_total", Kind.COUNTER, "seconds",
              "CPU time of the current driver and its child processes; each run starts at 0.",
              _of_driver("cpu_s")),
    _pipeline("driver_disk_free_bytes", Kind.GAUGE, "bytes",
              "Free space on the fullest disk that holds checkpoints or temporary files.",
              _of_driver("disk_free")),
    _query("batches_total", Kind.COUNTER, "batches", "Committed batches.", _of_totals("batches")),
    _query("input_rows_total", Kind.COUNTER, "rows", "Rows read.", _of_totals("rows_in")),
    _query("output_rows_total", Kind.COUNTER, "rows",
           "Rows written; absent if the sink does not count them.", _of_totals("rows_out")),
    _query("late_rows_total", Kind.COUNTER, "rows",
           "Rows dropped because they arrived after the watermark.", _of_totals("late")),
    _query("quarantined_rows_total", Kind.COUNTER, "rows",
           "Records put into quarantine; the query is VIEW.quarantine.",
           _of_totals("quarantined")),
    _other("query_batch_duration_seconds", Kind.HISTOGRAM, "seconds",
           "How long batches took, from trigger to commit.", QUERY, _durations),
    _query("last_batch_duration_seconds", Kind.GAUGE, "seconds",
           "How long the newest batch took.", _of_totals("last_ms", 0.001)),
    _query("last_batch_timestamp_seconds", Kind.GAUGE, "seconds",
           "When the newest batch was reported, in seconds since 1970.", _of_totals("at")),
    _query("input_rate", Kind.GAUGE, "rows per second",
           "Rows per second that arrived for the newest batch.", _of_status("input_rate")),
    _query("processing_rate", Kind.GAUGE, "rows per second",
           "Rows per second that the newest batch processed.", _of_status("processing_rate")),
    _query("lag_rows", Kind.GAUGE, "rows", "Rows that wait in the source.", _lag_rows),
    _query("lag_seconds", Kind.GAUGE, "seconds",
           "How long the oldest unread record has waited in its topic.", _lag_s),
    _query("time_to_data_loss_seconds", Kind.GAUGE, "seconds",
           "Time until the broker may delete the oldest unread record; absent if nothing waits or"
           " the topic keeps records forever.", _loss_in_s),
    _other("query_freshness_seconds", Kind.SUMMARY, "seconds",
           "Age of records when their batch was committed, over the last batches.",
           ("pipeline", "query", "quantile"), _freshness),
    _query("freshness_target_seconds", Kind.GAUGE, "seconds",
           "The freshness target (fresh_within).", _of_status("fresh_within_s")),
    _query("watermark_timestamp_seconds", Kind.GAUGE, "seconds",
           "The watermark of the newest batch, in seconds since 1970.", _of_totals("watermark")),
    _query("state_rows", Kind.GAUGE, "rows", "Rows in the state store.",
           _of_totals("state_rows")),
    _query("state_bytes", Kind.GAUGE, "bytes", "Memory that the state store uses.",
           _of_totals("state_bytes")),
    _other("exporter_up", Kind.GAUGE, "", "1 if the exporter has no problem.", ("exporter",),
           _exports_up),
    _other("exporter_sent_total", Kind.COUNTER, "",
           "What the exporter has sent: events (Kafka), pages (Prometheus), lines or data points.",
           ("exporter",), partial(_of_exports, "sent")),
    _other("exporter_dropped_total", Kind.COUNTER, "",
           "What the exporter could not send, in the same units.", ("exporter",),
           partial(_of_exports, "dropped")),
)  # fmt: skip
