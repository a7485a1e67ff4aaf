"""Alerts of a project, open or resolved. No alerts.db yet means no alerts."""

from __future__ import annotations

import contextlib
from typing import Any

from headrace.project import reading
from headrace.project.workspace import Workspace, known_query
from headrace.store import alerts as stored
from headrace.store import db
from headrace.store.alerts import Alert

SHOWN_MAX = 1_000


def found(work: Workspace, name: str | None, *, is_all: bool) -> list[Alert]:
    pipeline, query = known_query(work, name, reading.queries(work)) if name else (None, None)
    if not work.places.alerts.exists():
        return []
    with contextlib.closing(db.open_readonly(work.places.alerts)) as conn:
        of = {"pipeline": pipeline, "query": query}
        return stored.listed(conn, "all" if is_all else "open", SHOWN_MAX, **of)


def as_body(alert: Alert) -> dict[str, Any]:
    names = (
        "id", "key", "pipeline", "query", "rule", "title", "severity",
        "opened_at", "noticed_at", "updated_at", "resolved_at", "resolve_at",
        "count", "reopened", "data",
    )  # fmt: skip
    return {name: getattr(alert, name) for name in names}
