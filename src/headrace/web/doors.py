"""Every address of the page and its API: who may come in, and what is behind it. The only table.

Read by `app.py`, which opens no other; by the API's own description; and by a test that walks them
all. Invariant: `OPEN` names the few that need no login, and nothing else is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from headrace import __version__
from headrace.web import (
    acting,
    describing,
    gate,
    looking,
    pages,
    questions,
    results,
    runs,
    streaming,
)
from headrace.web.site import Visit

OPEN = frozenset({"/healthz", "/login", "/static/{file:path}"})

Answer = dict[str, Any] | Response
Run = Callable[[Visit], Answer] | Callable[[Visit], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Door:
    """`access`: open | view | operate. `summary` is the API's description of it."""

    path: str
    run: Run
    summary: str
    access: str = "view"
    method: str = "GET"
    query: tuple[str, ...] = ()  # names of the parameters it understands
    body: tuple[str, ...] = ()
    kinds: tuple[str, ...] = (describing.JSON,)  # content types of its answer

    @property
    def is_api(self) -> bool:
        return self.path.startswith("/api")


def _openapi(visit: Visit) -> dict[str, Any]:
    return describing.openapi(__version__, API, gate.cookie_name(visit.site.settings.web))


PAGES = (
    Door("/", pages.overview, "All pipelines"),
    Door("/pipelines/{pipeline}", pages.pipeline, "One pipeline"),
    Door("/runs/{run}", pages.run, "One run"),
    Door("/live", pages.live, "All live results"),
    Door("/live/{table}", pages.live_table, "One live result"),
    Door("/sql", pages.sql, "Ask in SQL"),
    Door("/quarantine", pages.quarantine, "Records that could not be used"),
    Door("/checkpoints", pages.checkpoints, "Checkpoints"),
    Door("/alerts", pages.alerts, "Alerts"),
    Door("/audit", pages.audit, "Who asked for what"),
)

API = (
    Door("/api/overview", looking.overview, "How every pipeline is, worst first"),
    Door("/api/pipelines/{pipeline}", looking.pipeline, "One pipeline: status, graph, verdicts"),
    Door(
        "/api/pipelines/{pipeline}/history",
        looking.history,
        "Its queries over time, and what happened meanwhile",
        query=("range", "until"),
    ),
    Door("/api/pipelines/{pipeline}/runs", runs.listed, "Its runs, the newest first"),
    Door("/api/runs/{run}", runs.run, "One run: how it ended, and why"),
    Door("/api/runs/{run}/events", runs.events, "What happened in it", query=("after",)),
    Door(
        "/api/runs/{run}/log",
        runs.log,
        "Its output: the last lines, or those after a position",
        query=("after", "search"),
    ),
    Door(
        "/api/runs/{run}/bundle",
        runs.bundle,
        "All about it in one file, secrets removed",
        kinds=("application/zip",),
    ),
    Door("/api/live", results.listed, "All live tables"),
    Door(
        "/api/live/{table}",
        results.table,
        "A live table",
        query=("rows", "as"),
        kinds=(describing.JSON, "text/csv", results.PARQUET),
    ),
    Door("/api/live/{table}/{key:path}", results.row, "The row of a live table with this key"),
    Door("/api/sql", questions.tables, "What can be asked, and what was"),
    Door("/api/sql", questions.ask, "Ask", method="POST", body=("sql", "rows")),
    Door("/api/quarantine", looking.quarantine, "Records that could not be used"),
    Door("/api/checkpoints", looking.checkpoints, "Checkpoints of every query"),
    Door("/api/alerts", looking.alerts, "Alerts", query=("all",)),
    Door("/api/audit", looking.audit, "Who asked for what, the newest first"),
    Door(
        "/api/stream",
        streaming.stream,
        "Tells when something changed (Server-Sent Events)",
        kinds=("text/event-stream",),
    ),
    Door("/api/openapi.json", _openapi, "This description"),
    *(
        Door(
            f"/api/pipelines/{{pipeline}}/{what}",
            acting.ACTIONS[what],
            f"Ask the supervisor to {what} it",
            access="operate",
            method="POST",
            body=("version",) if what == "rollback" else (),
        )
        for what in ("start", "stop", "restart", "rollback")
    ),
    Door("/api/requests/{request}", acting.answer, "What became of a request"),
)

ENTRANCE = (
    Door("/healthz", pages.healthz, "Is the page's process alive?", access="open"),
    Door("/login", pages.login_page, "How to get in", access="open"),
    Door("/login", pages.login, "A link's key for a session", "open", "POST", body=("token",)),
    Door("/logout", pages.logout, "Ends all sessions of who asks", method="POST"),
    Door("/static/{file:path}", pages.static, "Scripts and styles", access="open"),
)

DOORS: tuple[Door, ...] = (*PAGES, *API, *ENTRANCE)
