"""The app: every door of `doors.py` behind the gate. Read this first, then `doors.py`.

Flow of a request: `gate.py` (may it come in?) -> a door's function (`looking`, `runs`, `results`,
`questions`, `acting`, `pages`) with a `Visit` -> JSON or a response. Handlers that are no
coroutines run in a thread each (`turns.py`), so that a slow disk holds up nobody else.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import ConfigError, ControlError, Error
from headrace.state.keys import Key, Role
from headrace.web import jsontext, problems, showing
from headrace.web.doors import DOORS, OPEN, Door
from headrace.web.gate import Gate, caller
from headrace.web.site import Site, Visit
from headrace.web.turns import Turns
from headrace.web.watch import Watch

LOOKING_THREADS = 8  # for what the process itself does beside the requests


def build(site: Site) -> Gate:
    """The whole app. Raises if a door is open that should not be."""
    _check(DOORS)
    site = replace(site, watch=Watch(site))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = LOOKING_THREADS
        assert site.watch is not None  # noqa: S101 - made above
        async with site.watch.looking():
            yield

    turns = Turns()
    routes = [
        Route(door.path, _endpoint(door, site, turns), methods=[door.method]) for door in DOORS
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _not_there,
            Error: _told,
            ClientDisconnect: _gone,
            Exception: _unexpected,
        },
    )
    return Gate(app, site)


def _check(doors: tuple[Door, ...]) -> None:
    wrong = [d.path for d in doors if (d.access == "open") != (d.path in OPEN)]
    wrong += [d.path for d in doors if d.access not in ("open", "view", "operate")]
    wrong += [d.path for d in doors if d.method != "GET" and d.access == "view" and d.is_api
              and d.path != "/api/sql"]  # fmt: skip
    if wrong:
        raise AssertionError(f"doors whose access is not as it should be: {wrong}")


def _endpoint(door: Door, site: Site, turns: Turns) -> Any:
    async def endpoint(request: Request) -> Response:
        who: Key | None = request.scope.get("headrace.who")
        if door.access != "open":
            _check_role(door, who)
        visit = Visit(
            site,
            who,
            dict(request.path_params),
            dict(request.query_params),
            await _body(request) if door.method != "GET" else {},
            caller(request),
        )
        if inspect.iscoroutinefunction(door.run):
            answer = await door.run(visit)
        else:
            answer = await turns.run(who, partial(door.run, visit))
        answer = answer if isinstance(answer, Response) else as_json(answer)
        return _unless_known(request, answer)

    return endpoint


def _unless_known(request: Request, answer: Response) -> Response:
    """Nothing but a word where the browser has this very content already."""
    tag = answer.headers.get("etag")
    if tag is None or request.headers.get("if-none-match") != tag:
        return answer
    kept = {name: answer.headers[name] for name in ("etag", "cache-control")}
    return Response(status_code=304, headers=kept)


def _check_role(door: Door, who: Key | None) -> None:
    if who is None:
        raise AssertionError(f"{door.path} was reached without a login")
    if not Role(who.role).may(door.access):
        raise ControlError(
            "Your key lets you look, not change anything.",
            fix="log in with a link of `headrace token --role operate`",
            slug="not-allowed",
        )


async def _body(request: Request) -> dict[str, Any]:
    content = await request.body()
    try:
        body = json.loads(content or b"{}")
    except (ValueError, RecursionError) as exc:
        raise ConfigError("The body is not JSON.", why=str(exc), slug="bad-value") from exc
    if not isinstance(body, dict):
        raise ConfigError("The body has to be a JSON object.", slug="bad-value")
    return body


def as_json(body: Any) -> Response:
    return Response(jsontext.encoded(body), media_type="application/json")


async def _told(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Error)  # noqa: S101 - as it is registered
    return _for_whom(request, exc)


async def _not_there(request: Request, exc: Exception) -> Response:
    if getattr(exc, "status_code", 404) == 405:
        answer = _for_whom(request, problems.wrong_method())
        allowed = (getattr(exc, "headers", None) or {}).get("Allow", "GET")
        answer.headers["Allow"] = ", ".join(sorted(allowed.split(", ")))  # Starlette keeps a set
        return answer
    return _for_whom(request, problems.no_such_page())


def _for_whom(request: Request, error: Error) -> Response:
    """A program gets JSON; a person who opened an address gets a page."""
    is_person = "text/html" in request.headers.get("accept", "")
    if is_person and not request.scope["path"].startswith("/api/"):
        return showing.problem(error, problems.status_of(error))
    return problems.told(error)


async def _gone(request: Request, exc: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


async def _unexpected(request: Request, exc: Exception) -> Response:
    return problems.unexpected(exc)
