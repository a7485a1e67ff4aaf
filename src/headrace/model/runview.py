"""What is known of one run: the fold of its events, line after line.

Fed by `supervisor/watch.py`, read by the policy, by `health` and by whoever shows a status. Pure.
Invariant: no clock here. `at` is the driver's time of an event, for people; `heard_at` is the
reader's own steady time, for limits, so that a clock that jumps never kills a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model import freshness, inputs, offsets, rates
from headrace.model.events import Event, Kind
from headrace.model.outages import Outage
from headrace.model.series import EMPTY, Series, labels, numbers
from headrace.model.trend import LAG

BATCHES_REMEMBERED = 64
TEXTS_MAX = 50
QUERIES_MAX = 200  # names of queries come from a file: it may hold anything


@dataclass(frozen=True, slots=True)
class QueryView:
    """One query of the run. `batches` and `batch` count what is committed."""

    name: str
    id: str | None = None
    started_at: float | None = None
    guarantee: str | None = None
    note: str | None = None
    place: str | None = None
    checkpoint: str | None = None
    batches: int = 0
    batch: int | None = None
    began_at: float | None = None  # its newest batch
    last_progress_at: float | None = None
    last_idle_at: float | None = None
    rows_in: int = 0
    rows_out: int | None = None
    last_rows_in: int = 0
    input_rate: float | None = None
    processing_rate: float | None = None
    lag_rows: int | None = None
    behind_streak: int = 0  # batches in a row in which more came in than was processed
    batch_ms: tuple[float, ...] = ()  # the newest BATCHES_REMEMBERED
    batch_length_s: float | None = None  # a real-time query's batch, a continuous one's epoch
    message: str | None = None
    data_available: bool | None = None
    trigger_active: bool | None = None
    asking_since: float | None = None  # heard: it waits for its source to say what is new
    tasks_done: int | None = None
    advanced_at: float | None = None  # heard: progress, idle, finished tasks, or nothing to do
    clear_at: float | None = None  # heard: the last moment at which no data was known to wait
    after: tuple[str, ...] = ()  # queries whose output it reads back
    fresh_within_s: float | None = None  # promised
    fresh: freshness.Window = freshness.NOTHING
    newest_at: float | None = None  # when the newest record that is answered came
    late_rows: int = 0
    series: Series = EMPTY  # counts over time, those of former runs before them
    sources: tuple[str, ...] = ()  # as Spark describes them
    operators: tuple[str, ...] = ()  # that keep state
    inputs: inputs.Changed = inputs.NOTHING  # files that changed before they were read
    outage: Outage | None = None  # its source does not answer
    examples: Mapping[str, str] = field(default_factory=dict)  # rows that show what is wrong
    counted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # labels of its counts
    error_class: str | None = None
    error: str | None = None
    terminated_at: float | None = None
    stopped: str | None = None  # clean | cut | failed | ended
    stopped_batch: int | None = None

    @property
    def batch_ms_p95(self) -> float | None:
        if not self.batch_ms:
            return None
        ordered = sorted(self.batch_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]

    @property
    def has_worked(self) -> bool:
        """It committed a batch, or looked at its source and found nothing to do."""
        return self.batches > 0 or self.last_idle_at is not None

    @property
    def is_under_way(self) -> bool:
        """It has worked; or it is in the middle of its first real-time batch, and rows flow."""
        is_flowing = self.batch_length_s is not None and self.trigger_active is True
        return self.has_worked or (is_flowing and str(self.message).startswith("Processing"))


@dataclass(frozen=True, slots=True)
class RunView:
    pid: int | None = None
    jvm_pid: int | None = None
    spark_version: str | None = None
    started_at: float | None = None
    queries: Mapping[str, QueryView] = field(default_factory=dict)
    is_defined: bool = False
    last_line_at: float | None = None
    heard_at: float | None = None
    first_heartbeat_at: float | None = None  # heard
    heap_used: int | None = None
    heap_max: int | None = None
    memory: int | None = None
    disk_free: int | None = None  # where checkpoints and state are written, the smallest
    cpu_s: float | None = None
    draining_at: float | None = None
    drain_reason: str | None = None
    skipped_lines: int = 0
    past: Mapping[str, Series] = field(default_factory=dict)  # of former runs, by query
    exited: Mapping[str, Any] | None = None

    @property
    def longest_batch_s(self) -> float:
        """Of its real-time queries: they reach a boundary only at the end of a batch."""
        return max((query.batch_length_s or 0.0 for query in self.queries.values()), default=0.0)

    @property
    def has_committed(self) -> bool:
        return any(query.batches for query in self.queries.values())

    @property
    def has_worked(self) -> bool:
        """Every query has: the sign of a run that is more than merely alive."""
        return bool(self.queries) and all(query.has_worked for query in self.queries.values())

    @property
    def is_under_way(self) -> bool:
        return bool(self.queries) and all(query.is_under_way for query in self.queries.values())


def fold(view: RunView, event: Event, heard_at: float) -> RunView:
    """Fields of an event that are missing or of a strange type count as not said."""
    view = replace(view, last_line_at=event.at, heard_at=heard_at)
    if event.kind in _OF_A_QUERY:
        return _fold_query(view, event, heard_at)
    if event.kind is Kind.RUN_STARTED:
        return replace(
            view,
            pid=_integer(event.data.get("pid")),
            jvm_pid=_integer(event.data.get("jvm_pid")),
            spark_version=_text(event.data.get("spark_version")),
            started_at=event.at,
        )
    if event.kind is Kind.DEFINED:
        names = event.data.get("queries")
        known = {n: _new(view, n) for n in _items(names)[:QUERIES_MAX] if isinstance(n, str)}
        return replace(view, queries={**known, **view.queries}, is_defined=True)
    if event.kind is Kind.SAMPLED:
        return _fold_sample(view, event, heard_at)
    if event.kind is Kind.DRAIN_STARTED:
        reason = _text(event.data.get("reason"))
        return replace(view, draining_at=event.at, drain_reason=reason)
    if event.kind is Kind.THINNED:
        skipped = _integer(event.data.get("skipped")) or 0
        return replace(view, skipped_lines=view.skipped_lines + skipped)
    if event.kind is Kind.EXITED:
        return replace(view, exited=event.data)
    return view


def fold_all(events: Iterable[Event], view: RunView | None = None) -> RunView:
    """As heard when they happened: for runs that are over, and for tests."""
    view = view or RunView()
    for event in events:
        view = fold(view, event, event.at)
    return view


def _fold_query(view: RunView, event: Event, heard_at: float) -> RunView:
    if event.query is None or (
        event.query not in view.queries and len(view.queries) >= QUERIES_MAX
    ):
        return view
    query = view.queries.get(event.query) or _new(view, event.query)
    query = _OF_A_QUERY[event.kind](query, event, heard_at)
    return replace(view, queries={**view.queries, query.name: query})


def _new(view: RunView, name: str) -> QueryView:
    return QueryView(name, series=view.past.get(name, EMPTY))


def _started(query: QueryView, event: Event, heard_at: float) -> QueryView:
    data = event.data
    return replace(
        query,
        id=_text(data.get("id")),
        started_at=event.at,
        guarantee=_text(data.get("guarantee")),
        note=_text(data.get("note")),
        place=_text(data.get("place")),
        checkpoint=_text(data.get("checkpoint")),
        batch_length_s=_number(data.get("batch_length_s")),
        after=_texts(data.get("after")),
        fresh_within_s=_number(data.get("fresh_within_s")),
        counted=labels(data.get("counted")),
        asking_since=None,
        advanced_at=heard_at,
        clear_at=heard_at,
    )


def _progressed(query: QueryView, event: Event, heard_at: float) -> QueryView:
    progress = event.data.get("progress")
    if not isinstance(progress, Mapping):
        return query
    batch = _integer(progress.get("batchId"))
    # A real-time query tells of one batch many times: it is counted once. A continuous one is
    # looked at once a second: then several epochs may be done.
    is_new = batch is not None and (query.batch is None or batch > query.batch)
    rows = _integer(progress.get("numInputRows")) or 0
    began_at = rates.moment(progress.get("timestamp"))
    input_rate = _number(progress.get("inputRowsPerSecond"))
    if began_at is not None:
        input_rate = rates.incoming(rows, began_at, query.began_at, query.last_idle_at)
    processing_rate = _number(progress.get("processedRowsPerSecond"))
    # A real-time query answers within its batch: ages at the batch's end say nothing of it.
    fresh = None if query.batch_length_s else freshness.heard(event.data.get("fresh"), event.at)
    lag = offsets.waiting(progress.get("sources"))
    is_behind = rows > 0 and (input_rate or 0.0) > 1.2 * (processing_rate or 0.0) > 0.0
    return replace(
        query,
        batches=query.batches + (is_new and (_integer(event.data.get("epochs")) or 1)),
        batch=batch if is_new else query.batch,
        began_at=began_at,
        last_progress_at=event.at,
        rows_in=query.rows_in + rows,
        rows_out=_rows_out(query.rows_out, progress.get("sink")),
        last_rows_in=rows,
        input_rate=input_rate,
        processing_rate=processing_rate,
        lag_rows=lag,
        behind_streak=query.behind_streak + 1 if is_behind else 0,
        batch_ms=_remember(query.batch_ms, progress),
        asking_since=None,
        advanced_at=heard_at,
        clear_at=heard_at,
        fresh=query.fresh if fresh is None else query.fresh.plus(fresh),
        newest_at=query.newest_at if fresh is None else event.at - fresh.newest_ms / 1000,
        late_rows=query.late_rows + _late(progress.get("stateOperators")),
        series=query.series.plus(
            event.at,
            numbers(event.data.get("counts")),
            {**numbers(event.data.get("gauges")), **({} if lag is None else {LAG: float(lag)})},
        ),
        sources=_texts(event.data.get("sources")),
        operators=_texts(event.data.get("operators")),
        examples={**query.examples, **_named_texts(event.data.get("examples"))},
    )


def _idled(query: QueryView, event: Event, heard_at: float) -> QueryView:
    is_old = event.at - (query.last_progress_at or event.at) > freshness.WINDOW_S
    return replace(
        query,
        last_idle_at=event.at,
        asking_since=None,
        advanced_at=heard_at,
        clear_at=heard_at,
        fresh=freshness.Window()
        if is_old
        else query.fresh,  # up to date for so long: old ages say nothing now
        lag_rows=0,
        series=query.series.plus(event.at, {}, {LAG: 0.0}) if query.lag_rows else query.series,
        behind_streak=0,
        input_rate=0.0,
    )


def _inputs_changed(query: QueryView, event: Event, heard_at: float) -> QueryView:
    return replace(query, inputs=query.inputs.plus(event.data, event.at))


def _outage(query: QueryView, event: Event, heard_at: float) -> QueryView:
    is_on = event.kind is Kind.OUTAGE_BEGAN
    return replace(query, outage=Outage.heard(event.data, event.at) if is_on else None)


def _terminated(query: QueryView, event: Event, heard_at: float) -> QueryView:
    error_class, error = event.data.get("error_class"), event.data.get("error")
    return replace(
        query, terminated_at=event.at, error_class=_text(error_class), error=_text(error)
    )


def _stopped(query: QueryView, event: Event, heard_at: float) -> QueryView:
    batch = _integer(event.data.get("batch"))
    return replace(query, stopped=_text(event.data.get("how")) or "ended", stopped_batch=batch)


_OF_A_QUERY = {
    Kind.QUERY_STARTED: _started,
    Kind.PROGRESSED: _progressed,
    Kind.IDLED: _idled,
    Kind.INPUTS_CHANGED: _inputs_changed,
    Kind.OUTAGE_BEGAN: _outage,
    Kind.OUTAGE_ENDED: _outage,
    Kind.QUERY_TERMINATED: _terminated,
    Kind.QUERY_STOPPED: _stopped,
}


def _fold_sample(view: RunView, event: Event, heard_at: float) -> RunView:
    """The heartbeat. It says that the driver lives, not that its queries do."""
    queries = dict(view.queries)
    statuses = event.data.get("queries")
    for name, status in statuses.items() if isinstance(statuses, Mapping) else ():
        if isinstance(status, Mapping) and name in queries:
            queries[name] = _sampled(queries[name], status, heard_at)
    return replace(
        view,
        queries=queries,
        first_heartbeat_at=view.first_heartbeat_at or heard_at,
        heap_used=_integer(event.data.get("heap_used", view.heap_used)),
        heap_max=_integer(event.data.get("heap_max", view.heap_max)),
        memory=_integer(event.data.get("memory", view.memory)),
        disk_free=_integer(event.data.get("disk_free", view.disk_free)),
        cpu_s=_number(event.data.get("cpu_s", view.cpu_s)),
    )


def _sampled(query: QueryView, status: Mapping[str, Any], heard_at: float) -> QueryView:
    data = _either(status, "data_available", "isDataAvailable")
    active = _either(status, "trigger_active", "isTriggerActive")
    tasks = _integer(status.get("tasks_done"))
    # Between triggers there is nothing to be late with, and tasks that finish are work being done.
    # Before its first batch no trigger is active either: then the sources are being opened.
    is_between = active is False and query.has_worked
    is_advancing = is_between or (tasks is not None and tasks != query.tasks_done)
    return replace(
        query,
        message=_text(status.get("message")),
        data_available=data,
        trigger_active=active,
        asking_since=(query.asking_since or heard_at) if _is_asking(status) else None,
        tasks_done=tasks,
        advanced_at=heard_at if is_advancing or query.advanced_at is None else query.advanced_at,
        # Between triggers Spark still says what it last found: that is answered already.
        clear_at=query.clear_at if data and active else heard_at,
    )


def _is_asking(status: Mapping[str, Any]) -> bool:
    return str(status.get("message")).startswith("Getting offsets from")


def _rows_out(before: int | None, sink: Any) -> int | None:
    rows = _integer(sink.get("numOutputRows")) if isinstance(sink, Mapping) else None
    return before if rows is None or rows < 0 else (before or 0) + rows  # -1: the sink cannot say


def _late(operators: Any) -> int:
    """Rows that came after the watermark had passed them, so that Spark left them out."""
    known = [o for o in _items(operators) if isinstance(o, Mapping)]
    return sum(max(0, _integer(o.get("numRowsDroppedByWatermark")) or 0) for o in known)


def _remember(batch_ms: tuple[float, ...], progress: Mapping[str, Any]) -> tuple[float, ...]:
    durations = progress.get("durationMs")
    took = durations.get("triggerExecution") if isinstance(durations, Mapping) else None
    took = _number(took if took is not None else progress.get("batchDuration"))
    return batch_ms if took is None else (*batch_ms, took)[-BATCHES_REMEMBERED:]


def _either(status: Mapping[str, Any], *names: str) -> bool | None:
    return next((status[name] for name in names if isinstance(status.get(name), bool)), None)


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        return float(value)
    return None


def _named_texts(value: Any) -> dict[str, str]:
    items = list(value.items())[:TEXTS_MAX] if isinstance(value, Mapping) else []
    return {k: v[:2000] for k, v in items if isinstance(k, str) and isinstance(v, str)}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one[:2000] for one in _items(value)[:TEXTS_MAX] if isinstance(one, str))


def _text(value: Any) -> str | None:
    return value[:2000] if isinstance(value, str) else None
