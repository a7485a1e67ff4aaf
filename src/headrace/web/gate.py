"""Who comes in: the checks that every request passes, in this order, before anything is looked up.

The name it was called by (400), the method (405), the size of what it brings (413), the login
(401), where a change was asked from (403) and in which form (415), and what its key may do (403).
Pure ASGI, around the whole app: no route can be reached beside it. Invariants: headers of
protection are on all responses; only what was wrong counts against who tries, so nobody's wrong
keys keep a right one out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import ConfigError, ControlError, Error
from headrace.model.web import LOOPBACK, WebSettings
from headrace.state import keys
from headrace.state.keys import Key, Kind, Session
from headrace.web import patience, problems, protection, showing
from headrace.web.site import Site

logger = logging.getLogger("headrace.web.access")

BODY_MAX = 1024 * 1024
OPEN_BODY_MAX = 4096  # where no key is needed, there is only a key to send
METHODS = ("GET", "HEAD", "POST")
COOKIE = "headrace"
PROOF = "proof"  # in the address of what a browser loads by itself; else it is a header
PROOF_HEADER = "x-headrace-proof"
OPEN_PREFIXES = ("/static/",)
OPEN_PATHS = ("/healthz", "/login")


class Gate:
    """Around the app. The app is only reached through it."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self.site = site
        self._web = site.settings.web
        self._hosts = allowed_hosts(self._web)
        self._headers = protection.headers(self._web)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no door speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _Guarded(send, scope, self._headers)
        try:
            await self._answer(scope, receive, guarded.send)
        except Exception as exc:
            if guarded.has_started:
                raise  # too late for an answer: the server closes the connection
            await problems.unexpected(exc)(scope, receive, guarded.send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = self._refused(request)
        except Error as exc:
            answer = self._told(request, exc)
        if answer is not None:
            await answer(scope, receive, send)
            return
        most = OPEN_BODY_MAX if is_open(scope["path"]) else BODY_MAX
        await self._app(scope, _bounded(patience.in_time(receive), most), send)

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
        if request.method not in METHODS:
            raise problems.wrong_method()
        if _length(headers) > BODY_MAX:
            raise _too_large(BODY_MAX)
        if self._is_with_token(request):
            return self._spent(request)
        who = None
        if not is_open(request.scope["path"]):
            who = self._known(request)
            if recognise := request.scope.get("state", {}).get(patience.RECOGNISE):
                recognise(who.hash)
        if request.method == "POST":
            self._check_change(request, is_by_cookie=who is None or who.kind == Kind.SESSION)
        request.scope["headrace.who"] = who
        return None

    def _is_with_token(self, request: Request) -> bool:
        return "token" in request.query_params and request.method == "GET"

    def _spent(self, request: Request) -> Response:
        """A link's one-time key becomes a cookie, and leaves the address."""
        session = log_in(self.site, request.query_params["token"])
        if session is None:
            if self._session(request) is not None:  # a link opened twice by who is in already
                return RedirectResponse(_clean(request), 303)
            raise wrong_key(self.site, caller(request))
        # Behind the '#' it reaches no server, only the script of this very address.
        answer = RedirectResponse(f"{_clean(request)}#{PROOF}={session.proof}", 303)
        set_session(answer, self._web, session)
        return answer

    def _known(self, request: Request) -> Key:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            found = keys.find(self.site.places, secret.strip(), Kind.PROGRAM, self.site.clock())
        else:
            found = self._session(request)
            if found is not None and _needs_proof(request) and not _is_proven(request, found):
                raise half_login()
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
        is_ours = origin is None or _host_in(origin) in self._hosts
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
        is_page = not request.scope["path"].startswith("/api") and request.method == "GET"
        if is_page and wants_page:
            return showing.problem(error, problems.status_of(error))
        extra = {"www-authenticate": "Bearer"} if problems.status_of(error) == 401 else None
        return problems.told(error, extra)


@dataclass
class _Guarded:
    """Sends with our headers on it, and writes one line into the log without any secret."""

    to: Send
    scope: Scope
    headers: Mapping[str, str]
    has_started: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                headers.setdefault(name, value)
            if "server" in headers:
                del headers["server"]
            # The path alone: a query may hold a key.
            path = _plain(self.scope["path"])
            logger.debug("%s %s %s", self.scope["method"], path, message["status"])
        await self.to(message)


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


def log_in(site: Site, secret: str) -> Session | None:
    """A new session, never one that was there before, for a link's key that is used up by it."""
    now = site.clock()
    key = keys.spend(site.places, secret, now)
    return None if key is None else keys.make_session(site.places, key, now)


def set_session(answer: Response, web: WebSettings, session: Session) -> None:
    answer.set_cookie(
        cookie_name(web),
        session.cookie,
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


def wrong_key(site: Site, caller: str) -> Error:
    """Counted, while a right one never is. Too many of them are told so."""
    assert site.watch is not None  # noqa: S101 - the app has one
    site.watch.wrong_keys.check(caller, "a wrong key tried")
    return Error(
        "This link does not work any more.",
        why="A link works once, and for an hour.",
        fix="run `headrace token` in the project's folder and open the new link",
        slug="bad-login",
    )


def half_login() -> Error:
    return Error(
        "This browser's login is not complete.",
        why="Its cookie came without the second key. A cookie reaches every port of a machine, so "
        "it shows no data by itself; the second key is kept for this address only.",
        fix="run `headrace token` in the project's folder and open the link that it prints",
        slug="no-login",
    )


def _clean(request: Request) -> str:
    """The same address without the key. The path alone: it cannot lead to another site."""
    path = "/" + request.scope["path"].lstrip("/")
    rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
    return f"{path}?{urlencode(rest)}" if rest else path


def _needs_proof(request: Request) -> bool:
    """Pages hold no data: a browser that opens one brings its cookie and nothing else."""
    return request.method == "POST" or request.scope["path"].startswith("/api")


def _is_proven(request: Request, key: Key) -> bool:
    given = request.headers.get(PROOF_HEADER)
    if given is None and request.method != "POST":  # a stream or a download has no headers of ours
        given = request.query_params.get(PROOF)
    return keys.is_proven(key, given or "")


def _host_in(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as http://[x
        return ""


def caller(request: Request) -> str:
    return request.client.host if request.client else "?"


def _cookie(headers: Mapping[str, str], name: str) -> str:
    """By a parser that odd cookies of others on this machine do not stop."""
    return cookie_parser(headers.get("cookie", "")).get(name, "")


def _length(headers: Headers) -> int:
    given = headers.get("content-length", "0")
    return int(given) if given.isdecimal() else BODY_MAX + 1


def _too_large(most: int) -> Error:
    return Error(f"More than {most // 1024} kB are not taken.", slug="too-large")


def _plain(path: str) -> str:
    return path[:300].encode("unicode_escape").decode()


def _bounded(receive: Receive, most: int) -> Receive:
    """What says no length is counted as it comes."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large(most)
        return message

    return receiving
