"""Who comes in: the checks that every request passes, in this order, before anything is looked up.

The name it was called by (400), the size of what it brings (413), the login (401), where a change
was asked from (403) and in which form (415), and what its key may do (403). Pure ASGI, around the
whole app: no route can be reached beside it. Invariant: headers of protection are on all responses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import ConfigError, ControlError, Error
from headrace.model.web import LOOPBACK, WebSettings
from headrace.state import keys
from headrace.state.keys import Key, Kind
from headrace.web import pace, patience, problems, showing
from headrace.web.site import Site

logger = logging.getLogger("headrace.web.access")

BODY_MAX = 1024 * 1024
COOKIE = "headrace"
LOGINS = (10, 60.0)  # tries of one caller in so many seconds
OPEN_PREFIXES = ("/static/",)
OPEN_PATHS = ("/healthz", "/login")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}


class Gate:
    """Owns the counts of tries."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self.site = site
        self._web = site.settings.web
        self._hosts = allowed_hosts(self._web)
        self._logins = pace.Pace(*LOGINS, clock=site.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no door speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        send = self._guarded(send, scope)
        try:
            answer = self._refused(request)
        except Error as exc:
            answer = self._told(request, exc)
        if answer is not None:
            await answer(scope, receive, send)
            return
        await self._app(scope, _bounded(patience.in_time(receive)), send)

    def _refused(self, request: Request) -> Response | None:
        """None: come in."""
        headers = request.headers
        if host_of(headers) not in self._hosts:
            raise ConfigError(
                "This page is not served under that name.",
                why="A name that is not known to be its own may be a stranger's (DNS rebinding).",
                fix='add it in headrace.toml: [web] hosts = ["metrics.example"]',
                slug="bad-host",
            )
        if _length(headers) > BODY_MAX:
            raise Error(f"More than {BODY_MAX // 1024} kB are not taken.", slug="too-large")
        if self._is_with_token(request):
            return self._spent(request)
        who = None
        if not is_open(request.url.path):
            who = self._known(request)
        if request.method not in ("GET", "HEAD"):
            self._check_change(request, is_by_cookie=who is None or who.kind == Kind.SESSION)
        if request.url.path == "/login" and request.method == "POST":
            self._logins.check(_caller(request), "a login tried")
        request.scope["headrace.who"] = who
        return None

    def _is_with_token(self, request: Request) -> bool:
        return "token" in request.query_params and request.method == "GET"

    def _spent(self, request: Request) -> Response:
        """A link's one-time key becomes a cookie, and leaves the address."""
        self._logins.check(_caller(request), "a login tried")
        key = keys.spend(self.site.places, request.query_params["token"], self.site.clock())
        if key is None:
            if self._session(request) is not None:  # a link opened twice by who is in already
                return RedirectResponse(_clean(request), 303)
            raise used_up()
        answer = RedirectResponse(_clean(request), 303)
        set_session(answer, self.site, key)
        return answer

    def _known(self, request: Request) -> Key:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            found = keys.find(self.site.places, secret.strip(), Kind.PROGRAM, self.site.clock())
        else:
            found = self._session(request)
        if found is None:
            raise no_login(bool(scheme))
        return found

    def _session(self, request: Request) -> Key | None:
        secret = _cookie(request.headers, cookie_name(self._web))
        return keys.find(self.site.places, secret, Kind.SESSION, self.site.clock())

    def _check_change(self, request: Request, *, is_by_cookie: bool) -> None:
        """A browser sends its cookie with whatever page asks: then the page has to be ours."""
        headers = request.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ControlError(
                "Changes are asked for in JSON.",
                why=f"The content type was {kind[:100] or 'not given'!r}.",
                fix="send Content-Type: application/json",
                slug="not-json",
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_ours = origin is None or urlsplit(origin).netloc.lower() in self._hosts
        if not is_ours or (is_by_cookie and site not in (None, "same-origin", "none")):
            raise ControlError(
                "This was asked for by another site's page.",
                why="A page of another site may not change anything here (CSRF).",
                fix="ask from the page itself, or with a program's key (headrace token --program)",
                slug="foreign-origin",
            )

    def _told(self, request: Request, error: Error) -> Response:
        """JSON for programs; a person who needs a login gets a page that says how."""
        wants_page = "text/html" in request.headers.get("accept", "")
        is_page = not request.url.path.startswith("/api") and request.method == "GET"
        if is_page and wants_page:
            return showing.problem(error, problems.status_of(error))
        extra = {"www-authenticate": "Bearer"} if problems.status_of(error) == 401 else None
        return problems.told(error, extra)

    def _guarded(self, send: Send, scope: Scope) -> Send:
        """With our headers on whatever is sent, and one line in the log without any secret."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                if self._web.is_secure:
                    headers.setdefault("strict-transport-security", "max-age=31536000")
                if "server" in headers:
                    del headers["server"]
                # The path alone: a query may hold a key.
                logger.debug("%s %s %s", scope["method"], _plain(scope["path"]), message["status"])
            await send(message)

        return sending


def allowed_hosts(web: WebSettings) -> frozenset[str]:
    names = {*LOOPBACK, web.host, *web.hosts} - {"0.0.0.0", "::"}  # noqa: S104 - taken away
    plain = {f"[{name}]" if ":" in name and not name.startswith("[") else name for name in names}
    ports = {"", f":{web.port}"} | ({":80", ":443"} if web.behind_proxy else set())
    return frozenset(f"{name.lower()}{port}" for name in plain for port in ports)


def host_of(headers: Headers) -> str:
    given = headers.getlist("host")
    return given[0].strip().lower() if len(given) == 1 else ""


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def cookie_name(web: WebSettings) -> str:
    return f"__Host-{COOKIE}" if web.is_secure else f"{COOKIE}-{web.port}"


def set_session(answer: Response, site: Site, key: Key) -> None:
    """A new session, never one that was there before."""
    web, now = site.settings.web, site.clock()
    role = keys.Role(key.role)
    secret = keys.make(site.places, Kind.SESSION, key.by, role, now, keys.SESSION_S)
    answer.set_cookie(
        cookie_name(web),
        secret,
        max_age=int(keys.SESSION_S),
        path="/",
        secure=web.is_secure,
        httponly=True,
        samesite="strict",
    )


def end_session(answer: Response, web: WebSettings) -> None:
    answer.delete_cookie(
        cookie_name(web), path="/", secure=web.is_secure, httponly=True, samesite="strict"
    )


def no_login(has_tried: bool) -> Error:
    return Error(
        "That key is not known here." if has_tried else "You are not logged in.",
        why="Everything here needs a login: a link that works once, or a program's key.",
        fix="run `headrace token` in the project's folder and open the link that it prints",
        slug="no-login",
    )


def used_up() -> Error:
    return Error(
        "This link does not work any more.",
        why="A link works once, and for an hour.",
        fix="run `headrace token` in the project's folder and open the new link",
        slug="bad-login",
    )


def _clean(request: Request) -> str:
    """The same address without the key. The path alone: it cannot lead to another site."""
    path = "/" + request.url.path.lstrip("/")
    rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
    from urllib.parse import urlencode

    return f"{path}?{urlencode(rest)}" if rest else path


def _caller(request: Request) -> str:
    return request.client.host if request.client else "?"


def _cookie(headers: Mapping[str, str], name: str) -> str:
    """By a parser that odd cookies of others on this machine do not stop."""
    return cookie_parser(headers.get("cookie", "")).get(name, "")


def _length(headers: Headers) -> int:
    given = headers.get("content-length", "0")
    return int(given) if given.isdigit() else BODY_MAX + 1


def _plain(path: str) -> str:
    return path[:300].encode("unicode_escape").decode()


def _bounded(receive: Receive) -> Receive:
    """What says no length is counted as it comes."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > BODY_MAX:
            raise Error(f"More than {BODY_MAX // 1024} kB are not taken.", slug="too-large")
        return message

    return receiving
