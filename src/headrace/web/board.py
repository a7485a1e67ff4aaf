"""The overview: every pipeline in one row, worst first, with what a person on call asks first.

Is it healthy, is it keeping up, what failed last and why, what do the live results say. Made by
`watch` when something changed. Judgements and their words are `model.health`'s alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors import snapshots
from headrace.errors import Error
from headrace.explore.names import column, spelled
from headrace.model import glance
from headrace.model.runs import Exit
from headrace.model.status import PipelineStatus
from headrace.project import definitions, reading, tables
from headrace.project.workers import Workers
from headrace.state import desired
from headrace.store import alerts, db, progress, runs

if TYPE_CHECKING:
    from headrace.web.site import Site

EDITED_S = 10.0  # how long it is believed that the working tree is as it was
SPARK_S = 1800.0
DAY_S = 86_400.0
LIVE_MAX = 8
POINTS = 40
LIVE_TIMEOUT_S = 3.0
LIVE_WAIT_S = 0.5  # people's own questions come first, and the overview does not wait for them


class Board:
    """Remembers what is costly to find out: edits of the working tree, points of live tables."""

    def __init__(self, site: Site, workers: Workers) -> None:
        self._site = site
        self._workers = workers
        self._edited: dict[str, tuple[float, bool]] = {}
        self._points: dict[str, tuple[int, dict[str, Any]]] = {}

    def overview(self) -> dict[str, Any]:
        now = self._site.clock()
        work = self._site.work()
        seen = reading.overview(work, with_edits=False)
        facts, notice = self._facts(now)
        wanted = {item.pipeline: item for item in desired.listed(work.places)}
        rows = []
        for status in seen.pipelines:
            item = wanted.get(status.name)
            rows.append(
                {
                    **status.to_json(),
                    "edited": self._is_edited(status),
                    "severity": glance.severity(status),
                    "pace": glance.pace(status),
                    "deployed_by": item.by if item else None,
                    "deployed_at": item.at if item else None,
                    "restarts_today": facts["restarts"].get(status.name, 0),
                    "alerts": facts["alerts"].get(status.name, 0),
                    "rates": facts["rates"].get(status.name, []),
                    "failure": facts["failures"].get(status.name),
                }
            )
        rows.sort(key=lambda row: (-row["severity"], -row["alerts"], row["name"]))
        return {
            "at": now,
            "project": self._site.settings.name,
            "profile": self._site.settings.profile,
            "supervisor": {"pid": seen.supervisor.pid} if seen.supervisor else None,
            "notice": seen.notice or notice,
            "hints": list(seen.hints),
            "pipelines": rows,
            "alerts": facts["open"],
            "live": self._live(),
        }

    def _facts(self, now: float) -> tuple[dict[str, Any], str | None]:
        """From the store; without one the page shows what the runs' own files tell."""
        places = self._site.places
        facts: dict[str, Any] = {
            "restarts": {}, "rates": {}, "failures": {}, "alerts": {}, "open": []
        }  # fmt: skip
        notice = None
        try:
            with contextlib.closing(db.open_readonly(places.history)) as conn:
                facts["restarts"] = runs.restarts_since(conn, now - DAY_S)
                facts["rates"] = progress.rates(conn, now - SPARK_S, now)
                failures = runs.last_failures(conn, now - 7 * DAY_S)
                facts["failures"] = {one.pipeline: _failure(one) for one in failures}
        except Error as exc:
            is_new = not places.history.exists()
            notice = None if is_new else f"The history cannot be read: {exc.what} {exc.fix or ''}"
        with contextlib.suppress(Error), _reading(places.alerts) as conn:
            if conn is not None:
                opened = alerts.listed(conn, "open", 1000)
                for one in opened:
                    facts["alerts"][one.pipeline] = facts["alerts"].get(one.pipeline, 0) + 1
                facts["open"] = [asdict(one) for one in opened[:20]]
        return facts, notice

    def _is_edited(self, status: PipelineStatus) -> bool:
        """Whether the working tree differs from what is deployed; looked at now and then."""
        if not status.version:
            return False
        known = self._edited.get(status.version)
        if known is None or time.monotonic() > known[0] + EDITED_S:
            found = reading.is_edited(self._site.work(), status.version)
            known = self._edited[status.version] = (time.monotonic(), found)
        return known[1]

    def _live(self) -> list[dict[str, Any]]:
        """The first live tables: what they say now, and their last points as a small chart."""
        found = []
        for about in live_tables(self._site)[:LIVE_MAX]:
            newest = snapshots.numbers(Path(about["path"]))
            body = dict(about)
            body.pop("path")
            if newest:
                body |= self._points_of(about, newest[-1])
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
        table = spelled(about["pipeline"], about["name"])
        columns = ", ".join(column(c) for c in (x, ys[0]))
        sql = f"SELECT {columns} FROM {table} ORDER BY 1 DESC LIMIT {POINTS}"  # noqa: S608
        try:
            got = self._workers.ask("sql", LIVE_TIMEOUT_S, wait_s=LIVE_WAIT_S, sql=sql, rows=POINTS)
            body = {"points": got["rows"][::-1], "as_of": got["tables"][0]["as_of"]}
        except (Error, LookupError) as exc:
            # What was read last, with its own time; it is tried again with the next look.
            problem = exc.what if isinstance(exc, Error) else str(exc)
            return {**(known[1] if known else {}), "problem": problem}
        self._points[name] = (number, body)
        return body


def live_tables(site: Site) -> list[dict[str, Any]]:
    """Every hr.live of what is deployed: its name, its folder, and how it wants to be shown."""
    work = site.work()
    found = []
    for item in desired.listed(work.places):
        definition = definitions.stored(work, item.version, item.profile, item.pipeline)
        for query in definition.queries if definition else ():
            if query.sink.get("kind") == "live":
                fields = query.sink
                found.append(
                    {
                        "pipeline": item.pipeline,
                        "name": query.name,
                        "key": list(fields.get("key") or ()),
                        "chart": fields.get("chart"),
                        "x": fields.get("x"),
                        "y": list(fields.get("y") or ()),
                        "path": _folder(site, item.pipeline, query.name),
                    }
                )
    return found


def _folder(site: Site, pipeline: str, query: str) -> str:
    table = tables.known_names(site.work()).tables.get((pipeline, query))
    return (table.place if table else None) or site.settings.result(pipeline, query)


def _failure(run: runs.Run) -> dict[str, Any]:
    ended = Exit.from_json(run.exit) if run.exit else None
    return {"run": run.run, "at": run.ended_at, **glance.failure(ended)}


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[db.Store | None]:
    if not path.exists():
        yield None
        return
    with contextlib.closing(db.open_readonly(path)) as conn:
        yield conn
