"""The status of pipelines: from the store while a supervisor runs, else from the runs' files.

`health` alone judges. Invariant: reads only; a missing, broken or locked history.db is no error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headrace.define import deployed_code
from headrace.health import judgement
from headrace.health.conditions import table
from headrace.health.failure_streak import why_give_up
from headrace.health.run_view import RunView, fold_all
from headrace.model.events import EventKind
from headrace.model.lag import QueryLag
from headrace.model.progress_exports import Export
from headrace.model.runs import Desired, PastRun, Process
from headrace.model.status import PipelineStatus, State
from headrace.project import runs
from headrace.project.workspace import Workspace, resolve_query
from headrace.state import (
    definitions,
    desired,
    page,
    progress_exports,
    run_folders,
    supervisor_lookup,
)
from headrace.state import lag as state_lag
from headrace.state.event_file import EventFile, last_events
from headrace.store import db, pipeline_status

NOBODY = "The supervisor is not running: nothing is watched or restarted. Fix: headrace up"
FIRST_BYTES = 1 << 20
LINES_MAX = 5_000  # of an events file's end: enough for the newest facts of every query
_STARTS = frozenset({EventKind.RUN_STARTED, EventKind.DEFINED, EventKind.QUERY_STARTED})

_BEGIN = (
    "Nothing is deployed yet.",
    "  headrace run NAME   runs a pipeline or script in the foreground; Ctrl-C drains it",
    "  headrace up         deploys all pipelines in this project and keeps them running",
    "  headrace init DIR   creates a small working project",
)


@dataclass(frozen=True, slots=True)
class Overview:
    """`notice` is about the supervisor, `hints` are next steps, `page` is the page's address."""

    supervisor: Process | None
    pipelines: tuple[PipelineStatus, ...]
    notice: str | None = None
    hints: tuple[str, ...] = ()
    page: str | None = None
    exports: tuple[Export, ...] = ()  # of progress, to other systems

    def to_json(self) -> dict[str, Any]:
        return {
            "supervisor": {"pid": self.supervisor.pid} if self.supervisor else None,
            "page": self.page,
            "exports": [export.to_status_json() for export in self.exports],
            "pipelines": [pipeline.to_json() for pipeline in self.pipelines],
        }


def overview(work: Workspace, names: Sequence[str] = (), *, with_edits: bool = True) -> Overview:
    """All pipelines, or the named ones and queries. `with_edits` is slow."""
    supervisor = supervisor_lookup.running(work.places)
    found = statuses(work, supervisor)
    hints: tuple[str, ...] = ()
    if names:
        found = _chosen(work, found, names)
    elif not found:
        hints = _BEGIN
    else:
        new = sorted(work.names - {status.name for status in found})
        hints = (f"not deployed: {', '.join(new)} (headrace up)",) if new else ()
    notice = NOBODY if found and supervisor is None else None
    if with_edits:
        found = [replace(one, edited=is_edited(work, one.version)) for one in found]
    known, now = state_lag.read(work.places), time.time()
    found = [_with_warnings(work, _with_lag(status, known, now)) for status in found]
    listens = page.listening(work.places)
    url = listens.url if listens else None
    going = tuple(
        one for one in progress_exports.read_all(work.places) if one.name in work.settings.metrics
    )
    return Overview(supervisor, tuple(found), notice, hints, url, going)


def statuses(work: Workspace, supervisor: Process | None) -> list[PipelineStatus]:
    """Without `edited`."""
    wanted = {item.pipeline: item for item in desired.read_all(work.places)}
    history = work.places.history
    stored = db.read(history, pipeline_status.read_all, is_optional=True) if supervisor else None
    rows = {status.name: status for status in stored or ()}
    return [
        rows.get(name) or _from_files(work, item, is_kept=supervisor is not None)
        for name, item in sorted(wanted.items())
    ]


def status_of(work: Workspace, pipeline: str) -> PipelineStatus | None:
    item = desired.read(work.places, pipeline)
    if item is None:
        return None
    is_kept = supervisor_lookup.running(work.places) is not None
    ask = partial(pipeline_status.read, name=pipeline)
    found = db.read(work.places.history, ask, is_optional=True) if is_kept else None
    found = found or _from_files(work, item, is_kept=is_kept)
    return _with_warnings(work, _with_lag(found, state_lag.read(work.places), time.time()))


def not_deployed(pipeline: str) -> PipelineStatus:
    words = f"not deployed; headrace up {pipeline} deploys and starts it"
    return PipelineStatus(pipeline, State.STOPPED, words)


def queries(work: Workspace) -> dict[str, tuple[str, ...]]:
    """Known queries of each deployed pipeline."""
    known: dict[str, tuple[str, ...]] = {}
    for status in statuses(work, supervisor_lookup.running(work.places)):
        known[status.name] = tuple(query.name for query in status.queries)
    for one in definitions.deployed(work.places):
        names = (*known.get(one.pipeline, ()), *(query.name for query in one.queries))
        known[one.pipeline] = tuple(dict.fromkeys(names))
    return known


def _chosen(
    work: Workspace, found: Iterable[PipelineStatus], names: Sequence[str]
) -> list[PipelineStatus]:
    known = queries(work)
    by_name = {status.name: status for status in found}
    chosen: dict[str, PipelineStatus] = {}
    for name in names:
        pipeline, query = resolve_query(work, name, known)
        status = by_name.get(pipeline) or not_deployed(pipeline)
        if query is not None:
            kept = tuple(q for q in status.queries if q.name == query)
            before = chosen.get(pipeline)
            status = replace(status, queries=(*(before.queries if before else ()), *kept))
        chosen[pipeline] = status
    return list(chosen.values())


def _from_files(work: Workspace, wanted: Desired, *, is_kept: bool) -> PipelineStatus:
    """Judged from the runs' files, with less detail than a supervisor has."""
    run = runs.newest(work.places, wanted.pipeline)
    is_live = run is not None and runs.is_live(run)
    view = _view(work, run.name) if run is not None and is_live else None
    last = runs.last_ended(work.places, wanted.pipeline)
    limits = work.settings.for_pipeline(wanted.pipeline).health
    subject = judgement.Subject(
        wanted,
        view,
        attention=_attention(work, wanted),
        is_kept=is_kept,
        last=last.exit if last else None,
        findings=table.by_query(view, limits) if view else {},
    )
    now = time.time()
    state, why = judgement.judge(subject, now)
    if view is None and state is State.STARTING and not is_kept:
        state, why = State.STOPPED, "should run, but no supervisor is running; fix: headrace up"
    return PipelineStatus(
        name=wanted.pipeline,
        state=state.value,
        why=why,
        run=run.name if run else None,
        version=wanted.version,
        dev=wanted.dev,
        profile=wanted.profile,
        pid=run.process.pid if run and run.process and is_live else None,
        jvm_pid=view.jvm_pid if view else None,
        since=run.spec.at if run and is_live else (last.exit.at if last and last.exit else None),
        queries=judgement.query_statuses(subject, now),
        **judgement.memory(view),
    )


def _attention(work: Workspace, wanted: Desired) -> str | None:
    """Why a person is needed, by the supervisor's rule."""
    now = time.time()
    mine: list[PastRun] = []
    for run in runs.backwards(work.places, wanted.pipeline):
        if run.spec.generation != wanted.generation:
            break
        outcome = run_folders.outcome_of(work.places, run.spec, now)
        if outcome is not None:
            mine.insert(0, outcome)
    limits = work.settings.for_pipeline(wanted.pipeline).restart
    return why_give_up(mine, limits) if mine else None


def _view(work: Workspace, run: str) -> RunView:
    """From the first events (its process, its queries) and the last (its progress)."""
    path = work.places.events(run)
    return fold_all([*EventFile(path).events(_STARTS, FIRST_BYTES), *last_events(path, LINES_MAX)])


def _with_lag(
    status: PipelineStatus, known: Mapping[tuple[str, str], QueryLag], now: float
) -> PipelineStatus:
    """With the seconds that the relay has measured. For a real-time query, only the end of its
    last batch is known. If a broker does not answer, the query's own lag is out of date too."""
    queries = []
    for query in status.queries:
        lag = known.get((status.name, query.name))
        if lag is None or not lag.is_of(now):
            pass
        elif lag.problem:
            query = replace(query, lag_rows=None, is_lag_unknown=True)
        elif not lag.is_real_time:
            query = replace(query, lag_seconds=lag.seconds)
        queries.append(query)
    return replace(status, queries=tuple(queries))


def _with_warnings(work: Workspace, status: PipelineStatus) -> PipelineStatus:
    """With the warnings of `check` about the deployed version."""
    if not status.version or not status.profile:
        return status
    definition = definitions.read(work.places, status.version, status.profile, status.name)
    return replace(status, findings=table.from_warnings(definition)) if definition else status


def is_edited(work: Workspace, version: str | None) -> bool:
    """The working tree differs from this version."""
    if not version or not work.places.code(version).is_dir():
        return False
    return bool(deployed_code.differs(work.project, work.places, version, work.settings.include))
