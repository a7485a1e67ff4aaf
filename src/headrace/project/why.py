"""Explains the state of a pipeline: its status, its last failure, and what happens next.

Gathers, never judges: `health` judges, `failures/` explains failures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headrace.model.runs import BAD_ENDINGS, Exit, Jsonable, Run
from headrace.model.status import PipelineStatus, QueryStatus, State
from headrace.model.times import clock, span
from headrace.project import log_tail, runs, troubles
from headrace.project import status as project_status
from headrace.project.troubles import Trouble
from headrace.project.workspace import Workspace, resolve_query
from headrace.state import supervisor_lookup
from headrace.store import db
from headrace.store import runs as stored_runs

TRACE_LINES = 12
HISTORY_MAX = 1_000  # runs in which a failure is counted
_PLAN = "=== Streaming Query ==="
_FRAMES = ("\tat ", "\t... ", "Caused by: ")
_DOWN = (State.NEEDS_ATTENTION, State.WAITING)  # because of its last failure


@dataclass(frozen=True, slots=True)
class Seen(Jsonable):
    """How often the last failure occurred: the same one, by its fingerprint."""

    times: int
    first_at: float
    last_at: float
    fingerprint: str

    def in_words(self) -> str:
        if self.times == 1:
            return f"once, fingerprint {self.fingerprint}"
        since = f"{self.times:,} times since {clock(self.first_at)}"
        return f"{since}, fingerprint {self.fingerprint}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """`next` is what Headrace will do; `failure` the end of the last failed run, if any.

    If `is_current`, that failure is the cause of the state. `troubles` are the other causes, the
    most likely one first.
    """

    status: PipelineStatus
    next: str
    notice: str | None
    run: str | None
    failure: Exit | None
    is_current: bool
    seen: Seen | None
    troubles: tuple[Trouble, ...]
    trace_lines: tuple[str, ...]
    trace: str | None
    log: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.status.to_json(),
            "next": self.next,
            "supervisor": self.notice is None,
            "failure": self.failure.to_json() if self.failure else None,
            "failed_run": self.run,
            "is_current": self.is_current,
            "seen": self.seen.to_json() if self.seen else None,
            "troubles": [trouble.to_json() for trouble in self.troubles],
            "trace_lines": list(self.trace_lines),
            "trace": self.trace,
            "log": self.log,
        }


def explain(work: Workspace, name: str) -> Explanation:
    """By the name of a pipeline or of one of its queries, as typed."""
    resolve_query(work, name, project_status.queries(work))
    seen = project_status.overview(work, (name,))
    return _build_explanation(work, seen.pipelines[0], seen.notice)


def explain_pipeline(work: Workspace, pipeline: str) -> Explanation:
    """By a valid name. Reads only this pipeline."""
    status = project_status.status_of(work, pipeline) or project_status.not_deployed(pipeline)
    is_watched = supervisor_lookup.running(work.places) is not None
    return _build_explanation(work, status, None if is_watched else project_status.NOBODY)


def _build_explanation(work: Workspace, status: PipelineStatus, notice: str | None) -> Explanation:
    pipeline = status.name
    now = time.time()
    kept = list(runs.backwards(work.places, pipeline))
    failed = next((r for r in kept if is_bad(r.exit)), None)
    ended = next((r for r in kept if r.exit is not None), None)
    trace = failed.exit.trace if failed and failed.exit else None
    return Explanation(
        status=status,
        next=what_next(status, is_watched=notice is None, now=now),
        notice=notice,
        run=failed.name if failed else None,
        failure=failed.exit if failed else None,
        is_current=failed is not None and failed is ended and _is_down(status),
        seen=_count(work, pipeline, kept, failed.exit) if failed and failed.exit else None,
        troubles=troubles.find(status, now),
        trace_lines=_end_of_trace(trace),
        trace=trace,
        log=str(work.places.log(status.run)) if status.run else None,
    )


def _is_down(status: PipelineStatus) -> bool:
    """Also while it starts again after a failure."""
    return status.state in _DOWN or (status.state == State.STARTING and status.restarts > 0)


def _count(work: Workspace, pipeline: str, kept: Sequence[Run], last: Exit) -> Seen | None:
    """In the folders of runs and, if there is one, in the history, which has older runs."""
    if not last.fingerprint:
        return None
    ask = partial(stored_runs.list_runs, pipeline=pipeline, limit=HISTORY_MAX)
    known = db.read(work.places.history, ask, is_optional=True) or []
    ends = {run.name: run.exit for run in (*known, *kept) if run.exit is not None}
    times = [end.at for end in ends.values() if end.fingerprint == last.fingerprint]
    return Seen(len(times), min(times), max(times), last.fingerprint)


def what_next(status: PipelineStatus, *, is_watched: bool, now: float) -> str:
    """What Headrace does without a person's action; the subject is missing, as in notices."""
    name = status.name
    if not is_watched and status.state not in (State.STOPPED, State.FINISHED):
        return "No supervisor is running, so failed pipelines are not restarted. Fix: headrace up"
    if status.state == State.WAITING:
        at = status.next_start_at
        when = f"in {span(max(0.0, at - now))} (at {clock(at)})" if at else "soon"
        return f"Starts it again {when}; no action is needed."
    begin = "start" if is_watched else "up"
    if status.state == State.DEGRADED:
        return "Does not restart it, because nothing has failed. Follow the suggested fix."
    if status.state == State.RUNNING and any(query.broken_promise for query in status.queries):
        return "Keeps watching it; a missed freshness target alone does not cause a restart."
    return {
        State.STARTING: "Waits for the first batch, and restarts the pipeline if the batch takes "
        "too long.",
        State.RUNNING: "Keeps watching it.",
        State.CATCHING_UP: "Keeps watching it while it works through its backlog. If rows arrive "
        "faster than it processes them, Headrace reports this and names the bottleneck.",
        State.STALLED: "Saves a thread dump and restarts the pipeline if it still makes no "
        "progress.",
        State.NEEDS_ATTENTION: f"Does nothing until you act: fix the cause, then run "
        f"headrace start {name} (or headrace up {name}, if you changed its code).",
        State.STOPPING: "Stops it at the next batch boundary, or cuts it at the deadline.",
        State.STOPPED: f"Does nothing until you run: headrace {begin} {name}",
        State.FINISHED: f"Does nothing: it has finished. To run it again: headrace start {name}",
    }.get(State(status.state), "")


def fresh_words(query: QueryStatus, now: float) -> list[str]:
    """Freshness and late rows, as text."""
    words = []
    if query.fresh_p50_ms is not None and query.fresh_p99_ms is not None:
        half, nearly = (span(ms / 1000) for ms in (query.fresh_p50_ms, query.fresh_p99_ms))
        by = {"event": " of their event time"}.get(query.fresh_basis or "", " of their arrival")
        words.append(f"half of the rows are processed within {half}, 99 % within {nearly}{by}")
    if query.newest_at is not None:
        words.append(f"its newest result is {span(max(0.0, now - query.newest_at))} old")
    if query.fresh_within_s is not None:
        words.append(f"target {span(query.fresh_within_s)}")
    if query.late_rows:
        words.append(f"{query.late_rows:,} late rows were dropped")
    return words


def is_bad(ended: Exit | None) -> bool:
    return ended is not None and ended.ending in BAD_ENDINGS


def _end_of_trace(trace: str | None) -> tuple[str, ...]:
    """The last lines of a trace: its Python traceback, if it has one."""
    if trace is None:
        return ()
    lines = _without_plan(log_tail.last_lines(Path(trace), 2_000)[0])
    python = [n for n, line in enumerate(lines) if line.startswith("Traceback (most recent call")]
    if python:
        end = next((n for n in range(python[-1], len(lines)) if not lines[n].strip()), len(lines))
        return tuple(lines[python[-1] : end][-TRACE_LINES:])
    causes = [line for line in lines if line.startswith("Caused by:")]
    words = [line for line in lines if line.strip() and not line.startswith(_FRAMES[:2])]
    return tuple((words[:1] + causes if causes else words)[-TRACE_LINES:])


def _without_plan(lines: Sequence[str]) -> list[str]:
    """Spark prints the query's plan between the message and the frames."""
    kept, is_plan = [], False
    for line in lines:
        is_plan = (is_plan or line.startswith(_PLAN)) and not line.startswith(_FRAMES)
        if not is_plan:
            kept.append(line)
    return kept
