"""The table of all endpoints of the page and its API, with the access that each needs.

`app.py` serves these and no others; the API description and a test of every endpoint are made from
the same table. Invariant: the endpoints in `OPEN` need no login, all others do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from headrace import __version__
from headrace.web import (
    actions,
    alert_actions,
    alert_views,
    auth,
    live_tables,
    openapi,
    pages,
    pipeline_views,
    runs,
    server_events,
    sql,
)
from headrace.web.visit import Visit

OPEN = frozenset({"/healthz", "/login", "/static/{file:path}"})

Answer = dict[str, Any] | Response
Run = Callable[[Visit], Answer] | Callable[[Visit], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`access`: open | view | operate. `summary` is its text in the API description."""

    path: str
    run: Run
    summary: str
    access: str = "view"
    method: str = "GET"
    query: tuple[str, ...] = ()  # names of its parameters
    body: tuple[str, ...] = ()
    kinds: tuple[str, ...] = (openapi.JSON,)  # content types of its answer

    @property
    def is_api(self) -> bool:
        return self.path.startswith("/api")


def _openapi(visit: Visit) -> dict[str, Any]:
    return openapi.openapi(__version__, API, auth.cookie_name(visit.site.settings.web))


PAGES = (
    Endpoint("/", pages.page("Overview", "overview"), "All pipelines"),
    Endpoint("/pipelines/{pipeline}", pages.pipeline, "One pipeline"),
    Endpoint("/runs/{run}", pages.page_of("run", "run"), "One run"),
    Endpoint("/live", pages.page("Live results", "live"), "All live results"),
    Endpoint("/live/{table}", pages.page_of("table", "live"), "One live result"),
    Endpoint("/sql", pages.page("SQL", "sql"), "SQL editor"),
    Endpoint("/quarantine", pages.page("Quarantine", "quarantine"), "Records that failed to parse"),
    Endpoint("/checkpoints", pages.page("Checkpoints", "checkpoints"), "Checkpoints"),
    Endpoint("/alerts", pages.page("Alerts", "alerts"), "Alerts"),
    Endpoint("/alerts/{alert}", pages.page_of("alert", "alert", "Alert"), "One alert"),
    Endpoint("/audit", pages.page("Audit", "audit"), "Audit log"),
)

API = (
    Endpoint("/api/overview", pipeline_views.overview, "Status of every pipeline, worst first"),
    Endpoint(
        "/api/pipelines/{pipeline}",
        pipeline_views.pipeline,
        "One pipeline: status, graph, verdicts",
    ),
    Endpoint(
        "/api/pipelines/{pipeline}/history",
        pipeline_views.history,
        "The queries of a pipeline over time, with events",
        query=("range", "until"),
    ),
    Endpoint("/api/pipelines/{pipeline}/runs", runs.list_runs, "A pipeline's runs, newest first"),
    Endpoint("/api/runs/{run}", runs.run, "One run: how and why it ended"),
    Endpoint("/api/runs/{run}/events", runs.events, "A run's events", query=("after",)),
    Endpoint(
        "/api/runs/{run}/log",
        runs.log,
        "A run's output: the last lines, or those after a position",
        query=("after", "search"),
    ),
    Endpoint(
        "/api/runs/{run}/bundle",
        runs.bundle,
        "All files of a run as a zip file, with secrets removed",
        kinds=("application/zip",),
    ),
    Endpoint("/api/live", live_tables.list_tables, "All live tables"),
    Endpoint(
        "/api/live/{table}",
        live_tables.table,
        "A live table",
        query=("rows", "as"),
        kinds=(openapi.JSON, "text/csv", live_tables.PARQUET),
    ),
    Endpoint("/api/live/{table}/{key:path}", live_tables.row, "One row of a live table, by key"),
    Endpoint("/api/sql", sql.tables, "Tables that can be queried"),
    Endpoint("/api/sql", sql.run_query, "Run a query", method="POST", body=("sql", "rows")),
    Endpoint("/api/quarantine", pipeline_views.quarantine, "Records that failed to parse"),
    Endpoint("/api/checkpoints", pipeline_views.checkpoints, "The checkpoint of every query"),
    Endpoint("/api/alerts", alert_views.list_alerts, "Alerts, newest first", query=("all",)),
    Endpoint("/api/alerts/{alert}", alert_views.alert, "One alert, with its deliveries"),
    Endpoint(
        "/api/alerts/{alert}/acknowledge",
        alert_actions.acknowledge,
        "Ask the supervisor to mark an alert as acknowledged by you",
        access="operate",
        method="POST",
    ),
    Endpoint("/api/silences", alert_views.list_silences, "Active silences", query=("all",)),
    Endpoint(
        "/api/silences",
        alert_actions.silence,
        "Ask the supervisor to send no notices about some alerts for some time",
        access="operate",
        method="POST",
        body=("pipeline", "query", "rule", "for", "until", "reason"),
    ),
    Endpoint(
        "/api/silences/{silence}/end",
        alert_actions.end_silence,
        "Ask the supervisor to end a silence",
        access="operate",
        method="POST",
    ),
    Endpoint("/api/channels", alert_views.list_channels, "Channels and their deliveries"),
    Endpoint(
        "/api/channels/{channel}/test",
        alert_actions.test_channel,
        "Send a test notice to a channel",
        access="operate",
        method="POST",
    ),
    Endpoint("/api/audit", pipeline_views.audit, "Audit log, newest first"),
    Endpoint(
        "/api/stream",
        server_events.stream,
        "Notifications of changes (Server-Sent Events)",
        kinds=("text/event-stream",),
    ),
    Endpoint("/api/openapi.json", _openapi, "This OpenAPI description"),
    *(
        Endpoint(
            f"/api/pipelines/{{pipeline}}/{what}",
            run,
            f"Ask the supervisor to {what.replace('rollback', 'roll back')} the pipeline",
            access="operate",
            method="POST",
            body=("version",) if what == "rollback" else (),
        )
        for what, run in actions.ACTIONS.items()
    ),
    Endpoint("/api/requests/{request}", actions.answer, "Reply to a request"),
)

ENTRANCE = (
    Endpoint("/healthz", pages.healthz, "Liveness check", access="open"),
    Endpoint("/login", pages.login_page, "Login page", access="open"),
    Endpoint(
        "/login", pages.login, "Exchange a login key for a session", "open", "POST", body=("token",)
    ),
    Endpoint("/logout", pages.logout, "End all of the user's sessions", method="POST"),
    Endpoint("/static/{file:path}", pages.static, "Scripts and styles", access="open"),
)

ROUTES: tuple[Endpoint, ...] = (*PAGES, *API, *ENTRANCE)
