"""Collects the facts behind all metrics: the status, the history, lag, alerts, heartbeats.

Shared by the exporters' threads. Invariant: reads only; a file that cannot be read makes its
metrics absent and is reported, never raised.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace import __version__
from headrace.errors import StoreError
from headrace.metrics import table
from headrace.metrics.facts import DriverFacts, Facts, PipelineFacts, QueryFacts
from headrace.metrics.metric import Family
from headrace.model.events import EventKind
from headrace.model.lag import QueryLag
from headrace.model.numbers import real, whole
from headrace.model.state_paths import StatePaths
from headrace.model.status import PipelineStatus
from headrace.project import status
from headrace.project.workspace import Workspace
from headrace.state import lag as state_lag
from headrace.state import progress_exports, supervisor_lookup
from headrace.state.event_file import EventFile, parse_line
from headrace.store import db, open_alerts, totals
from headrace.store.totals import DurationCount, QueryTotals

FRESH_S = 2.0  # exporters that ask within this time get the same facts
QUERIES_MAX = 200  # of a pipeline
UNUSED_S = 7 * 86_400.0  # a query without a batch for so long, which does not run, is left out
TAIL_BYTES = 256 * 1024  # of an events file, at the first look
_SAMPLED = frozenset({EventKind.SAMPLED})


class MetricSource:
    """The current metrics. Threads that ask at the same time share one collection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heartbeats = Heartbeats()
        self._known: tuple[float, list[Family]] | None = None
        self._problems: list[str] = []

    @property
    def problems(self) -> list[str]:
        """Of the last collection."""
        return self._problems

    def families(self, work: Workspace) -> list[Family]:
        with self._lock:
            now = self._clock()
            if self._known is None or now - self._known[0] >= FRESH_S:
                facts, self._problems = collect(work, self._heartbeats, time.time())
                self._known = now, table.read_all(facts)
            return self._known[1]


@dataclass(frozen=True, slots=True)
class History:
    """What history.db knows: counts of each query and pipeline."""

    queries: Mapping[str, Mapping[str, QueryTotals]]  # by pipeline and query
    durations: Mapping[tuple[str, str], list[DurationCount]]
    pipelines: Mapping[tuple[str, str], Mapping[str, int]]


def collect(work: Workspace, heartbeats: Heartbeats, now: float) -> tuple[Facts, list[str]]:
    """The facts, and why some are missing."""
    places, problems = work.places, []
    supervisor = supervisor_lookup.running(places)
    statuses = status.statuses(work, supervisor)
    history, alerts = None, None
    try:
        history = db.read(places.history, read_history)
        # Without a file, no alert has been opened yet.
        alerts = db.read(places.alerts, open_alerts.count) or {}
    except StoreError as exc:
        problems.append(f"metrics are incomplete: {exc.what}")
    lags = {key: one for key, one in state_lag.read(places).items() if one.is_of(now)}
    drivers = heartbeats.read(places, (one.run for one in statuses if one.run and one.pid))
    exports = [
        one for one in progress_exports.read_all(places) if one.name in work.settings.metrics
    ]
    facts = Facts(
        at=now,
        version=__version__,
        project=work.settings.name,
        profile=work.profile,
        is_supervised=supervisor is not None,
        pipelines=[_pipeline(one, history, lags, drivers, now) for one in statuses],
        alerts=alerts,
        exports=exports,
    )
    return facts, problems


def read_history(conn: db.Store) -> History:
    queries: dict[str, dict[str, QueryTotals]] = {}
    for one in totals.read_queries(conn):
        queries.setdefault(one.pipeline, {})[one.query] = one
    return History(queries, totals.read_durations(conn), totals.read_pipelines(conn))


def _pipeline(
    one: PipelineStatus,
    history: History | None,
    lags: Mapping[tuple[str, str], QueryLag],
    drivers: Mapping[str, DriverFacts],
    now: float,
) -> PipelineFacts:
    name = one.name
    known = history.queries.get(name, {}) if history else {}
    running = {query.name: query for query in one.queries}
    recent = sorted(known.values(), key=lambda totals: -totals.at)
    names = dict.fromkeys([*running, *(t.query for t in recent if now - t.at < UNUSED_S)])
    found = PipelineFacts(
        one,
        queries=[
            QueryFacts(
                query,
                running.get(query),
                known.get(query),
                history.durations.get((name, query), ()) if history else (),
                lags.get((name, query)),
            )
            for query in list(names)[:QUERIES_MAX]
        ],
        driver=drivers.get(one.run or "", DriverFacts()),
    )
    if history is None:
        return found
    restarts = history.pipelines.get((name, totals.RESTARTS), {})
    failures = history.pipelines.get((name, totals.FAILURES), {})
    return replace(found, restarts=sum(restarts.values()), failures=failures)


class Heartbeats:
    """The newest heartbeat with costs of each live run. Owns a position in every events file."""

    def __init__(self) -> None:
        self._files: dict[str, EventFile] = {}
        self._known: dict[str, DriverFacts] = {}

    def read(self, places: StatePaths, runs: Iterable[str]) -> dict[str, DriverFacts]:
        live = set(runs)
        for gone in self._files.keys() - live:
            del self._files[gone]
            self._known.pop(gone, None)
        for run in live:
            for body in self._samples(places, run):
                self._known[run] = DriverFacts(
                    whole(body.get("heap_used")), whole(body.get("heap_max")),
                    whole(body.get("memory")), real(body.get("cpu_s")),
                    whole(body.get("disk_free")),
                )  # fmt: skip
        return dict(self._known)

    def _samples(self, places: StatePaths, run: str) -> list[Mapping[str, Any]]:
        """New heartbeats with costs. Skips to the end of a file that has grown a lot."""
        file = self._files.setdefault(run, EventFile(places.events(run)))
        try:
            begin = max(file.position, file.path.stat().st_size - TAIL_BYTES)
        except OSError:
            return []
        is_skipped, file.position = begin > file.position, begin
        lines = [line for _, line in file.lines(TAIL_BYTES)]
        found = []
        for line in lines[1:] if is_skipped else lines:  # the first one may be torn
            try:
                event = parse_line(line, _SAMPLED)
            except (ValueError, TypeError, RecursionError):
                continue
            if event is not None and "memory" in event.data:
                found.append(event.data)
        return found
