"""Authentication: the checks that every request passes before the app sees it, in this order.

The host name (400), the method (405), the size of the body (413), the login (401), the content type
(415) and the origin (403) of a change. `app.py` then checks the role of the key (403). Pure ASGI
around the whole app, so that no route bypasses it. Invariants: every response has the security
headers, also those that uvicorn creates; only wrong keys are counted, so that they never lock out a
right one.
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
from headrace.model.web_settings import LOOPBACK, WebSettings
from headrace.state import api_keys
from headrace.state.api_keys import Key, KeyKind, Session
from headrace.web import error_responses, html, timeouts
from headrace.web.visit import Site

logger = logging.getLogger("headrace.web.access")

BODY_MAX = 1024 * 1024
OPEN_BODY_MAX = 4096  # of open endpoints: they take only a key
METHODS = ("GET", "HEAD", "POST")
COOKIE = "headrace"
PROOF = "proof"  # in the URL of streams and downloads, else in a header
PROOF_HEADER = "x-headrace-proof"
OPEN_PREFIXES = ("/static/",)
OPEN_PATHS = ("/healthz", "/login")
_SECURITY_HEADERS = {
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
    "cache-control": "no-store",
}


class AuthMiddleware:
    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self.site = site
        self._web = site.settings.web
        self._hosts = allowed_hosts(self._web)
        self._headers = security_headers(self._web)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no endpoint uses WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        response = _LoggedResponse(send, scope, self._headers)
        try:
            await self._answer(scope, receive, response.send)
        except Exception as exc:
            if response.has_started:
                raise  # too late for a response: the server closes the connection
            await error_responses.unexpected_error_response(exc)(scope, receive, response.send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = self._check_request(request)
        except Error as exc:
            answer = self._error_response(request, exc)
        if answer is not None:
            await answer(scope, receive, send)
            return
        most = OPEN_BODY_MAX if is_open(scope["path"]) else BODY_MAX
        await self._app(scope, _limit_body(timeouts.limit_body_time(receive), most), send)

    def _check_request(self, request: Request) -> Response | None:
        """None if the app may answer."""
        headers = request.headers
        if host_of(headers) not in self._hosts:
            raise ConfigError(
                "Unknown host name.",
                why="An unknown name in the Host header can indicate an attack (DNS rebinding).",
                fix='Add the name to headrace.toml: [web] hosts = ["metrics.example"]',
                slug="bad-host",
            )
        if request.method not in METHODS:
            raise error_responses.wrong_method()
        if _length(headers) > BODY_MAX:
            raise _too_large(BODY_MAX)
        if "token" in request.query_params and request.method == "GET":
            return self._log_in(request)
        who = None
        if not is_open(request.scope["path"]):
            who = self._authenticate(request)
            if recognise := request.scope.get("state", {}).get(timeouts.RECOGNISE):
                recognise(who.hash)
        if request.method == "POST":
            self._check_change(request, is_by_cookie=who is None or who.kind == KeyKind.SESSION)
        request.scope["headrace.who"] = who
        return None

    def _log_in(self, request: Request) -> Response:
        """Exchanges a link's one-time key for a cookie, and removes it from the URL."""
        session = log_in(self.site, request.query_params["token"])
        if session is None:
            if self._session(request) is not None:  # already logged in by the same link
                return RedirectResponse(_clean(request), 303)
            raise wrong_key(self.site, caller(request))
        # Browsers send the part after '#' to no server: only the page's script reads it.
        answer = RedirectResponse(f"{_clean(request)}#{PROOF}={session.proof}", 303)
        set_session(answer, self._web, session)
        return answer

    def _authenticate(self, request: Request) -> Key:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            key = self._find_key(secret.strip(), KeyKind.PROGRAM)
        else:
            key = self._session(request)
            if key is not None and _needs_proof(request) and not _is_proven(request, key):
                raise _no_login(
                    "This browser's login is incomplete.",
                    "The request has the cookie but not the second key. Browsers send a cookie to "
                    "every port of a host, so the cookie alone gives no access.",
                )
        if key is None:
            raise _no_login(
                "Unknown key." if scheme else "You are not logged in.",
                "To log in, open a one-time link or use an API key.",
            )
        return key

    def _session(self, request: Request) -> Key | None:
        # By a lenient parser: other servers on this host may set malformed cookies.
        cookies = cookie_parser(request.headers.get("cookie", ""))
        return self._find_key(cookies.get(cookie_name(self._web), ""), KeyKind.SESSION)

    def _find_key(self, secret: str, kind: KeyKind) -> Key | None:
        return api_keys.find(self.site.places, secret, kind, self.site.clock())

    def _check_change(self, request: Request, *, is_by_cookie: bool) -> None:
        """A browser also sends its cookie with requests from other sites' pages: refused."""
        headers = request.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ControlError(
                "The request body must be JSON.",
                why=f"The content type is {kind[:100] or 'missing'!r}.",
                fix="Send Content-Type: application/json.",
                slug="not-json",
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_ours = origin is None or _host_in(origin) in self._hosts
        if not is_ours or (is_by_cookie and site not in (None, "same-origin", "none")):
            raise ControlError(
                "The request comes from a page on another site.",
                why="Pages on other sites are not allowed to change anything here (CSRF).",
                fix="Use Headrace's own web page, or an API key (`headrace token --program`).",
                slug="foreign-origin",
            )

    def _error_response(self, request: Request, error: Error) -> Response:
        """JSON for programs; a page that explains the login for people."""
        wants_page = "text/html" in request.headers.get("accept", "")
        is_page = not request.scope["path"].startswith("/api") and request.method == "GET"
        if is_page and wants_page:
            return html.problem(error)
        extra = {"www-authenticate": "Bearer"} if error_responses.status_of(error) == 401 else None
        return error_responses.error_response(error, extra)


@dataclass
class _LoggedResponse:
    """Adds the security headers, and logs the request without secrets."""

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
            # Without the query string, which may contain a key.
            path = self.scope["path"][:300].encode("unicode_escape").decode()
            logger.debug("%s %s %s", self.scope["method"], path, message["status"])
        await self.to(message)


def security_headers(web: WebSettings) -> dict[str, str]:
    secure = {"strict-transport-security": "max-age=31536000"} if web.is_secure else {}
    return {**_SECURITY_HEADERS, **secure}


def allowed_hosts(web: WebSettings) -> frozenset[str]:
    names = {*LOOPBACK, web.host, *web.hosts} - {"0.0.0.0", "::"}  # noqa: S104 - excluded
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
    """A new session for the key in a link, which then cannot be used again."""
    now = site.clock()
    key = api_keys.spend(site.places, secret, now)
    return None if key is None else api_keys.make_session(site.places, key, now)


def set_session(answer: Response, web: WebSettings, session: Session) -> None:
    answer.set_cookie(
        cookie_name(web),
        session.cookie,
        max_age=int(api_keys.SESSION_S),
        path="/",
        secure=web.is_secure,
        httponly=True,
        samesite="strict",
    )


def end_session(answer: Response, web: WebSettings) -> None:
    answer.delete_cookie(
        cookie_name(web), path="/", secure=web.is_secure, httponly=True, samesite="strict"
    )


def _no_login(what: str, why: str) -> Error:
    return Error(
        what,
        why=why,
        fix="Run `headrace token` in the project folder and open the link it prints.",
        slug="no-login",
    )


def wrong_key(site: Site, caller: str) -> Error:
    """Wrong keys are counted; too many of them raise an error of their own."""
    assert site.feed is not None  # noqa: S101 - set by app.build
    site.feed.wrong_key_limit.check(caller, "wrong keys")
    return Error(
        "This link is no longer valid.",
        why="A link works only once and expires after an hour.",
        fix="Run `headrace token` in the project folder and open the new link.",
        slug="bad-login",
    )


def _clean(request: Request) -> str:
    """The same URL without the key; a path only, so that it cannot lead to another site."""
    path = "/" + request.scope["path"].lstrip("/")
    rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
    return f"{path}?{urlencode(rest)}" if rest else path


def _needs_proof(request: Request) -> bool:
    """Pages contain no data, and a browser that opens one sends only its cookie."""
    return request.method == "POST" or request.scope["path"].startswith("/api")


def _is_proven(request: Request, key: Key) -> bool:
    given = request.headers.get(PROOF_HEADER)
    if given is None and request.method != "POST":  # streams and downloads cannot set headers
        given = request.query_params.get(PROOF)
    return api_keys.is_proven(key, given or "")


def _host_in(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as http://[x
        return ""


def caller(request: Request) -> str:
    return request.client.host if request.client else "?"


def _length(headers: Headers) -> int:
    given = headers.get("content-length", "0")
    return int(given) if given.isdecimal() else BODY_MAX + 1


def _too_large(most: int) -> Error:
    return Error(f"The request body is larger than {most // 1024} kB.", slug="too-large")


def _limit_body(receive: Receive, most: int) -> Receive:
    """Counts a body without Content-Length as it arrives."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise _too_large(most)
        return message

    return receive_limited
