"""The page for Prometheus: who gets it, and what slow, many or wrong clients cost. Real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.metrics.exporters import Address
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay import prometheus_server
from headrace.relay.metric_facts import MetricSource
from headrace.relay.prometheus_export import PrometheusExport
from headrace.relay.prometheus_server import Access, PrometheusServer
from headrace.state import progress_exports
from metrics import pages

Serve = Callable[..., PrometheusServer]
WAIT_S = 60.0


@pytest.fixture
def serve() -> Iterator[Serve]:
    opened = []

    def open_(
        access: Access | None = None, render: Callable[[str], tuple[bytes, str]] | None = None
    ) -> PrometheusServer:
        found = PrometheusServer(
            Address("127.0.0.1", pages.free_port()),
            access or Access(frozenset({"localhost"})),
            render or (lambda accept: (b"page 1\n", "text/plain")),
        )
        opened.append(found)
        return found

    yield open_
    for one in opened:
        one.close()


def connect(server: PrometheusServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)


def ask(server: PrometheusServer, request: str) -> tuple[int, str]:
    with connect(server) as conn:
        conn.sendall(request.encode())
        reply = b""
        while part := conn.recv(65_536):
            reply += part
    head, _, body = reply.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body if body else head


def get(
    server: PrometheusServer, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[int, str]:
    given = {"Host": f"127.0.0.1:{server.port}", **headers}
    lines = [f"{name}: {value}" for name, value in given.items() if value]
    return ask(server, "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]))


def test_the_page_is_sent_and_counted(serve: Serve) -> None:
    server = serve()

    assert get(server) == (200, "page 1\n")
    assert get(server, "/metrics?collect=all") == (200, "page 1\n")
    code, head = get(server, method="HEAD")
    assert (code, "Content-Length: 7" in head) == (200, True)
    deadline = time.monotonic() + WAIT_S
    sent = 0
    while sent < 3:  # counted after the reply
        sent += server.counts()[0]
        assert time.monotonic() < deadline


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "x"])
def test_other_methods_are_refused(serve: Serve, method: str) -> None:
    assert get(serve(), method=method)[0] == 405


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        ("GET /metrics/../x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        ("GET /metrics HTTP/1.1\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        ("GET /metrics HTTP/2.0\r\n\r\n", 505),
        (f"GET /{'x' * 9000} HTTP/1.1\r\n\r\n", 414),
        ("GET /metrics HTTP/1.1\r\n" + "A: b\r\n" * 200 + "\r\n", 431),
    ],
)
def test_wrong_requests_get_a_reply(serve: Serve, request_: str, code: int) -> None:
    server = serve()

    assert ask(server, request_)[0] == code
    assert get(server)[0] == 200


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:9464", 200), ("LOCALHOST", 200), ("[::1]:9464", 200), ("10.0.0.7:9464", 200),
        ("evil.example", 400), ("localhost.evil.example", 400), ("a b", 400), ("::1", 400),
    ],
)  # fmt: skip
def test_a_name_that_a_page_in_a_browser_could_choose_is_refused(
    serve: Serve, host: str, code: int
) -> None:
    assert get(serve(), Host=host)[0] == code


def test_a_token_is_needed_if_one_is_set(serve: Serve) -> None:
    server = serve(Access(frozenset(), "s3cret"))

    assert get(server)[0] == 401
    assert get(server, Authorization="Bearer wrong")[0] == 401
    assert get(server, Authorization="Basic s3cret")[0] == 401
    assert get(server, Authorization="Bearer s3cret")[0] == 200


def test_a_failure_is_shown_as_unavailable(serve: Serve) -> None:
    def fail(accept: str) -> tuple[bytes, str]:
        raise StoreError("history.db is damaged.")

    code, body = get(serve(render=fail))

    assert (code, "damaged" in body) == (503, True)


def test_many_slow_clients_cost_their_places_for_a_short_time_only(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus_server, "REQUEST_S", 1.0)
    server = serve()
    slow = [connect(server) for _ in range(prometheus_server.CONNECTIONS_MAX)]
    for one in slow:
        one.sendall(b"GET /met")
    over = threading.Event()

    def drip() -> None:  # a byte now and then: no single wait is too long
        while not over.wait(0.1):
            for one in slow:
                with contextlib.suppress(OSError):
                    one.sendall(b"x")

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    refused = 0
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            code = get(server)[0]
        except (OSError, IndexError):
            code = 503  # reset while it was refused
        refused += code == 503
        if code == 200:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    over.set()
    thread.join(WAIT_S)
    for one in slow:
        one.close()

    assert refused >= 1
    assert server.counts()[1] >= 1


# ---- the duty


def project(folder: Path, port: int, more: str = "") -> Workspace:
    (folder / "headrace.toml").write_text(
        f'[project]\nname = "shop"\n[metrics.prometheus]\nlisten = "127.0.0.1:{port}"\n{more}'
    )
    return open_workspace(folder, "dev")


@pytest.fixture
def export() -> Iterator[PrometheusExport]:
    found = PrometheusExport(MetricSource())
    yield found
    found.close()


def test_a_port_in_use_is_reported_and_tried_again(
    tmp_path: Path, export: PrometheusExport
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        work = project(tmp_path, port)
        (problem,) = export.tick(work)
        (again,) = export.tick(work)
    assert "in use by another program" in problem
    assert again == problem
    recorded = progress_exports.read(work.places, "prometheus")
    assert recorded
    assert "in use" in str(recorded.words(time.time()))

    assert export.tick(work) == []
    page = pages.read(port)
    assert pages.value(page, "headrace_exporter_up", exporter="prometheus") == 1
    assert pages.value(page, "headrace_build_info", project="shop", profile="dev",
                       version=_version()) == 1  # fmt: skip


def test_a_change_of_the_settings_takes_effect_and_a_mistake_does_not(
    tmp_path: Path, export: PrometheusExport
) -> None:
    first, second = pages.free_port(), pages.free_port()
    export.tick(project(tmp_path, first))
    pages.read(first)

    (problem,) = export.tick(project(tmp_path, second, "lisen = 1\n"))
    assert "no field 'lisen'" in problem
    pages.read(first)

    assert export.tick(project(tmp_path, second)) == []
    pages.read(second)
    with pytest.raises(OSError, match="refused"):
        pages.read(first)

    (tmp_path / "headrace.toml").write_text("")
    assert export.tick(open_workspace(tmp_path, "dev")) == []
    with pytest.raises(OSError, match="refused"):
        pages.read(second)


def test_pages_are_counted_for_the_next_page(tmp_path: Path, export: PrometheusExport) -> None:
    port = pages.free_port()
    work = project(tmp_path, port)
    export.tick(work)
    pages.read(port)
    deadline = time.monotonic() + WAIT_S
    while True:
        export.tick(work)
        found = progress_exports.read(work.places, "prometheus")
        if found and found.sent == 1:
            break
        assert time.monotonic() < deadline


def test_a_secret_is_in_no_message(
    tmp_path: Path, export: PrometheusExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = project(tmp_path, pages.free_port(), 'token = "${env:METRICS_TOKEN}"\n')
    (problem,) = export.tick(work)
    assert "METRICS_TOKEN is not set" in problem

    monkeypatch.setenv("METRICS_TOKEN", "hunter2hunter2")
    assert export.tick(work) == []
    with pytest.raises(OSError, match="401"):
        pages.read(int(work.settings.metrics["prometheus"]["listen"].split(":")[1]))
    texts = [path.read_text() for path in work.places.exports.glob("*")]
    assert not [text for text in texts if "hunter2" in text]


def _version() -> str:
    from headrace import __version__

    return __version__
