"""The overview: every pipeline in one row, worst first, for the person on call.

Is everything healthy, does it keep up, what failed last and why, what do the live tables say.
`overview_feed.py` calls it when something has changed. Judgements come from `health/`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors import live_snapshots
from headrace.errors import Error
from headrace.explore.catalog import column, sql_name
from headrace.health import summary
from headrace.model.runs import Desired, Run
from headrace.model.status import PipelineStatus
from headrace.project import alerts as project_alerts
from headrace.project import status as project_status
from headrace.project.sql_workers import QueryWorkers
from headrace.project.workspace import Workspace
from headrace.state import definitions, desired
from headrace.store import alerts, db, progress, runs, silences
from headrace.store.progress import MinuteRate
from headrace.web import live_tables
from headrace.web.headline import Alert, headline
from headrace.web.pipeline_rates import QueryRates, current_rates, pipeline_rates, sources_by_query

if TYPE_CHECKING:
    from headrace.web.visit import Site

EDITED_S = 10.0  # how long the comparison of the working tree with a version is cached
RATES_S = 1800.0
DAY_S = 86_400.0
ALERTS_MAX = 1000
ALERTS_SHOWN = 20
LIVE_MAX = 8
POINTS = 40
LIVE_TIMEOUT_S = 3.0
LIVE_WAIT_S = 0.5  # users' own queries come first, and the overview does not wait for them


@dataclass
class _Stored:
    """What only the stores know; empty without them."""

    restarts: dict[str, int] = field(default_factory=dict)
    rates: list[MinuteRate] = field(default_factory=list)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    alerts: list[dict[str, Any]] | None = None  # the open ones; None: they cannot be read
    notices: list[str] = field(default_factory=list)


class OverviewBuilder:
    """Caches what is expensive: edits of the working tree, points of live tables."""

    def __init__(self, site: Site, workers: QueryWorkers) -> None:
        self._site = site
        self._workers = workers
        self._edited: dict[str, tuple[float, bool]] = {}
        self._points: dict[str, tuple[int, dict[str, Any]]] = {}

    def overview(self) -> dict[str, Any]:
        now = self._site.clock()
        work = self._site.workspace()
        seen = project_status.overview(work, with_edits=False)
        stored = self._read_stores(now)
        wanted = {item.pipeline: item for item in desired.read_all(work.places)}
        opened = stored.alerts
        rows = [self._row(work, one, wanted.get(one.name), stored) for one in seen.pipelines]
        rows.sort(key=lambda row: (-row["severity"], -(row["alerts"] or 0), row["name"]))
        return {
            "at": now,
            "project": self._site.settings.name,
            "profile": self._site.settings.profile,
            "supervisor": {"pid": seen.supervisor.pid} if seen.supervisor else None,
            "notice": " ".join([*stored.notices, *filter(None, [seen.notice])]) or None,
            "headline": headline(rows, None if opened is None else [_brief(one) for one in opened]),
            "hints": list(seen.hints),
            "pipelines": rows,
            "alerts": (opened or [])[:ALERTS_SHOWN],
            "live": self._live(now),
        }

    def _row(
        self, work: Workspace, status: PipelineStatus, item: Desired | None, stored: _Stored
    ) -> dict[str, Any]:
        definition = (
            definitions.read(work.places, item.version, item.profile, item.pipeline)
            if item
            else None
        )
        sources = sources_by_query(definition)
        now_rates = current_rates(status.queries, sources)
        mine = [rate for rate in stored.rates if rate.pipeline == status.name]
        opened = [one for one in stored.alerts or () if one["pipeline"] == status.name]
        return {
            **status.to_json(),
            "edited": self._is_edited(status),
            "severity": summary.severity(status),
            "pace": summary.pace(status, now_rates.input),
            "input_rate": now_rates.input,
            "capacity": now_rates.capacity,
            "deployed_by": item.by if item else None,
            "deployed_at": item.at if item else None,
            "restarts_today": stored.restarts.get(status.name, 0),
            "alerts": None if stored.alerts is None else len(opened),
            "alerts_handled": sum(_brief(one).is_handled for one in opened),
            "rates": _rates_over_time(mine, sources),
            "failure": stored.failures.get(status.name),
        }

    def _read_stores(self, now: float) -> _Stored:
        places = self._site.places
        stored = _Stored()

        def read_history(conn: db.Store) -> None:
            stored.restarts = runs.restarts_since(conn, now - DAY_S)
            stored.rates = progress.minute_rates(conn, now - RATES_S, now)
            failures = runs.last_failures(conn, now - 7 * DAY_S)
            stored.failures = {run.spec.pipeline: _failure(run) for run in failures}

        try:
            db.read(places.history, read_history)
        except Error as exc:
            stored.notices.append(_unreadable("history", exc))

        def read_alerts(conn: db.Store) -> list[dict[str, Any]]:
            active = silences.list_silences(conn, now)
            found = alerts.list_alerts(conn, limit=ALERTS_MAX)
            return [project_alerts.to_json(alert, active, now) for alert in found]

        try:
            stored.alerts = db.read(places.alerts, read_alerts) or []
        except Error as exc:
            stored.notices.append(_unreadable("list of alerts", exc))
        return stored

    def _is_edited(self, status: PipelineStatus) -> bool:
        """Whether the working tree differs from the deployed version."""
        if not status.version:
            return False
        at, is_edited = self._edited.get(status.version, (-EDITED_S, False))
        if time.monotonic() > at + EDITED_S:
            is_edited = project_status.is_edited(self._site.workspace(), status.version)
            self._edited[status.version] = (time.monotonic(), is_edited)
        return is_edited

    def _live(self, now: float) -> list[dict[str, Any]]:
        """The first live tables with their last points, for a small chart each."""
        found = []
        for about in live_tables.find_all(self._site)[:LIVE_MAX]:
            newest = live_snapshots.numbers(Path(about["path"]))
            body = live_tables.describe(about)
            if newest:
                body |= self._points_of(about, newest[-1])
                xs = [point[0] for point in body.get("points", ())]
                body["current_window"] = live_tables.current_window(xs, now)
            found.append(body)
        return found

    def _points_of(self, about: Mapping[str, Any], number: int) -> dict[str, Any]:
        name = f"{about['pipeline']}/{about['name']}"
        known = self._points.get(name)
        if known is not None and known[0] == number:
            return known[1]
        x, ys = about["x"], about["y"]
        if not x or not ys:
            return {}
        table = sql_name(about["pipeline"], about["name"])
        columns = ", ".join(column(c) for c in (x, ys[0]))
        sql = f"SELECT {columns} FROM {table} ORDER BY 1 DESC LIMIT {POINTS}"  # noqa: S608
        try:
            got = self._workers.ask("sql", LIVE_TIMEOUT_S, wait_s=LIVE_WAIT_S, sql=sql, rows=POINTS)
            body = {"points": got["rows"][::-1], "as_of": got["tables"][0]["as_of"]}
        except (Error, LookupError) as exc:
            # The last points that were read, with their own time; the next overview tries again.
            problem = exc.what if isinstance(exc, Error) else str(exc)
            return {**(known[1] if known else {}), "problem": problem}
        self._points[name] = (number, body)
        return body


def _rates_over_time(
    rates: Iterable[MinuteRate], sources: Mapping[str, frozenset[str]]
) -> list[list[Any]]:
    """[start, input rate, capacity, is complete] of each minute."""
    minutes: dict[float, list[MinuteRate]] = defaultdict(list)
    for one in rates:
        minutes[one.start].append(one)
    found: list[list[Any]] = []
    for start, queries in minutes.items():
        by_query = {q.query: QueryRates(q.input_rate, q.processing_rate) for q in queries}
        total = pipeline_rates(by_query, sources)
        found.append([start, total.input, total.capacity, queries[0].is_complete])
    return found


def _brief(alert: Mapping[str, Any]) -> Alert:
    is_silenced = alert["silenced_until"] is not None
    return Alert(alert["severity"], alert["acknowledged_at"] is not None, is_silenced)


def _unreadable(what: str, error: Error) -> str:
    return f"The {what} cannot be read: {error.what} {error.fix or ''}".rstrip()


def _failure(run: Run) -> dict[str, Any]:
    return {"run": run.name, "at": run.ended_at, **summary.failure(run.exit)}
