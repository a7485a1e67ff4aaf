"""The metrics that a user's rule can name, with their units. Pure.

docs/reference/rules.md lists them; a test compares it with this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.rules import About, Facts, PipelineFacts, ProjectFacts, QueryFacts


class Unit(StrEnum):
    ROWS = "rows"
    RATE = "rows/s"
    SECONDS = "seconds"
    MILLISECONDS = "ms"
    BYTES = "bytes"
    FILES = "files"
    SHARE = "share"  # 0 to 1
    COUNT = "count"


Read = Callable[[Facts, QueryFacts | None], float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """`read` returns None while the value is unknown. `needs_run`: its query or driver runs."""

    name: str
    about: About
    unit: Unit
    help: str
    read: Read
    needs_run: bool = True


def _status(name: str) -> Read:
    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        value = getattr(query.status, name) if query is not None else None
        return None if value is None else float(value)

    return read


def _lag(field: str) -> Read:
    """As the relay measured it; the rows also as the query itself reports them."""

    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        if query is None or not isinstance(facts, PipelineFacts):
            return None
        lag = facts.lags.get(query.name)
        if lag is not None and not lag.is_real_time:
            value = getattr(lag, field)
            return None if value is None else float(value)
        if field != "records" or query.status.is_lag_unknown or query.status.lag_rows is None:
            return None
        return float(query.status.lag_rows)

    return read


def _number(name: str) -> Read:
    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        if query is not None:
            return query.numbers.get(name)
        return facts.numbers.get(name) if isinstance(facts, PipelineFacts) else None

    return read


def _since(name: str) -> Read:
    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        if query is None:
            return None
        at = query.rows_at if name == "rows" else query.status.newest_at
        at = query.begun_at if at is None and name == "rows" else at
        return None if at is None else max(0.0, facts.at - at)

    return read


def _batch(which: str) -> Read:
    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        took = query.batch_ms if query is not None else ()
        if not took:
            return None
        newest = which == "newest"
        return (took[-1] if newest else sorted(took)[int((len(took) - 1) * 0.95)]) / 1000

    return read


def _run(name: str) -> Read:
    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        return float(getattr(facts.run, name)) if isinstance(facts, PipelineFacts) else None

    return read


def _disk(what: str) -> Read:
    """Of the disk with the least."""

    def read(facts: Facts, query: QueryFacts | None) -> float | None:
        if not isinstance(facts, ProjectFacts) or not facts.disks:
            return None
        if what == "free":
            return float(min(disk.free for disk in facts.disks))
        return min(disk.free / max(1, disk.size) for disk in facts.disks)

    return read


def _own_bytes(facts: Facts, query: QueryFacts | None) -> float | None:
    if not isinstance(facts, ProjectFacts) or facts.own_bytes is None:
        return None
    return float(facts.own_bytes)


_Q, _P, _ALL = About.QUERY, About.PIPELINE, About.PROJECT
_TABLE = (
    Metric("lag_rows", _Q, Unit.ROWS, "unread rows in its sources", _lag("records")),
    Metric("lag_seconds", _Q, Unit.SECONDS, "age of the oldest unread row", _lag("seconds")),
    Metric(
        "lag_bytes", _Q, Unit.BYTES, "size of its unread input files (local disks)",
        _number("lag_bytes"),
    ),
    Metric(
        "lag_files", _Q, Unit.FILES, "number of its unread input files (local disks)",
        _number("lag_files"),
    ),
    Metric(
        "catch_up_seconds", _Q, Unit.SECONDS, "time until it has caught up, at the current rates",
        _lag("catch_up_s"),
    ),
    Metric(
        "loss_in_seconds", _Q, Unit.SECONDS, "time until the topic deletes unread rows",
        _lag("loss_in_s"), needs_run=False,
    ),
    Metric("input_rate", _Q, Unit.RATE, "rows that arrive per second", _status("input_rate")),
    Metric(
        "processing_rate", _Q, Unit.RATE, "rows per second while a batch runs",
        _status("processing_rate"),
    ),
    Metric("rows_in", _Q, Unit.ROWS, "rows read in this run", _status("rows_in")),
    Metric("rows_out", _Q, Unit.ROWS, "rows written in this run", _status("rows_out")),
    Metric("batches", _Q, Unit.COUNT, "batches committed in this run", _status("batches")),
    Metric("late_rows", _Q, Unit.ROWS, "rows dropped as late in this run", _status("late_rows")),
    Metric("late_share", _Q, Unit.SHARE, "share of late rows, now", _number("late_share")),
    Metric(
        "quarantine_share", _Q, Unit.SHARE, "share of records put into quarantine, now",
        _number("quarantine_share"),
    ),
    Metric("batch_seconds", _Q, Unit.SECONDS, "length of the newest batch", _batch("newest")),
    Metric(
        "batch_p95_seconds", _Q, Unit.SECONDS, "length that 95 % of the newest batches stay below",
        _batch("p95"),
    ),
    Metric("fresh_p50_ms", _Q, Unit.MILLISECONDS, "median freshness", _status("fresh_p50_ms")),
    Metric(
        "fresh_p99_ms", _Q, Unit.MILLISECONDS, "99th percentile of freshness",
        _status("fresh_p99_ms"),
    ),
    Metric(
        "newest_age_seconds", _Q, Unit.SECONDS, "age of the newest processed row",
        _since("newest"),
    ),
    Metric("idle_seconds", _Q, Unit.SECONDS, "time since its last rows", _since("rows")),
    Metric("state_rows", _Q, Unit.ROWS, "rows in its state", _number("state_rows")),
    Metric("state_bytes", _Q, Unit.BYTES, "size of its state", _number("state_bytes")),
    Metric(
        "failures", _P, Unit.COUNT, "failed runs in a row", _run("failures"), needs_run=False
    ),
    Metric(
        "failures_per_hour", _P, Unit.COUNT, "failed runs within the last hour",
        _run("failures_per_hour"), needs_run=False,
    ),
    Metric("uptime_seconds", _P, Unit.SECONDS, "age of the run", _number("uptime_seconds")),
    Metric("cpu_seconds", _P, Unit.SECONDS, "CPU time used by the run", _number("cpu_seconds")),
    Metric("heap_bytes", _P, Unit.BYTES, "heap after garbage collection", _number("heap_bytes")),
    Metric(
        "heap_share", _P, Unit.SHARE, "the same as a share of the largest heap allowed",
        _number("heap_share"),
    ),
    Metric(
        "memory_bytes", _P, Unit.BYTES, "memory of the driver and its children",
        _number("memory_bytes"),
    ),
    Metric(
        "memory_share", _P, Unit.SHARE, "the same as a share of the memory it may use",
        _number("memory_share"),
    ),
    Metric(
        "disk_free_bytes", _ALL, Unit.BYTES, "free space, of the disk with the least",
        _disk("free"), needs_run=False,
    ),
    Metric(
        "disk_free_share", _ALL, Unit.SHARE, "the same as a share of the disk", _disk("share"),
        needs_run=False,
    ),
    Metric(
        "headrace_bytes", _ALL, Unit.BYTES, "size of Headrace's own files (the state folder)",
        _own_bytes, needs_run=False,
    ),
)  # fmt: skip
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _TABLE}
