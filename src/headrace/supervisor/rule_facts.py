"""The facts about one pipeline that rules judge, from its keeper and its status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.health import failure_streak, judgement
from headrace.health.run_view import QueryView, RunView
from headrace.model.lag import QueryLag
from headrace.model.limits import RestartLimits
from headrace.model.pipeline import Definition
from headrace.model.rules import FailedRun, PipelineFacts, QueryFacts, RunFacts, Stuck
from headrace.model.runs import BAD_ENDINGS, Desired, Ending, PastRun, Wanted
from headrace.model.series import total
from headrace.model.status import WORKING, PipelineStatus, QueryStatus, State
from headrace.supervisor.situation import Decision, GiveUp, Launch, LiveRun, Situation, Wait

HOUR_S = 3600.0
SHARE_S = 60.0  # over which shares of rows are counted
AT_ONCE = frozenset({"disk-full"})  # a person can help


@dataclass(frozen=True, slots=True)
class Around:
    """What is known about a pipeline apart from its runs."""

    lags: Mapping[str, QueryLag] = field(default_factory=dict)
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    definition: Definition | None = None
    memory_max: float | None = None  # of this machine or container
    files: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # that wait, by query


def run_facts(
    situation: Situation,
    verdict: Iterable[Decision],
    stalls: Iterable[judgement.Stall],
    now: float,
    at: float,
) -> RunFacts:
    """`verdict`: the decisions about this situation. `now` is steady time, `at` wall time."""
    desired, live, limits = situation.desired, situation.live, situation.limits.restart
    decided = list(verdict)
    mine = [run for run in situation.past if run.spec.generation == desired.generation]
    last = mine[-1] if mine else None
    reasons = [one.reason for one in decided if isinstance(one, GiveUp)]
    if live is not None and (doubt := judgement.unknown_intent(desired)):
        reasons.append(doubt)  # it runs, but would not be restarted
    # Until the last run's processes have ended, it is not decided whether it starts again.
    is_retrying = any(
        isinstance(one, Launch) or (isinstance(one, Wait) and one.next_attempt is not None)
        for one in decided
    )
    recent = [run for run in mine if _has_failed(run) and now - run.ended_at < HOUR_S]
    failures = failure_streak.attempts_in_a_row(last, limits) if last is not None else 0
    return RunFacts(
        attention="; ".join(reasons) or None,
        is_limit_used_up=bool(reasons) and failure_streak.is_limit_used_up(mine, limits),
        is_retrying=live is None and last is not None and is_retrying,
        is_well=_is_well(situation, limits, now),
        has_worked=live is not None and live.view.has_worked,
        failed=_failed(last, now, at),
        failures=failures,
        failures_per_hour=len(recent),
        relapses_per_hour=sum(run.has_worked for run in recent),
        stuck=tuple(Stuck(one.query, one.in_words(), one.for_s, one.kill_s) for one in stalls),
    )


def _has_failed(run: PastRun) -> bool:
    """By itself: a batch that had to be cut is not a failure."""
    return run.exit.ending in BAD_ENDINGS and run.exit.ending != Ending.CUT


def _is_well(situation: Situation, limits: RestartLimits, now: float) -> bool:
    live = situation.live
    if live is None:
        return bool(situation.past) and situation.past[-1].exit.ending == Ending.FINISHED
    return judgement.is_healthy(live.view.has_worked, now - live.known_since, limits)


def _failed(last: PastRun | None, now: float, at: float) -> FailedRun | None:
    if last is None or not _has_failed(last):
        return None
    fix = (last.exit.error or {}).get("fix")
    return FailedRun(
        run=last.spec.run,
        cause=judgement.cause(last.exit),
        at=at - max(0.0, now - last.ended_at),
        fix=str(fix) if fix else None,
        is_urgent=last.exit.failure in AT_ONCE,
    )


def pipeline_facts(
    status: PipelineStatus, run: RunFacts, live: LiveRun | None, around: Around, at: float
) -> PipelineFacts:
    view = live.view if live is not None else None
    triggers = _triggers(around.definition)
    queries = [
        _query_facts(one, view, triggers.get(one.name), around.files.get(one.name, {}))
        for one in status.queries
    ]
    known = {query.name for query in queries}
    return PipelineFacts(
        name=status.name,
        at=at,
        state=status.state,
        is_live=status.state in (*WORKING, State.STALLED),
        run=run,
        queries=(
            *queries,
            *(QueryFacts(QueryStatus(name, "")) for name in around.lags if name not in known),
        ),
        lags=around.lags,
        outputs=around.outputs,
        numbers=_driver_numbers(status, view, around.memory_max, at),
    )


def is_over(desired: Desired, status: PipelineStatus) -> bool:
    """A person stopped it, or it has read all its input."""
    return desired.wanted == Wanted.STOPPED or status.state == State.FINISHED


def _triggers(definition: Definition | None) -> dict[str, float]:
    queries = definition.queries if definition is not None else ()
    every = {query.name: query.trigger.get("seconds") for query in queries}
    return {name: float(s) for name, s in every.items() if isinstance(s, int | float) and s > 0}


def _query_facts(
    status: QueryStatus,
    view: RunView | None,
    trigger_s: float | None,
    files: Mapping[str, float],
) -> QueryFacts:
    seen = view.queries.get(status.name) if view is not None else None
    if seen is None:
        return QueryFacts(status, trigger_s)
    return QueryFacts(
        status=status,
        trigger_s=trigger_s,
        batch_ms=seen.batch_ms,
        rows_at=seen.rows_at,
        begun_at=seen.started_at,
        numbers={**_query_numbers(seen), **files},
    )


def _query_numbers(query: QueryView) -> dict[str, float]:
    buckets = query.series.buckets
    if not buckets:
        return {}
    found: dict[str, float] = {}
    for kind in ("rows", "bytes"):
        sizes = [
            value
            for name, value in buckets[-1].last.items()
            if name.startswith("state.") and name.endswith(f".{kind}")
        ]
        if sizes:
            found[f"state_{kind}"] = sum(sizes)
    newest = [one for one in buckets[-10:] if one.end > buckets[-1].end - SHARE_S]
    for name, part, whole in (
        ("late_share", "late", "late.of"),
        ("quarantine_share", "quarantine.bad", "quarantine.in"),
    ):
        if rows := total(newest, whole):
            found[name] = min(1.0, total(newest, part) / rows)
    return found


def _driver_numbers(
    status: PipelineStatus, view: RunView | None, memory_max: float | None, at: float
) -> dict[str, float]:
    if view is None:
        return {}
    heap, heap_max, memory = view.heap_after_gc, view.heap_max, view.memory
    found = {
        "uptime_seconds": None if status.since is None else max(0.0, at - status.since),
        "cpu_seconds": view.cpu_s,
        "heap_bytes": heap,
        "heap_share": heap / heap_max if heap is not None and heap_max else None,
        "memory_bytes": memory,
        "memory_share": memory / memory_max if memory is not None and memory_max else None,
    }
    return {name: float(value) for name, value in found.items() if value is not None}
