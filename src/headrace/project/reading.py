"""How the pipelines are: from the store while a supervisor keeps it, else from the runs' files.

Judgements and their words are `model.health`'s alone. Invariant: reads only; a missing, broken or
locked history.db is no error here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.define import versions
from headrace.errors import Error
from headrace.model import health
from headrace.model.conditions import table, warned
from headrace.model.events import Event
from headrace.model.exports import Export
from headrace.model.lag import QueryLag
from headrace.model.outcomes import PastRun, why_give_up
from headrace.model.runs import Desired, Process
from headrace.model.runview import RunView, fold
from headrace.model.status import PipelineStatus, State
from headrace.project import definitions, runs, tail
from headrace.project.workspace import Workspace, known_query
from headrace.state import desired, exports, folders, lags, page, supervisors
from headrace.store import db, pipelines

NOBODY = "The supervisor is not running: nothing is watched or restarted. fix: headrace up"
FIRST_MAX = 200
LINES_MAX = 5_000  # of an events file's end: enough for the newest facts of every query

_BEGIN = (
    "Nothing is deployed yet.",
    "  headrace run NAME   runs one pipeline or script here; Ctrl-C drains",
    "  headrace up         deploys all pipelines of this project and keeps them running",
    "  headrace init DIR   writes a small project to begin with",
)


@dataclass(frozen=True, slots=True)
class Overview:
    """What `status` shows. `notice` is about the supervisor, `hints` say what to do next; `page` is
    the page's address, while it runs.
    """

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
            "exports": [export.shown() for export in self.exports],
            "pipelines": [pipeline.to_json() for pipeline in self.pipelines],
        }


def overview(work: Workspace, names: Sequence[str] = (), *, with_edits: bool = True) -> Overview:
    """All pipelines, or the named ones and queries. Looking for edits is the costly part."""
    supervisor = supervisors.running(work.places)
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
        found = [_with_edits(work, status) for status in found]
    known, now = lags.read(work.places), time.time()
    found = [_with_warnings(work, _with_lag(status, known, now)) for status in found]
    listens = page.listening(work.places)
    url = listens.url if listens else None
    going = tuple(one for one in exports.listed(work.places) if one.name in work.settings.metrics)
    return Overview(supervisor, tuple(found), notice, hints, url, going)


def statuses(work: Workspace, supervisor: Process | None) -> list[PipelineStatus]:
    """Without the costly part: whether the working tree was edited."""
    wanted = {item.pipeline: item for item in desired.listed(work.places)}
    rows = _from_store(work) if supervisor else {}
    return [
        rows.get(name) or _from_files(work, item, is_kept=supervisor is not None)
        for name, item in sorted(wanted.items())
    ]


def status_of(work: Workspace, pipeline: str) -> PipelineStatus | None:
    item = desired.read(work.places, pipeline)
    if item is None:
        return None
    is_kept = supervisors.running(work.places) is not None
    found: PipelineStatus | None = None
    if is_kept:
        with contextlib.suppress(Error), _history(work) as conn:
            found = pipelines.read(conn, pipeline)
    found = found or _from_files(work, item, is_kept=is_kept)
    return _with_warnings(work, _with_lag(found, lags.read(work.places), time.time()))


def queries(work: Workspace) -> dict[str, tuple[str, ...]]:
    """Names of the queries of each deployed pipeline, as far as anybody knows them."""
    known: dict[str, tuple[str, ...]] = {}
    for status in statuses(work, supervisors.running(work.places)):
        known[status.name] = tuple(query.name for query in status.queries)
    for item in desired.listed(work.places):
        definition = definitions.stored(work, item.version, item.profile, item.pipeline)
        if definition is not None:
            names = (*known.get(item.pipeline, ()), *(query.name for query in definition.queries))
            known[item.pipeline] = tuple(dict.fromkeys(names))
    return known


def _chosen(
    work: Workspace, found: Iterable[PipelineStatus], names: Sequence[str]
) -> list[PipelineStatus]:
    known = queries(work)
    by_name = {status.name: status for status in found}
    chosen: dict[str, PipelineStatus] = {}
    for name in names:
        pipeline, query = known_query(work, name, known)
        status = by_name.get(pipeline) or PipelineStatus(
            pipeline, State.STOPPED, f"not deployed; headrace up {pipeline} deploys and starts it"
        )
        if query is not None:
            kept = tuple(q for q in status.queries if q.name == query)
            before = chosen.get(pipeline)
            status = replace(status, queries=(*(before.queries if before else ()), *kept))
        chosen[pipeline] = status
    return list(chosen.values())


def _from_store(work: Workspace) -> dict[str, PipelineStatus]:
    with contextlib.suppress(Error), _history(work) as conn:
        return {status.name: status for status in pipelines.listed(conn)}
    return {}  # gone, broken or locked: the runs' files know enough


def _history(work: Workspace) -> contextlib.closing[db.Store]:
    return contextlib.closing(db.open_readonly(work.places.history))


def _from_files(work: Workspace, wanted: Desired, *, is_kept: bool) -> PipelineStatus:
    """What the runs' own files say; the same judge, with what can be known without a supervisor."""
    run = runs.newest(work.places, wanted.pipeline)
    is_live = run is not None and runs.is_live(run)
    view = _view(work, run.name) if run is not None and is_live else None
    last = runs.last_ended(work.places, wanted.pipeline)
    limits = work.settings.for_pipeline(wanted.pipeline).health
    subject = health.Subject(
        wanted,
        view,
        attention=_attention(work, wanted),
        is_kept=is_kept,
        last=last.exit if last else None,
        findings=table.by_query(view, limits) if view else {},
    )
    now = time.time()
    state, why = health.judge(subject, now)
    if view is None and state is State.STARTING and not is_kept:
        state, why = State.STOPPED, "should run, but no supervisor keeps it; headrace up does"
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
        queries=health.query_statuses(subject, now),
    )


def _attention(work: Workspace, wanted: Desired) -> str | None:
    """Why a person is needed: the supervisor's own rule, over the same runs."""
    now = time.time()
    mine: list[PastRun] = []
    for run in runs.backwards(work.places, wanted.pipeline):
        if run.spec.generation != wanted.generation:
            break
        outcome = folders.outcome_of(work.places, run.spec, now)
        if outcome is not None:
            mine.insert(0, outcome)
    limits = work.settings.for_pipeline(wanted.pipeline).restart
    return why_give_up(mine, limits) if mine else None


def _view(work: Workspace, run: str) -> RunView:
    """The first lines (who it is, what it started) and the last (how it is) of a run's events."""
    path = work.places.events(run)
    last, _ = tail.last_lines(path, LINES_MAX)
    first = tail.Tail(path).lines()[:FIRST_MAX] if len(last) == LINES_MAX else []
    view = RunView()
    for line in (*first, *last):
        with contextlib.suppress(ValueError):
            event = Event.from_line(line)
            view = fold(view, event, event.at)
    return view


def _with_lag(
    status: PipelineStatus, known: Mapping[tuple[str, str], QueryLag], now: float
) -> PipelineStatus:
    """The seconds that the relay has found: newer than the query's own word. Of a real-time query
    only the end of its batch is known, which says nothing about now. A broker that does not answer
    makes the query's own word old as well."""
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
    """What `check` said about the deployed version: it holds for as long as that is deployed."""
    if not status.version or not status.profile:
        return status
    definition = definitions.stored(work, status.version, status.profile, status.name)
    return replace(status, findings=warned.find(definition)) if definition else status


def _with_edits(work: Workspace, status: PipelineStatus) -> PipelineStatus:
    return replace(status, edited=bool(status.version) and is_edited(work, status.version or ""))


def is_edited(work: Workspace, version: str) -> bool:
    """The working tree differs from this version."""
    if not work.places.code(version).is_dir():
        return False
    return bool(versions.differs(work.project, work.places, version, work.settings.include))
