"""Actions of the page: requests to the supervisor, the same as from the command line.

Nothing is started or stopped here. The request names the user, and so does the audit log. The
supervisor replies within about a second; until then the page polls for the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.errors import ConfigError, ControlError, error_from_dict
from headrace.model.requests import Action, Request
from headrace.project import control
from headrace.project.workspace import resolve_pipeline
from headrace.state import requests
from headrace.web.visit import Visit

REPLY_S = 2.0


def _rollback(visit: Visit) -> dict[str, Any]:
    work = visit.site.workspace()
    plan = control.plan_rollback(work, visit.path["pipeline"], visit.text("version", 100))
    return _request(visit, Action.ROLLBACK, plan.target)


def answer(visit: Visit) -> dict[str, Any]:
    """The reply to an earlier request, if there is one yet."""
    id_ = visit.path["request"]
    if not requests.is_id(id_):
        raise ConfigError(f"Unknown request: {id_[:100]!r}.", slug="unknown-name")
    return _await_reply(visit, id_, 0.0)


def _request(visit: Visit, what: Action, version: str = "") -> dict[str, Any]:
    work = visit.site.workspace()
    control.require_supervisor(work)
    pipeline = resolve_pipeline(work, visit.path["pipeline"])
    return leave(visit, replace(control.request(work, what, pipeline), version=version))


def leave(visit: Visit, request: Request) -> dict[str, Any]:
    """Leaves the request for the supervisor, in the name of the user."""
    control.require_supervisor(visit.site.workspace())
    visit.feed.action_limit.check(visit.user.by, "actions")
    requests.leave(visit.site.places, replace(request, by=f"{visit.user.by} (page)"))
    return _await_reply(visit, request.id, REPLY_S)


ACTIONS: dict[str, Callable[[Visit], dict[str, Any]]] = {
    "start": partial(_request, what=Action.START),
    "stop": partial(_request, what=Action.STOP),
    "restart": partial(_request, what=Action.RESTART),
    "rollback": _rollback,
}


def _await_reply(visit: Visit, id_: str, timeout_s: float) -> dict[str, Any]:
    reply = requests.answer_of(visit.site.places, id_, timeout_s)
    if reply is not None and not reply.ok:
        raise error_from_dict(reply.error or {"what": reply.text}, ControlError)
    return {"request": id_, "is_answered": reply is not None, "text": reply.text if reply else None}
