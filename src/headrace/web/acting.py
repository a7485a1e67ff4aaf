"""Actions of the page: requests to the supervisor, as the command line leaves them.

Nothing is started or stopped here. Who asked is in the request, and so in the audit. A request is
answered within a second or so; until it is, the page asks for its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.errors import ConfigError, ControlError, revived
from headrace.model.requests import What
from headrace.project import asking
from headrace.project.workspace import known_pipeline
from headrace.state import requests
from headrace.web.site import Visit

ANSWER_S = 2.0


def start(visit: Visit) -> dict[str, Any]:
    return _ask(visit, What.START)


def stop(visit: Visit) -> dict[str, Any]:
    return _ask(visit, What.STOP)


def restart(visit: Visit) -> dict[str, Any]:
    return _ask(visit, What.RESTART)


def rollback(visit: Visit) -> dict[str, Any]:
    work = visit.site.work()
    plan = asking.plan_rollback(work, visit.path["pipeline"], visit.text("version", 100))
    return _ask(visit, What.ROLLBACK, plan.target)


ACTIONS: dict[str, Callable[[Visit], dict[str, Any]]] = {
    "start": start,
    "stop": stop,
    "restart": restart,
    "rollback": rollback,
}


def answer(visit: Visit) -> dict[str, Any]:
    """Of a request that was left before; it may still be waiting."""
    id_ = visit.path["request"]
    if not requests.is_id(id_):
        raise ConfigError(f"There is no request {id_[:100]!r}.", slug="unknown-name")
    return _answered(visit, id_, 0.0)


def _ask(visit: Visit, what: What, version: str = "") -> dict[str, Any]:
    work = visit.site.work()
    asking.need_supervisor(work)
    pipeline = known_pipeline(work, visit.path["pipeline"])
    assert visit.who is not None  # noqa: S101 - the gate lets nobody else in
    assert visit.site.watch is not None  # noqa: S101 - the app has one
    visit.site.watch.actions.check(visit.who.by, "something asked of the supervisor")
    asked = asking.request(work, what, pipeline)
    asked = replace(asked, by=f"{visit.who.by} (page)", version=version)
    requests.leave(work.places, asked)
    return _answered(visit, asked.id, ANSWER_S)


def _answered(visit: Visit, id_: str, timeout_s: float) -> dict[str, Any]:
    got = requests.answer_of(visit.site.places, id_, timeout_s)
    if got is not None and not got.ok:
        raise revived(got.error or {"what": got.text}, ControlError)
    return {"request": id_, "is_answered": got is not None, "text": got.text if got else None}
