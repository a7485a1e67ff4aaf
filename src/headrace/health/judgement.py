"""The state of a pipeline and of its queries, with a text. The only place that judges. Pure.

Used by `supervisor/`, which acts on stalls and writes the status, and by status views.
Invariant: the text never repeats the state: "orders is waiting: starts again in 12 s, …".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.health import trend
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding, problems
from headrace.model.limits import RestartLimits, WatchdogLimits
from headrace.model.runs import Desired, Ending, Exit, Wanted
from headrace.model.status import QueryStatus, State
from headrace.model.times import span

BEHIND_BATCHES = 3  # in a row with more rows arriving than processed
REAL_TIME_BATCHES = 2  # a real-time query is silent for its whole batch
ROWS_MIN = 100_000  # with fewer, the start of the JVM dominates the cost
TREND_S = 60.0
UNANSWERED_S = 15.0  # a source that is silent for this long is not merely slow


@dataclass(frozen=True, slots=True)
class Stall:
    """A query at work that does not advance. At the age of `kill_s` the run is killed."""

    query: str
    for_s: float
    kill_s: float
    has_data: bool
    is_first: bool = False  # nothing done yet: perhaps its source cannot be opened

    @property
    def is_hopeless(self) -> bool:
        return self.for_s >= self.kill_s

    def in_words(self) -> str:
        if self.is_first:
            return (
                f"{self.query} did not finish its first batch within {span(self.for_s)} of starting"
            )
        what = "while data is waiting" if self.has_data else "while its trigger is active"
        return f"{self.query} has not finished a batch for {span(self.for_s)} {what}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The facts to judge. `view` is of the live run; None: nothing runs."""

    desired: Desired
    view: RunView | None = None
    stopping: str | None = None  # why the live run is being ended
    stalls: tuple[Stall, ...] = ()
    attention: str | None = None  # why a person is needed
    next_start_at: float | None = None
    next_attempt: int = 1
    because: str | None = None  # why it has to start again
    is_kept: bool = True  # a supervisor runs
    aside: str | None = None  # why this supervisor leaves it alone
    last: Exit | None = None
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)  # by query


def stalls(
    view: RunView, limits: WatchdogLimits, now: float, patience: float = 1.0
) -> tuple[Stall, ...]:
    """`now` is on the clock of `heard_at`. A query between triggers never stalls.

    `patience` multiplies the limit, for a run after others that stalled.
    """
    found = []
    for query in view.queries.values():
        active = query.data_available if query.trigger_active is None else query.trigger_active
        is_at_work = query.terminated_at is None and (active or not query.has_worked)
        if not is_at_work or query.advanced_at is None:
            continue
        age, limit = now - query.advanced_at, patience * _stall_limit(query, limits)
        has_data, is_first = query.data_available is not False, not query.has_worked
        if age >= limit:
            found.append(Stall(query.name, age, limit * limits.kill_after, has_data, is_first))
    return tuple(found)


def _stall_limit(query: QueryView, limits: WatchdogLimits) -> float:
    usual = (query.batch_ms_p95 or 0.0) / 1000
    own = (query.batch_length_s or 0.0) * REAL_TIME_BATCHES
    return max(limits.stall_s, limits.stall_batches * usual, own)


def is_healthy(has_worked: bool, lived_s: float, limits: RestartLimits) -> bool:
    """After such a run the next restart is quick again."""
    return has_worked and lived_s >= limits.healthy_after_s


def judge(subject: Subject, now: float) -> tuple[State, str]:
    doubt = unknown_intent(subject.desired, subject.is_kept)
    if subject.view is not None:
        state, why = _judge_live(subject.view, subject, now)
        return state, f"{why}; {doubt}" if doubt else why
    if doubt:
        return State.NEEDS_ATTENTION, doubt
    if subject.desired.wanted == Wanted.STOPPED:
        by = f" by {subject.desired.by}" if subject.desired.by else ""
        return State.STOPPED, f"stopped{by}{_how(subject.last)}"
    if subject.attention is not None:
        return State.NEEDS_ATTENTION, subject.attention
    if subject.last is not None and subject.last.ending == Ending.FINISHED:
        return State.FINISHED, "all queries have read all their input"
    if subject.next_start_at is not None:
        left = span(max(0.0, subject.next_start_at - now))
        words = f"starts again in {left}, attempt {subject.next_attempt}"
        return State.WAITING, f"{words}, because {subject.because}" if subject.because else words
    if subject.aside is not None:
        return State.STOPPED, subject.aside
    return State.STARTING, "about to start"


def unknown_intent(desired: Desired, is_kept: bool = True) -> str | None:
    """Why it is unknown whether it should run, and how to settle it; None if it is known."""
    if desired.wanted != Wanted.UNKNOWN:
        return None
    name = desired.pipeline
    why = f"desired/{name}.json was damaged, so Headrace does not know whether {name} should run"
    if not is_kept:  # nothing runs that could be stopped
        return f"{why}; to run it: headrace up {name}"
    version = f"version {desired.version}, profile {desired.profile}"
    begin = f"headrace start {name} ({version})" if desired.version else f"headrace up {name}"
    return f"{why}; to run it: {begin}; to keep it stopped: headrace stop {name}"


def _judge_live(view: RunView, subject: Subject, now: float) -> tuple[State, str]:
    if subject.stopping is not None:
        return State.STOPPING, subject.stopping
    if subject.stalls:
        return State.STALLED, "; ".join(stall.in_words() for stall in subject.stalls)
    judged = [(query.name, *judge_query(query, subject)) for query in view.queries.values()]
    silent = [f"{name}: {why}" for name, state, why in judged if state is State.STALLED]
    if silent:
        return State.STALLED, "; ".join(silent)
    if not view.is_under_way:
        return State.STARTING, _starting(view)
    degraded = [f"{name}: {why}" for name, state, why in judged if state is State.DEGRADED]
    if degraded:
        more = len(degraded) - 1
        also = f" (and {more} more quer{'y' if more == 1 else 'ies'})" if more else ""
        return State.DEGRADED, f"{degraded[0]}{also}"
    behind = [f"{name} {why}" for name, state, why in judged if state is State.CATCHING_UP]
    broken = [
        f"{query.name}: {words}"
        for query in view.queries.values()
        if (words := broken_promise(view, query, now))
    ]
    if behind:
        return State.CATCHING_UP, "; ".join([*behind, *broken])
    words = "1 query" if len(judged) == 1 else f"{len(judged)} queries"
    return State.RUNNING, "; ".join([words, *broken])


def _starting(view: RunView) -> str:
    if view.pid is None:
        return "the driver is starting"
    if not view.is_defined and not view.queries:
        return "Spark is starting"
    waiting = [query.name for query in view.queries.values() if not query.is_under_way]
    return f"first batch of {', '.join(waiting)}" if waiting else "the queries are starting"


def judge_query(query: QueryView, subject: Subject) -> tuple[State, str]:
    """A query as part of its pipeline's live run."""
    if query.stopped is not None or query.terminated_at is not None:
        batch = "" if query.stopped_batch is None else f" at batch {query.stopped_batch}"
        return State.STOPPED, f"{query.stopped or 'ended'}{batch}"
    if subject.stopping is not None:
        return State.STOPPING, subject.stopping
    if stall := next((s for s in subject.stalls if s.query == query.name), None):
        return State.STALLED, stall.in_words()
    if silence := _silence(query, subject.view):
        return State.STALLED, silence
    if not query.is_under_way:
        return State.STARTING, "first batch"
    if found := problems(subject.findings.get(query.name, ())):
        return State.DEGRADED, "; ".join(finding.what.rstrip(".") for finding in found)
    if query.lag_rows is not None and query.lag_rows > max(query.last_rows_in, 1):
        return State.CATCHING_UP, f"{query.lag_rows:,} rows behind{_to_go(query)}"
    if query.behind_streak >= BEHIND_BATCHES:
        rates = f"{query.input_rate or 0:,.0f} rows/s arrive, {query.processing_rate or 0:,.0f}"
        return State.CATCHING_UP, f"{rates} are processed"
    return State.RUNNING, query.message or "running"


def _silence(query: QueryView, view: RunView | None) -> str | None:
    """How long its source has not answered, and why: usually a broker is down."""
    if query.outage is not None:
        for_s = (view.last_line_at if view and view.last_line_at else 0.0) - query.outage.since
        return f"its source has not answered for {span(max(0.0, for_s))}: {query.outage.error}"
    if query.asking_since is None or view is None or view.heard_at is None:
        return None
    asked_s = view.heard_at - query.asking_since
    return f"its source has not answered for {span(asked_s)}" if asked_s >= UNANSWERED_S else None


def _to_go(query: QueryView) -> str:
    """From the lag now and a minute ago; until that is known, from Spark's rates."""
    seen = trend.over(query.series, TREND_S)
    gain = seen.gain_rate if seen is not None else None
    if gain is None and query.processing_rate is not None and query.input_rate is not None:
        gain = query.processing_rate - query.input_rate
    if gain is None or not query.lag_rows:
        return ""
    if gain <= 0:
        return ", and the backlog is not shrinking"
    return f", {span(query.lag_rows / gain)} until caught up"


def freshness(
    view: RunView, query: QueryView, path: tuple[str, ...] = ()
) -> tuple[float | None, float | None]:
    """p50 and p99 of a query, in ms, since its records first arrived.

    If it reads the output of another query, that one's ages are added: p50 to p50, p99 to p99. Ages
    by event time already count from the beginning.
    """
    p50, p99 = query.fresh.p50_ms, query.fresh.p99_ms
    if p50 is None or p99 is None or query.fresh.basis == "event":
        return p50, p99
    before = (0.0, 0.0)
    for name in query.after:
        other = view.queries.get(name)
        if other is None or name in (*path, query.name):
            return None, None
        first = freshness(view, other, (*path, query.name))
        if first[0] is None or first[1] is None:
            return None, None  # a part of the sum would be misleading
        before = (max(before[0], first[0]), max(before[1], first[1]))
    return p50 + before[0], p99 + before[1]


def newest_at(view: RunView, query: QueryView, path: tuple[str, ...] = ()) -> float | None:
    """When the newest processed record arrived, at the first query that read it."""
    path = (*path, query.name)
    others = [view.queries[name] for name in query.after if name in view.queries]
    before = [newest_at(view, other, path) for other in others if other.name not in path]
    known = [at for at in before if at is not None]
    if query.newest_at is None or not known:
        return query.newest_at
    return min(query.newest_at, max(known))


def broken_promise(view: RunView, query: QueryView, now: float) -> str | None:
    """How `fresh_within` is missed, without the query's name; None: it is met."""
    promised = query.fresh_within_s
    if promised is None or query.stopped is not None or query.terminated_at is not None:
        return None
    target = f"target {span(promised)}"
    waits_s = now - (now if query.clear_at is None else query.clear_at)
    if query.data_available and query.trigger_active and waits_s > promised:
        return f"no result for {span(waits_s)} while data is waiting; {target}"
    _, p99 = freshness(view, query)
    if p99 is not None and p99 > promised * 1000:
        return f"p99 is {span(p99 / 1000)}; {target}"
    return None


def cpu_s_per_million_rows(view: RunView | None) -> float | None:
    """Three digits, so that the status does not change with every heartbeat."""
    rows = sum(query.rows_in for query in view.queries.values()) if view is not None else 0
    if view is None or view.cpu_s is None or rows < ROWS_MIN:
        return None
    return float(f"{view.cpu_s / rows * 1e6:.3g}")


def memory(view: RunView | None) -> dict[str, Any]:
    """Fields of a status. In steps of 10 MB, so that the status does not change with every
    heartbeat."""
    if view is None:
        return {}
    sizes = (view.heap_after_gc, view.memory)
    used, resident = (None if size is None else round(size, -7) for size in sizes)
    return {"heap_used_bytes": used, "heap_max_bytes": view.heap_max, "rss_bytes": resident}


def query_statuses(subject: Subject, now: float) -> tuple[QueryStatus, ...]:
    """One row per query, as `status` shows it below its pipeline."""
    view = subject.view
    if view is None:
        return ()
    found = []
    for query in view.queries.values():
        state, _ = judge_query(query, subject)
        p50, p99 = freshness(view, query)
        is_silent = _silence(query, view) is not None
        found.append(
            QueryStatus(
                name=query.name,
                state=state.value,
                guarantee=query.guarantee,
                note=query.note,
                rows_in=query.rows_in,
                rows_out=query.rows_out,
                batches=query.batches,
                batch=query.batch,
                input_rate=query.input_rate,
                processing_rate=query.processing_rate,
                lag_rows=None if is_silent else query.lag_rows,
                is_lag_unknown=is_silent,
                fresh_p50_ms=p50,
                fresh_p99_ms=p99,
                fresh_basis=query.fresh.basis,
                fresh_within_s=query.fresh_within_s,
                broken_promise=broken_promise(view, query, now),
                newest_at=newest_at(view, query),
                late_rows=query.late_rows,
                message=query.message,
                data_available=query.data_available,
                trigger_active=query.trigger_active,
                last_progress_at=query.last_progress_at,
                findings=subject.findings.get(query.name, ()),
            )
        )
    return tuple(found)


def cause(exit_: Exit) -> str:
    """Why a run ended, as the end of a sentence that begins with "because"."""
    what = (exit_.error or {}).get("what")
    if what:
        words = str(what).strip().splitlines()[0].rstrip(".")
        first = words.partition(" ")[0]
        return words[0].lower() + words[1:] if first in _NOT_NAMES else words
    if exit_.asked:
        return exit_.asked
    return {
        Ending.VANISHED: "the driver vanished (killed, or the machine went down)",
        Ending.STALLED: "the driver hung and was killed",
        Ending.DRAINED: "another program asked the driver to stop",
        Ending.CUT: "another program stopped the driver in the middle of a batch",
        Ending.FENCED: "a newer run took over the checkpoint",
    }.get(Ending(exit_.ending), f"the driver exited with code {exit_.code}")


_NOT_NAMES = (
    "A", "Access", "An", "Another", "Credentials", "Input", "It", "No", "Out", "Query", "Rows",
    "Storage", "The", "There", "This", "Two", "Your",
)  # fmt: skip


def _how(exit_: Exit | None) -> str:
    if exit_ is None or exit_.ending not in (Ending.DRAINED, Ending.CUT):
        return ""
    if exit_.ending == Ending.DRAINED:
        return ", at a batch boundary"
    cut = ", ".join(name for name, q in exit_.queries.items() if q.get("how") == "cut")
    return f", in the middle of a batch{f' of {cut}' if cut else ''}"
