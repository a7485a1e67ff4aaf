"""The state of one run, folded from its events. Pure.

Read by the supervisor's policy, by `judgement` and by every status view.
Invariant: no clock. `at` is the driver's time of an event, for people; `heard_at` is the reader's
own steady time, for limits, so that a clock that jumps never kills a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.health.trend import LAG
from headrace.model import freshness
from headrace.model.changed_files import NOTHING as NO_CHANGES
from headrace.model.changed_files import ChangedFiles
from headrace.model.events import Event, EventKind
from headrace.model.numbers import real, whole
from headrace.model.outages import Outage
from headrace.model.series import EMPTY, Series, labels, numbers

BATCHES_REMEMBERED = 64
TEXTS_MAX = 50
QUERIES_MAX = 200  # a file may hold anything
EMPTY_S_MIN = 1.0  # after a silence, a rate over less time than this is noise


@dataclass(frozen=True, slots=True)
class QueryView:
    """One query of the run. `batches` and `batch` count what is committed."""

    name: str
    id: str | None = None
    guarantee: str | None = None
    note: str | None = None
    place: str | None = None
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
    behind_streak: int = 0  # batches in a row with more rows arriving than processed
    batch_ms: tuple[float, ...] = ()  # the newest BATCHES_REMEMBERED
    batch_length_s: float | None = None  # a real-time query's batch, a continuous one's epoch
    message: str | None = None
    data_available: bool | None = None
    trigger_active: bool | None = None
    asking_since: float | None = None  # heard: it waits for its source to answer
    tasks_done: int | None = None
    advanced_at: float | None = None  # heard: progress, idle, finished tasks, or nothing to do
    clear_at: float | None = None  # heard: the last time at which no data waited
    after: tuple[str, ...] = ()  # queries whose output it reads back
    fresh_within_s: float | None = None  # promised
    fresh: freshness.AgeWindow = freshness.NOTHING
    newest_at: float | None = None  # when the newest processed record arrived
    started_at: float | None = None
    rows_at: float | None = None  # its last batch with rows
    late_rows: int = 0
    series: Series = EMPTY  # counts over time, including earlier runs
    sources: tuple[str, ...] = ()  # as Spark describes them
    operators: tuple[str, ...] = ()  # that keep state
    inputs: ChangedFiles = NO_CHANGES  # files that changed before they were read
    outage: Outage | None = None  # its source does not answer
    examples: Mapping[str, str] = field(default_factory=dict)  # rows that show what is wrong
    counted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # labels of its counts
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
        """It committed a batch, or found nothing to do."""
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
    queries: Mapping[str, QueryView] = field(default_factory=dict)
    is_defined: bool = False
    last_line_at: float | None = None
    heard_at: float | None = None
    first_heartbeat_at: float | None = None  # heard
    disk_free: int | None = None  # the minimum over the disks of checkpoints and state
    cpu_s: float | None = None
    memory: int | None = None  # bytes, of all processes of the run
    heap_after_gc: int | None = None  # bytes of the JVM's heap that a collection left in use
    heap_max: int | None = None
    draining_at: float | None = None
    past: Mapping[str, Series] = field(default_factory=dict)  # of earlier runs, by query

    @property
    def longest_batch_s(self) -> float:
        """Of its real-time queries, which reach a boundary only at the end of a batch."""
        return max((query.batch_length_s or 0.0 for query in self.queries.values()), default=0.0)

    @property
    def has_committed(self) -> bool:
        return any(query.batches for query in self.queries.values())

    @property
    def has_worked(self) -> bool:
        """Every query has."""
        return bool(self.queries) and all(query.has_worked for query in self.queries.values())

    @property
    def is_under_way(self) -> bool:
        return bool(self.queries) and all(query.is_under_way for query in self.queries.values())


def fold(view: RunView, event: Event, heard_at: float) -> RunView:
    """Fields with an invalid type count as missing."""
    view = replace(view, last_line_at=event.at, heard_at=heard_at)
    if event.kind in _OF_A_QUERY:
        return _fold_query(view, event, heard_at)
    if event.kind is EventKind.RUN_STARTED:
        pid, jvm_pid = whole(event.data.get("pid")), whole(event.data.get("jvm_pid"))
        return replace(view, pid=pid, jvm_pid=jvm_pid)
    if event.kind is EventKind.DEFINED:
        names = event.data.get("queries")
        known = {n: _new(view, n) for n in _items(names)[:QUERIES_MAX] if isinstance(n, str)}
        return replace(view, queries={**known, **view.queries}, is_defined=True)
    if event.kind is EventKind.SAMPLED:
        return _fold_sample(view, event, heard_at)
    if event.kind is EventKind.DRAIN_STARTED:
        return replace(view, draining_at=event.at)
    return view


def fold_all(events: Iterable[Event], view: RunView | None = None) -> RunView:
    """With `heard_at` = `at`: for views from files, and for tests."""
    view = view or RunView()
    for event in events:
        view = fold(view, event, event.at)
    return view


def _fold_query(view: RunView, event: Event, heard_at: float) -> RunView:
    query = view.queries.get(event.query or "")
    if query is None:
        if event.query is None or len(view.queries) >= QUERIES_MAX:
            return view
        query = _new(view, event.query)
    query = _OF_A_QUERY[event.kind](query, event, heard_at)
    return replace(view, queries={**view.queries, query.name: query})


def _new(view: RunView, name: str) -> QueryView:
    return QueryView(name, series=view.past.get(name, EMPTY))


def _fold_started(query: QueryView, event: Event, heard_at: float) -> QueryView:
    data, id_ = event.data, _text(event.data.get("id"))
    is_new_checkpoint = query.id is not None and query.id != id_  # batches start at 0 again
    return replace(
        _advance(query, heard_at),
        id=id_,
        started_at=event.at,
        batch=None if is_new_checkpoint else query.batch,
        guarantee=_text(data.get("guarantee")),
        note=_text(data.get("note")),
        place=_text(data.get("place")),
        batch_length_s=real(data.get("batch_length_s")),
        after=_texts(data.get("after")),
        fresh_within_s=real(data.get("fresh_within_s")),
        counted=labels(data.get("counted")),
    )


def _advance(query: QueryView, heard_at: float) -> QueryView:
    return replace(query, asking_since=None, advanced_at=heard_at, clear_at=heard_at)


def _fold_progress(query: QueryView, event: Event, heard_at: float) -> QueryView:
    progress = event.progress
    if progress is None:
        return query
    query = replace(_advance(query, heard_at), last_progress_at=event.at)
    if progress.batch is None or (query.batch is not None and progress.batch <= query.batch):
        return query  # a batch that is reported twice counts once
    input_rate = progress.input_rate
    if progress.began_at is not None:
        input_rate = _input_rate(query, progress.rows_in, progress.began_at)
    done_rate, lag = progress.processing_rate, progress.lag_rows
    is_behind = progress.rows_in > 0 and (input_rate or 0.0) > 1.2 * (done_rate or 0.0) > 0.0
    # A real-time query answers within its batch: ages at the end of the batch would be wrong.
    fresh = None if query.batch_length_s else freshness.heard(event.data.get("fresh"), event.at)
    out, took = progress.rows_out, progress.batch_ms
    gauges = numbers(event.data.get("gauges")) | ({} if lag is None else {LAG: float(lag)})
    return replace(
        query,
        # A continuous query is read once a second; several epochs may have been committed.
        batches=query.batches + (whole(event.data.get("epochs")) or 1),
        batch=progress.batch,
        began_at=progress.began_at,
        rows_at=event.at if progress.rows_in else query.rows_at,
        rows_in=query.rows_in + progress.rows_in,
        rows_out=query.rows_out if out is None else (query.rows_out or 0) + out,
        last_rows_in=progress.rows_in,
        input_rate=input_rate,
        processing_rate=done_rate,
        lag_rows=lag,
        behind_streak=query.behind_streak + 1 if is_behind else 0,
        batch_ms=query.batch_ms if took is None else (*query.batch_ms, took)[-BATCHES_REMEMBERED:],
        fresh=query.fresh if fresh is None else query.fresh.plus(fresh),
        newest_at=query.newest_at if fresh is None else event.at - fresh.newest_ms / 1000,
        late_rows=query.late_rows + progress.rows_late,
        series=query.series.plus(event.at, numbers(event.data.get("counts")), gauges),
        sources=_texts(event.data.get("sources")),
        operators=_texts(event.data.get("operators")),
        examples={**query.examples, **_texts_by_name(event.data.get("examples"))},
    )


def _input_rate(query: QueryView, rows: int, began_at: float) -> float | None:
    """Rows per second since the previous batch began, or since the source was last empty. None for
    the first batch of a run.

    Spark divides by the time since it last read the source's offsets, which may be a few
    milliseconds: it then reports 909 rows per second for an input of 10.
    """
    if query.began_at is None:
        return None
    empty_at = min(query.last_idle_at or 0.0, began_at - EMPTY_S_MIN)
    over_s = began_at - max(query.began_at, empty_at)
    return rows / over_s if over_s > 0 else None


def _fold_idle(query: QueryView, event: Event, heard_at: float) -> QueryView:
    is_old = event.at - (query.last_progress_at or event.at) > freshness.WINDOW_S
    return replace(
        _advance(query, heard_at),
        last_idle_at=event.at,
        fresh=freshness.AgeWindow() if is_old else query.fresh,  # old ages mean nothing now
        lag_rows=0,
        series=query.series.plus(event.at, {}, {LAG: 0.0}) if query.lag_rows else query.series,
        behind_streak=0,
        input_rate=0.0,
    )


def _fold_changed_inputs(query: QueryView, event: Event, heard_at: float) -> QueryView:
    return replace(query, inputs=query.inputs.plus(event.data, event.at))


def _outage(query: QueryView, event: Event, heard_at: float) -> QueryView:
    is_on = event.kind is EventKind.OUTAGE_BEGAN
    return replace(query, outage=Outage.heard(event.data, event.at) if is_on else None)


def _fold_terminated(query: QueryView, event: Event, heard_at: float) -> QueryView:
    return replace(query, terminated_at=event.at)


def _fold_stopped(query: QueryView, event: Event, heard_at: float) -> QueryView:
    batch = whole(event.data.get("batch"))
    return replace(query, stopped=_text(event.data.get("how")) or "ended", stopped_batch=batch)


_OF_A_QUERY = {
    EventKind.QUERY_STARTED: _fold_started,
    EventKind.PROGRESSED: _fold_progress,
    EventKind.IDLED: _fold_idle,
    EventKind.INPUTS_CHANGED: _fold_changed_inputs,
    EventKind.OUTAGE_BEGAN: _outage,
    EventKind.OUTAGE_ENDED: _outage,
    EventKind.QUERY_TERMINATED: _fold_terminated,
    EventKind.QUERY_STOPPED: _fold_stopped,
}


def _fold_sample(view: RunView, event: Event, heard_at: float) -> RunView:
    """The heartbeat: the driver lives, though its queries may not."""
    queries = dict(view.queries)
    statuses = event.data.get("queries")
    for name, status in statuses.items() if isinstance(statuses, Mapping) else ():
        if isinstance(status, Mapping) and name in queries:
            queries[name] = _fold_query_sample(queries[name], status, heard_at)
    return replace(
        view,
        queries=queries,
        first_heartbeat_at=view.first_heartbeat_at or heard_at,
        disk_free=whole(event.data.get("disk_free", view.disk_free)),
        cpu_s=real(event.data.get("cpu_s", view.cpu_s)),
        memory=_bytes(event.data, "memory", view.memory),
        heap_after_gc=_bytes(event.data, "heap_after_gc", view.heap_after_gc),
        heap_max=_bytes(event.data, "heap_max", view.heap_max),
    )


def _bytes(data: Mapping[str, Any], name: str, before: int | None) -> int | None:
    """Few heartbeats have it: the others leave it as it was. Not negative."""
    found = whole(data[name]) if name in data else before
    return found if found is not None and found >= 0 else None


def _fold_query_sample(query: QueryView, status: Mapping[str, Any], heard_at: float) -> QueryView:
    data = _either(status, "data_available", "isDataAvailable")
    active = _either(status, "trigger_active", "isTriggerActive")
    tasks = whole(status.get("tasks_done"))
    # Between triggers a query cannot be late, and finished tasks are progress.
    # Before its first batch no trigger is active either: its sources are being opened.
    is_between = active is False and query.has_worked
    is_advancing = is_between or (tasks is not None and tasks != query.tasks_done)
    is_asking = str(status.get("message")).startswith("Getting offsets from")
    return replace(
        query,
        message=_text(status.get("message")),
        data_available=data,
        trigger_active=active,
        asking_since=(query.asking_since or heard_at) if is_asking else None,
        tasks_done=tasks,
        advanced_at=heard_at if is_advancing or query.advanced_at is None else query.advanced_at,
        # Between triggers Spark still reports data that is processed already.
        clear_at=query.clear_at if data and active else heard_at,
    )


def _either(status: Mapping[str, Any], *names: str) -> bool | None:
    return next((status[name] for name in names if isinstance(status.get(name), bool)), None)


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _texts_by_name(value: Any) -> dict[str, str]:
    items = list(value.items())[:TEXTS_MAX] if isinstance(value, Mapping) else []
    return {k: v[:2000] for k, v in items if isinstance(k, str) and isinstance(v, str)}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one[:2000] for one in _items(value)[:TEXTS_MAX] if isinstance(one, str))


def _text(value: Any) -> str | None:
    return value[:2000] if isinstance(value, str) else None
