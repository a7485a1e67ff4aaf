"""The app: every endpoint of `routes.py`, behind authentication. Read this first, then `routes.py`.

Flow of a request: `auth.py` (is it allowed?) -> a handler (in `pipeline_views`, `runs`,
`live_tables`, `sql`, `actions`, `pages`) with a `Visit` -> JSON or a response. Handlers that are
not coroutines run in threads (`ThreadPool`), so that a slow disk delays only its own requests.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import ConfigError, ControlError, Error
from headrace.state.api_keys import Key, Role
from headrace.web import error_responses, html, json_responses
from headrace.web.auth import AuthMiddleware, caller
from headrace.web.overview_feed import OverviewFeed
from headrace.web.routes import OPEN, ROUTES, Endpoint
from headrace.web.visit import Site, Visit

T = TypeVar("T")

BACKGROUND_THREADS = 8  # for the work of the process besides requests
THREADS = {None: 2, Role.VIEW: 6, Role.OPERATE: 6}
THREADS_PER_KEY = 4


def build(site: Site) -> AuthMiddleware:
    """Raises if an endpoint is open that should not be."""
    _check(ROUTES)
    feed = OverviewFeed(site)
    site = replace(site, feed=feed)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = BACKGROUND_THREADS
        async with feed.running():
            yield

    threads = ThreadPool()
    routes = [Route(e.path, _handler(e, site, threads), methods=[e.method]) for e in ROUTES]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_error,
            Error: _error,
            ClientDisconnect: _disconnected,
            Exception: _unexpected,
        },
    )
    return AuthMiddleware(app, site)


def _check(endpoints: tuple[Endpoint, ...]) -> None:
    wrong = [d.path for d in endpoints if (d.access == "open") != (d.path in OPEN)]
    wrong += [d.path for d in endpoints if d.access not in ("open", "view", "operate")]
    wrong += [d.path for d in endpoints if d.method != "GET" and d.access == "view" and d.is_api
              and d.path != "/api/sql"]  # fmt: skip
    if wrong:
        raise AssertionError(f"endpoints with a wrong access: {wrong}")


def _handler(endpoint: Endpoint, site: Site, threads: ThreadPool) -> Any:
    async def handle(request: Request) -> Response:
        who: Key | None = request.scope.get("headrace.who")
        if endpoint.access != "open":
            _check_role(endpoint, who)
        visit = Visit(
            site,
            who,
            dict(request.path_params),
            dict(request.query_params),
            await _body(request) if endpoint.method != "GET" else {},
            caller(request),
        )
        if inspect.iscoroutinefunction(endpoint.run):
            answer = await endpoint.run(visit)
        else:
            answer = await threads.run(who, partial(endpoint.run, visit))
        if not isinstance(answer, Response):
            answer = json_responses.respond(json_responses.encode(answer))
        return _unless_cached(request, answer)

    return handle


class ThreadPool:
    """Anonymous requests, keys that may view and keys that may operate have separate threads, and
    one key uses only a few at a time: a busy client does not delay the others.

    Used only by coroutines of one event loop.
    """

    def __init__(self) -> None:
        self._all = {role: CapacityLimiter(count) for role, count in THREADS.items()}
        self._own: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()

    async def run(self, who: Key | None, work: Callable[[], T]) -> T:
        if who is None:
            return await to_thread.run_sync(work, limiter=self._all[None])
        own = self._own.get(who.hash) or CapacityLimiter(THREADS_PER_KEY)
        self._own[who.hash] = own
        async with own:
            return await to_thread.run_sync(work, limiter=self._all[Role(who.role)])


def _unless_cached(request: Request, answer: Response) -> Response:
    """304 if the browser already has this content."""
    tag = answer.headers.get("etag")
    if tag is None or request.headers.get("if-none-match") != tag:
        return answer
    kept = {name: answer.headers[name] for name in ("etag", "cache-control")}
    return Response(status_code=304, headers=kept)


def _check_role(endpoint: Endpoint, who: Key | None) -> None:
    if who is None:
        raise AssertionError(f"{endpoint.path} was reached without a login")
    if not Role(who.role).may(endpoint.access):
        raise ControlError(
            "Your key is read-only.",
            fix="Log in with a link from `headrace token --role operate`.",
            slug="not-allowed",
        )


async def _body(request: Request) -> dict[str, Any]:
    content = await request.body()
    try:
        body = json.loads(content or b"{}")
    except (ValueError, RecursionError) as exc:
        raise ConfigError(
            "The request body is not valid JSON.", why=str(exc), slug="bad-value"
        ) from exc
    if not isinstance(body, dict):
        raise ConfigError("The request body must be a JSON object.", slug="bad-value")
    return body


async def _http_error(request: Request, exc: Exception) -> Response:
    if getattr(exc, "status_code", 404) == 405:
        answer = _error_response(request, error_responses.wrong_method())
        allowed = (getattr(exc, "headers", None) or {}).get("Allow", "GET")
        answer.headers["Allow"] = ", ".join(sorted(allowed.split(", ")))  # Starlette keeps a set
        return answer
    return _error_response(request, error_responses.no_such_page())


async def _error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Error)  # noqa: S101 - registered for this type
    return _error_response(request, exc)


def _error_response(request: Request, error: Error) -> Response:
    """A program gets JSON; a person in a browser gets a page."""
    is_person = "text/html" in request.headers.get("accept", "")
    if is_person and not request.scope["path"].startswith("/api/"):
        return html.problem(error)
    return error_responses.error_response(error)


async def _disconnected(request: Request, exc: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _unexpected(request: Request, exc: Exception) -> Response:
    return error_responses.unexpected_error_response(exc)
