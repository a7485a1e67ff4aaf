"""Authentication: every endpoint, every kind of request, every header."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from headrace import config
from headrace.errors import ConfigError
from headrace.model.web_settings import WebSettings
from headrace.state import api_keys
from headrace.state.api_keys import KeyKind, Role
from headrace.web import app, auth, main, pages, timeouts
from headrace.web import routes as web_routes
from headrace.web.routes import OPEN, ROUTES, Endpoint
from headrace.web.visit import Site
from web.conftest import HOST, Visitor, with_history

pytestmark = pytest.mark.thorough

CLOSED = [endpoint for endpoint in ROUTES if endpoint.path not in OPEN]


PROOF = auth.PROOF_HEADER


def proof_of(login: Any) -> dict[str, str]:
    """What the page's script sends with every request."""
    return {PROOF: login.headers["location"].partition("#proof=")[2]}


def filled(endpoint: Endpoint) -> str:
    """A path of this endpoint."""
    return re.sub(r"\{\w+(:path)?\}", "x", endpoint.path)


def test_without_a_key_every_endpoint_is_refused(visitor: Visitor) -> None:
    for endpoint in CLOSED:
        done = visitor.http.request(endpoint.method, filled(endpoint), json={})

        assert done.status_code == 401, endpoint
        assert set(done.json()) == {"error"}, endpoint
        assert "headrace token" in done.json()["error"]["fix"], endpoint


@pytest.mark.parametrize("path", ["/api", "/api/nothing", "/nothing", "/..%2f..%2fetc/passwd"])
def test_only_a_logged_in_user_learns_that_a_page_does_not_exist(
    visitor: Visitor, path: str
) -> None:
    assert visitor.http.get(path).status_code == 401

    visitor.log_in()

    assert visitor.get(path, 404)["error"]["slug"] == "no-such-page"


def test_the_open_endpoints_reveal_nothing(visitor: Visitor) -> None:
    assert frozenset({"/healthz", "/login", "/static/{file:path}"}) == OPEN
    assert visitor.get("/healthz") == {"ok": True}
    page = visitor.http.get("/login").text
    assert "<code>headrace token</code>" in page
    assert str(visitor.project.folder) not in page


def test_a_endpoint_without_a_declared_access_stops_the_start(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (
        replace(ROUTES[0], access="open"),
        replace(ROUTES[0], access="everybody"),
        replace(ROUTES[0], path="/api/new", method="POST"),
    ):
        monkeypatch.setattr(app, "ROUTES", (*ROUTES, wrong))
        with pytest.raises(AssertionError, match="access"):
            app.build(Site(config.load(visitor.project.folder)))


def test_every_route_of_the_app_is_an_endpoint(visitor: Visitor) -> None:
    built = app.build(Site(config.load(visitor.project.folder)))

    assert isinstance(built, auth.AuthMiddleware)
    routes = {(r.path, m) for r in built._app.routes for m in r.methods - {"HEAD"}}  # type: ignore[attr-defined]
    assert routes == {(endpoint.path, endpoint.method) for endpoint in web_routes.ROUTES}


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1.evil.test:8321", "127.0.0.1:9999", ""])
def test_an_unknown_host_name_is_refused(visitor: Visitor, host: str) -> None:
    """Before the login: with DNS rebinding a browser sends its cookie."""
    for endpoint in ROUTES:
        done = visitor.http.request(
            endpoint.method, filled(endpoint), headers={"host": host}, json={}
        )

        assert done.status_code == 400, endpoint
        assert done.json()["error"]["slug"] == "bad-host", endpoint


def test_more_host_names_can_be_allowed(visitor: Visitor) -> None:
    settings = config.load(visitor.project.folder)
    web = replace(settings.web, hosts=["metrics.example"])
    with TestClient(
        app.build(Site(replace(settings, web=web))), base_url="http://metrics.example:8321"
    ) as http:
        assert http.get("/healthz").status_code == 200
        assert http.get("/healthz", headers={"host": "other.example"}).status_code == 400


def test_a_link_works_once_and_leaves_the_url(visitor: Visitor) -> None:
    secret = visitor.key(KeyKind.LOGIN)

    done = visitor.http.get(f"/live?a=1&token={secret}", follow_redirects=False)

    assert done.status_code == 303
    assert done.headers["location"].partition("#")[0] == "/live?a=1"
    cookie = done.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age="))
    assert secret not in cookie
    visitor.http.cookies.clear()
    assert visitor.http.get(f"/?token={secret}").status_code == 401


def test_a_link_cannot_lead_to_another_site(visitor: Visitor) -> None:
    address = f"http://{HOST}//evil.test/?token={visitor.key(KeyKind.LOGIN)}"

    done = visitor.http.get(address, follow_redirects=False)

    assert done.status_code == 303
    assert done.headers["location"].partition("#")[0] == "/evil.test/"


def test_a_link_expires_after_an_hour(visitor: Visitor) -> None:
    secret = visitor.key(KeyKind.LOGIN, life_s=0.0)

    assert visitor.http.get(f"/?token={secret}").status_code == 401


@pytest.mark.parametrize("other", ['state={"a": 1}', "bare", "path=/x", 'q="half', "version=1"])
def test_malformed_cookies_of_other_servers_do_no_harm(visitor: Visitor, other: str) -> None:
    """Ports of a host share their cookies."""
    visitor.log_in()
    ours = "; ".join(f"{name}={value}" for name, value in visitor.http.cookies.items())
    visitor.http.cookies.clear()

    visitor.get("/api/audit", headers={"cookie": f"{other}; {ours}"})


def test_under_tls_the_cookie_is_for_this_host_alone(visitor: Visitor) -> None:
    settings = config.load(visitor.project.folder)
    web = replace(settings.web, behind_proxy=True, hosts=["m.example"])
    site = Site(replace(settings, web=web))
    with TestClient(app.build(site), base_url="https://m.example") as http:
        done = http.get(f"/?token={visitor.key(KeyKind.LOGIN)}", follow_redirects=False)

        assert done.headers["set-cookie"].startswith("__Host-headrace=")
        assert "Secure" in done.headers["set-cookie"]
        assert http.get("/api/audit", headers=proof_of(done)).status_code == 200
        assert "max-age" in http.get("/healthz").headers["strict-transport-security"]


def test_a_pasted_key_is_as_good_as_a_link(visitor: Visitor) -> None:
    answer = visitor.post("/login", {"token": visitor.key(KeyKind.LOGIN)})

    assert visitor.get("/api/audit", headers={PROOF: answer["proof"]}) == {"audit": []}


def test_wrong_keys_are_limited_and_never_lock_out_a_right_one(visitor: Visitor) -> None:
    """A page of another site can make a browser request any number of images."""
    paste = [visitor.http.post("/login", json={"token": "x" * 40}).status_code for _ in range(12)]
    images = [visitor.http.get(f"/?token={'x' * 40}").status_code for _ in range(12)]

    assert paste == [401] * 10 + [429] * 2
    assert images == [429] * 12
    visitor.log_in()
    visitor.post("/login", {"token": visitor.key(KeyKind.LOGIN)})


def test_a_cookie_alone_shows_no_data_and_changes_nothing(inside: Visitor) -> None:
    """Browsers send the cookie to every other server on this host."""
    mine = inside.http.headers.pop(PROOF)

    for endpoint in CLOSED:
        if endpoint.is_api or endpoint.method == "POST":
            for wrong in ({}, {PROOF: "x" * 43}, {PROOF: ""}):
                done = inside.http.request(
                    endpoint.method, filled(endpoint), json={}, headers=wrong
                )
                assert done.status_code == 401, endpoint
                assert "incomplete" in done.json()["error"]["what"], endpoint
    assert inside.http.get("/").status_code == 200
    inside.get("/api/audit", headers={PROOF: mine})


def test_a_download_may_have_the_second_key_in_its_url_and_a_change_may_not(
    inside: Visitor,
) -> None:
    mine = inside.http.headers.pop(PROOF)

    inside.get(f"/api/audit?proof={mine}")
    inside.post(f"/logout?proof={mine}", {}, 401)


def test_the_second_key_belongs_to_its_session(visitor: Visitor) -> None:
    visitor.log_in()
    first = visitor.http.headers[PROOF]
    visitor.http.cookies.clear()
    visitor.log_in()

    visitor.get("/api/audit", 401, headers={PROOF: first})


def test_logging_out_ends_all_sessions_of_that_person(visitor: Visitor) -> None:
    visitor.log_in()
    first, proof = dict(visitor.http.cookies), visitor.http.headers[PROOF]
    visitor.http.cookies.clear()
    visitor.log_in()

    visitor.post("/logout", {})

    visitor.http.cookies.clear()
    visitor.http.cookies.update(first)
    visitor.get("/api/audit", 401, headers={PROOF: proof})


def test_revoking_all_keys_ends_all_sessions_at_once(inside: Visitor) -> None:
    bearer = {"authorization": f"Bearer {inside.key(KeyKind.PROGRAM, life_s=None)}"}
    inside.get("/api/audit", headers=bearer)

    inside.project.headrace("token", "--revoke-all")

    inside.get("/api/audit", 401)
    inside.get("/api/audit", 401, headers=bearer)


def test_a_session_expires(visitor: Visitor) -> None:
    secret = visitor.key(KeyKind.SESSION, life_s=0.0)
    name = auth.cookie_name(config.load(visitor.project.folder).web)

    visitor.http.cookies.set(name, secret)

    visitor.get("/api/audit", 401)


def test_a_key_works_only_for_its_kind(visitor: Visitor) -> None:
    """A link's key is not a program's key, and neither is a session."""
    name = auth.cookie_name(config.load(visitor.project.folder).web)
    visitor.get(
        "/api/audit", 401, headers={"authorization": f"Bearer {visitor.key(KeyKind.LOGIN)}"}
    )
    visitor.http.cookies.set(name, visitor.key(KeyKind.PROGRAM))
    visitor.get("/api/audit", 401)
    assert visitor.http.get(f"/?token={visitor.key(KeyKind.SESSION)}").status_code == 401


def test_secrets_are_long_and_unique_and_never_stored(visitor: Visitor) -> None:
    made = {visitor.key(KeyKind.PROGRAM) for _ in range(5)}

    assert len(made) == 5
    assert all(len(secret) >= 43 for secret in made)  # 256 bits
    written = b"".join(
        p.read_bytes() for p in visitor.project.places.state.rglob("*") if p.is_file()
    )
    assert not any(secret.encode() in written for secret in made)
    assert all(p.stat().st_mode & 0o077 == 0 for p in visitor.project.places.keys.iterdir())


def test_no_key_is_in_the_log(visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="headrace")
    secret = visitor.key(KeyKind.LOGIN)
    visitor.http.get(f"/?token={secret}", follow_redirects=False)
    visitor.http.get("/api/audit", headers={"authorization": f"Bearer {secret}"})

    ours = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("headrace"))
    assert "GET /" in ours
    assert secret not in ours


# ---- changes: only from our own page, in JSON, by who may


CHANGES = [endpoint for endpoint in CLOSED if endpoint.method == "POST"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://[x"},
        {"origin": "http://]"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_another_sites_page_changes_nothing(inside: Visitor, headers: dict[str, str]) -> None:
    for endpoint in CHANGES:
        done = inside.http.post(filled(endpoint), json={}, headers=headers)

        assert done.status_code == 403, endpoint
        assert done.json()["error"]["slug"] == "foreign-origin", endpoint


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", ""],
)
def test_a_form_changes_nothing(inside: Visitor, kind: str) -> None:
    headers = {"content-type": kind} if kind else {}
    for endpoint in CHANGES:
        done = inside.http.post(filled(endpoint), content=b"a=1", headers=headers)

        assert done.status_code == 415, endpoint


def test_the_page_itself_may_change_things(inside: Visitor) -> None:
    headers = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}

    inside.post("/logout", {}, headers=headers)


def test_reading_changes_nothing(inside: Visitor) -> None:
    with_history(inside.project)
    inside.project.supervised()
    before = tree(inside.project.places.state)

    for endpoint in CLOSED:
        if endpoint.method == "GET" and endpoint.path not in ("/api/stream",):
            inside.http.get(filled(endpoint))
            inside.http.get(endpoint.path.replace("{pipeline}", "hello").replace("{run}", "x"))

    assert tree(inside.project.places.state) == before


def tree(folder: Path) -> dict[str, bytes]:
    skipped = ("-shm", "-wal")
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(skipped)]
    return {str(p): p.read_bytes() for p in files}


def test_a_key_with_the_role_view_may_not_act(visitor: Visitor) -> None:
    visitor.log_in(Role.VIEW)
    with_history(visitor.project)

    for what in ("start", "stop", "restart", "rollback"):
        answer = visitor.post(f"/api/pipelines/hello/{what}", {}, 403)
        assert answer["error"]["slug"] == "not-allowed"
    assert not list(visitor.project.places.requests.glob("*"))


# ---- limits and headers


def test_a_large_body_is_refused(inside: Visitor) -> None:
    inside.post("/api/sql", {"sql": "x" * (1024 * 1024)}, 413)

    def drip() -> object:
        for _ in range(40):
            yield b"x" * 50_000

    done = inside.http.post(
        "/api/sql",
        content=drip(),
        headers={"content-type": "application/json"},  # type: ignore[arg-type]
    )
    assert done.status_code == 413


ODD_TEXT = json.dumps({"version": "\ud800", "sql": "\ud800", "token": "\ud800"})


def asked(visitor: Visitor) -> Iterator[httpx2.Response]:
    """Responses of every endpoint: refused, invalid, successful, failed."""
    http, raw = visitor.http, {"content-type": "application/json"}
    for endpoint in (*ROUTES, Endpoint("/nothing", pages.healthz, "")):
        if endpoint.path == "/api/stream":
            continue  # it does not end; auth.py refuses it as any other endpoint
        path = filled(endpoint)
        for method in (endpoint.method, "HEAD", "POST", "OPTIONS", "TRACE", "DELETE", "ODD"):
            yield http.request(method, path)
            yield http.request(method, path, headers={"host": "evil.test"})
            yield http.request(method, path, headers={"accept": "text/html"})
        yield http.get(f"{path}?token=wrong")
        yield http.post(path, content=b"{", headers=raw)
        yield http.post(path, content=b"x", headers={**raw, "content-length": "99999999"})
        yield http.post(path, content=ODD_TEXT, headers=raw)
        yield http.post(path, json={}, headers={"origin": "http://[x"})


@pytest.mark.parametrize("role", [None, Role.VIEW, Role.OPERATE], ids=str)
def test_every_response_has_the_security_headers(visitor: Visitor, role: Role | None) -> None:
    if role is not None:
        visitor.log_in(role)
    seen = set()
    for done in asked(visitor):
        if role is not None and done.status_code == 401:
            visitor.log_in(role)  # /logout was among what was asked
        seen.add(done.status_code)
        assert done.status_code < 500 or done.status_code == 503, (done.request, done.text)
        if done.status_code == 405:
            assert done.headers["allow"], done.request
        policy = done.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert done.headers["x-content-type-options"] == "nosniff"
        assert done.headers["referrer-policy"] == "no-referrer"
        assert done.headers["cross-origin-opener-policy"] == "same-origin"
        assert done.headers["cross-origin-resource-policy"] == "same-origin"
        assert "camera=()" in done.headers["permissions-policy"]
        assert done.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in done.headers
        assert "server" not in done.headers
        is_static = done.request.url.path.startswith("/static/")
        assert is_static or done.headers["cache-control"] == "no-store"
    assert seen >= {200, 400, 403, 404, 405, 413, 415}
    assert role is not None or seen >= {401, 429}


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "PUT", "PATCH", "DELETE", "CONNECT", "ODD"])
def test_other_methods_are_refused(inside: Visitor, method: str) -> None:
    for endpoint in ROUTES:
        done = inside.http.request(method, filled(endpoint))

        assert done.status_code == 405, endpoint
        assert done.headers["allow"] == "GET, HEAD, POST"
    allowed = inside.http.post("/api/audit", json={}).headers["allow"]
    assert set(allowed.split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize("version", ["\ud800", "a\x00b", "../../keys"], ids=ascii)
def test_a_version_that_is_not_a_string_is_refused(inside: Visitor, version: str) -> None:
    with_history(inside.project)
    inside.project.supervised()
    headers = {"content-type": "application/json"}

    done = inside.http.post(
        "/api/pipelines/hello/rollback", content=json.dumps({"version": version}), headers=headers
    )

    assert done.status_code == 400, done.text


def test_a_body_that_does_not_arrive_is_a_timeout(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "BODY_S", 0.2)
    sent: list[Message] = []

    async def ask() -> None:
        first = [{"type": "http.request", "body": b'{"token', "more_body": True}]

        async def receive() -> Message:
            return first.pop() if first else await asyncio.Event().wait()  # type: ignore[return-value]

        async def send(message: Message) -> None:
            sent.append(message)

        headers = {"host": HOST, "content-type": "application/json", "content-length": "50"}
        scope = {
            "type": "http", "method": "POST", "path": "/login", "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }  # fmt: skip
        built = app.build(Site(config.load(visitor.project.folder)))
        await asyncio.wait_for(built(scope, receive, send), 60)

    asyncio.run(ask())

    start, body = sent
    answer = {name.decode(): value.decode() for name, value in start["headers"]}
    assert start["status"] == 408
    assert answer["connection"] == "close"
    assert "content-security-policy" in answer
    assert b"too-slow" in body["body"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/..%2f..%2fapp.py", "/static/%2e%2e/app.py",
        "/static//etc/passwd", "/static/app.css%00.js", "/static/nothing.js",
        "/static/%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_only_files_of_the_page_are_served(inside: Visitor, path: str) -> None:
    done = inside.http.get(path)

    assert done.status_code in (401, 404)
    assert b"root:" not in done.content
    assert b"import" not in done.content


@pytest.mark.parametrize(
    "name",
    ["../../etc", "..%2f..%2fetc%2fpasswd", "%2e%2e", "%2fetc%2fpasswd", "a%00b",
     "hello-20260101T000001-ab01%2f..%2f..%2fkeys", "-20260101T000001-ab01"],
)  # fmt: skip
def test_only_names_of_runs_are_looked_up(inside: Visitor, name: str) -> None:
    for part in ("", "/events", "/log", "/bundle"):
        assert inside.http.get(f"/api/runs/{name}{part}").status_code == 404


def test_a_symlink_out_of_the_runs_folder_is_not_followed(inside: Visitor, tmp_path: Path) -> None:
    run = with_history(inside.project)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "driver.log").write_text("a secret of another folder")
    for part in ("run.json", "exit.json"):
        source = inside.project.places.run(run) / part
        if source.exists():
            (outside / part).write_bytes(source.read_bytes())
    linked = inside.project.places.runs / "hello-20260101T000009-ab09"
    linked.symlink_to(outside)

    assert inside.http.get(f"/api/runs/{linked.name}/log").status_code == 404


def test_the_page_refuses_a_network_without_tls() -> None:
    with pytest.raises(ConfigError, match="without TLS") as answer:
        main.check(WebSettings(host="0.0.0.0"))  # noqa: S104 - this is what is refused

    assert answer.value.exit_code == 2
    main.check(WebSettings())
    main.check(WebSettings(host="0.0.0.0", behind_proxy=True))  # noqa: S104
    main.check(WebSettings(host="0.0.0.0", certificate="c.pem", key="k.pem"))  # noqa: S104


def test_an_unexpected_error_reveals_only_a_number(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **more: object) -> object:
        raise RuntimeError("/secret/path of line 7")

    monkeypatch.setattr("headrace.web.alert_views.project_alerts.find", broken)
    quiet = TestClient(inside.http.app, base_url=f"http://{HOST}", raise_server_exceptions=False)
    quiet.cookies.update(dict(inside.http.cookies))
    quiet.headers[PROOF] = inside.http.headers[PROOF]

    done = quiet.get("/api/alerts")

    assert done.status_code == 500
    assert "secret" not in done.text
    assert "Traceback" not in done.text
    number = re.search(r"error (\w+)\.", done.json()["error"]["why"])
    assert number is not None
    assert number[1] in caplog.text


def test_expired_keys_are_deleted(visitor: Visitor) -> None:
    for _ in range(3):
        visitor.key(KeyKind.LOGIN, life_s=0.0)
    visitor.key(KeyKind.PROGRAM, life_s=None)

    api_keys.prune(visitor.project.places, time.time() + 1)

    assert [key.kind for key in api_keys.list_keys(visitor.project.places)] == ["program"]
