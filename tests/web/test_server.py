"""The web process over plain sockets: many connections, invalid bytes, revoked keys."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest

from cli.stage import Project
from headrace.errors import Error
from headrace.state import api_keys
from headrace.state.api_keys import Key, KeyKind, Role
from headrace.web import connections, rate_limit
from headrace.web.app import ThreadPool
from web.serving import served

pytestmark = pytest.mark.e2e

CROWD = 220  # more than a server that counted all together would take


@dataclass(frozen=True)
class Server:
    project: Project
    url: str

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def key(self, kind: KeyKind = KeyKind.PROGRAM, role: Role = Role.OPERATE) -> str:
        return api_keys.make(self.project.places, kind, "tester", role, time.time(), 600)

    def connect(self, said: bytes = b"") -> socket.socket:
        address, port = self.host.split(":")
        made = socket.create_connection((address, int(port)), 60)
        made.sendall(said)
        return made

    def request(self, path: str, key: str = "", more: str = "") -> bytes:
        head = f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n{more}"
        return f"{head}Authorization: Bearer {key}\r\n\r\n".encode()

    def check_answers(self) -> None:
        """The health check, a program, and the owner's link."""
        assert httpx2.get(f"{self.url}/healthz", timeout=60).json() == {"ok": True}
        bearer = {"authorization": f"Bearer {self.key()}"}
        assert httpx2.get(f"{self.url}/api/audit", headers=bearer, timeout=60).status_code == 200
        with httpx2.Client(base_url=self.url, timeout=60) as owner:
            login = owner.get(f"/?token={self.key(KeyKind.LOGIN)}")
            assert login.status_code == 303
            proof = login.headers["location"].partition("#proof=")[2]
            headers = {"x-headrace-proof": proof}
            assert owner.get("/api/audit", headers=headers).status_code == 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server") / "project"
    folder.mkdir()
    project = Project(folder)
    project.places.state.mkdir()
    project.deployed()
    with served(project) as url:
        yield Server(project, url)


def first_line(connection: socket.socket) -> bytes:
    """Up to the end of the head."""
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(4096)
        assert part, f"closed after {got!r}"
        got += part
    return got.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST /login HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
        b"Content-Length: 50\r\n\r\n{",
        b"GET /static/plotly.min.js HTTP/1.1\r\nHost: {}\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "an answer that is not read"],
)
def test_many_anonymous_connections_keep_nobody_out(server: Server, said: bytes) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(CROWD):
            held.enter_context(server.connect(said.replace(b"{}", server.host.encode())))

        server.check_answers()


def test_the_streams_of_one_key_keep_nobody_else_out(server: Server) -> None:
    greedy, other = server.key(), server.key(role=Role.VIEW)
    with contextlib.ExitStack() as held:
        lines = []
        for _ in range(CROWD):
            stream = held.enter_context(server.connect(server.request("/api/stream", greedy)))
            with contextlib.suppress(ConnectionError):
                lines.append(first_line(stream))

        assert lines.count(b"HTTP/1.1 200 OK") == rate_limit.STREAMS_PER_KEY
        assert b"HTTP/1.1 429 Too Many Requests" in lines
        server.check_answers()
        stream = held.enter_context(server.connect(server.request("/api/stream", other)))
        assert first_line(stream) == b"HTTP/1.1 200 OK"
    eventually_free(server, greedy)


def eventually_free(server: Server, key: str) -> None:
    """A stream whose reader has disconnected is no longer counted."""
    deadline = time.monotonic() + 60
    while True:
        with server.connect(server.request("/api/stream", key)) as stream:
            if first_line(stream) == b"HTTP/1.1 200 OK":
                return
        assert time.monotonic() < deadline, "the places of streams that ended stay taken"
        time.sleep(0.2)


def test_a_stream_ends_when_its_key_is_revoked(server: Server) -> None:
    with server.connect(server.request("/api/stream", server.key())) as stream:
        assert first_line(stream) == b"HTTP/1.1 200 OK"

        server.project.headrace("token", "--revoke-all")

        deadline, got = time.monotonic() + 60, b""
        while not got.endswith(b"0\r\n\r\n"):  # the last chunk
            assert time.monotonic() < deadline, f"it goes on: {got!r}"
            got += stream.recv(4096)


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {}\r\nHost: {}\r\n\r\n",
        b"GET x[ HTTP/1.1\r\nHost: {}\r\n\r\n",
        b"GET //[x HTTP/1.1\r\nHost: {}\r\n\r\n",
        b"GET /%ff%00?a=%ff&token=%ed%a0%80 HTTP/1.1\r\nHost: {}\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {}\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {}\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /api/audit HTTP/1.1\r\nHost: {}\r\nCookie: \xff=\xfe; =; ;;\r\n\r\n",
        b"GET /api/audit HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer \xff\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: {}\r\nOrigin: http://[x\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"TRACE / HTTP/1.1\r\nHost: {}\r\n\r\n",
        b"CONNECT evil.test:443 HTTP/1.1\r\nHost: {}\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=lambda said: str(said[:40]),
)
def test_invalid_bytes_get_a_response_with_security_headers(server: Server, said: bytes) -> None:
    with server.connect(said.replace(b"{}", server.host.encode())) as made:
        got = made.recv(65536)
        head = got.partition(b"\r\n\r\n")[0].decode("latin-1").lower()

    assert re.match(r"http/1.1 4\d\d ", head), head
    for name in ("content-security-policy", "x-content-type-options", "referrer-policy",
                 "x-frame-options", "cache-control: no-store"):  # fmt: skip
        assert name in head, (name, head)


# ---- which connection goes


def crowd(*owners: tuple[str, str | None, bool]) -> list[connections.Connection]:
    """Of (address, key, is busy), the oldest first."""
    return [
        connections.Connection(address, lambda: None, lambda busy=busy: busy, key)  # type: ignore[misc]
        for address, key, busy in owners
    ]


def test_anonymous_connections_of_one_address_only_displace_each_other() -> None:
    many = connections.ANONYMOUS_PER_ADDRESS
    open_ = crowd(("other", None, False), *[("a", None, False)] * (many + 1), ("a", "k", False))

    assert connections.surplus(open_, open_[-2]) is open_[1]
    assert connections.surplus(open_[:many], open_[many - 1]) is None
    assert connections.surplus(open_, open_[-2], proxies=["a"]) is None


def test_an_idle_connection_is_closed_before_a_busy_one() -> None:
    busy = [("a", "k", True)] * 5
    idle = [("a", "k", False)] * connections.PER_KEY
    open_ = crowd(*busy, *idle)

    assert connections.surplus(open_, open_[-1]) is open_[5]
    all_busy = crowd(*[("a", "k", True)] * (connections.PER_KEY + 1))
    assert connections.surplus(all_busy, all_busy[-1]) is all_busy[0]


def test_the_address_with_the_most_connections_loses_one() -> None:
    single = [(f"address-{n}", None, False) for n in range(connections.ANONYMOUS - 9)]
    open_ = crowd(*[("greedy", None, False)] * 10, *single)

    assert connections.surplus(open_, open_[-1]) is open_[0]


def test_anonymous_connections_never_displace_one_with_a_key() -> None:
    open_ = connections.Connections()
    closed: list[str] = []
    known = connections.Connection("a", lambda: closed.append("known"), lambda: False)
    open_.add(known)
    open_.recognise(known, "k")

    for _ in range(1000):
        open_.add(connections.Connection("a", lambda: closed.append("anonymous"), lambda: False))

    assert set(closed) == {"anonymous"}
    assert len(closed) == 1000 - connections.ANONYMOUS_PER_ADDRESS


def key_of(hash_: str, role: Role) -> Key:
    return Key(hash_, KeyKind.PROGRAM, "tester", role, 0.0)


def test_streams_are_reserved_for_keys_that_may_operate() -> None:
    streams = rate_limit.Streams()
    for number in range(rate_limit.STREAMS - rate_limit.STREAMS_RESERVED):
        streams.enter(key_of(f"view-{number}", Role.VIEW))

    with pytest.raises(Error, match="Too many open event streams"):
        streams.enter(key_of("one more", Role.VIEW))
    streams.enter(key_of("owner", Role.OPERATE))
    streams.leave(key_of("owner", Role.OPERATE))
    streams.leave(key_of("view-0", Role.VIEW))
    streams.enter(key_of("view-0", Role.VIEW))


def test_slow_requests_of_others_do_not_delay_a_key() -> None:
    """All threads of viewers and anonymous requests, and all of one key, are busy."""
    release = threading.Event()
    names = [None, *(key_of(f"view-{n}", Role.VIEW) for n in range(20))]
    names += [key_of("greedy", Role.OPERATE)]

    async def ask() -> str:
        turns = ThreadPool()
        slow = [
            asyncio.create_task(turns.run(who, lambda: release.wait(60)))
            for who in names
            for _ in range(10)
        ]
        await asyncio.sleep(0)
        try:
            owner = key_of("owner", Role.OPERATE)
            return await asyncio.wait_for(turns.run(owner, lambda: "answered"), 30)
        finally:
            release.set()
            await asyncio.gather(*slow)

    assert asyncio.run(ask()) == "answered"
