"""Alerts of a project, open or resolved."""

from __future__ import annotations

from functools import partial

from headrace.project import status
from headrace.project.workspace import Workspace, resolve_query
from headrace.store import alerts as stored
from headrace.store import db
from headrace.store.alerts import StoredAlert

SHOWN_MAX = 1_000


def find(work: Workspace, name: str | None, *, is_all: bool) -> list[StoredAlert]:
    pipeline, query = resolve_query(work, name, status.queries(work)) if name else (None, None)
    ask = partial(
        stored.list_alerts,
        state="all" if is_all else "open",
        limit=SHOWN_MAX,
        pipeline=pipeline,
        query=query,
    )
    return db.read(work.places.alerts, ask) or []
