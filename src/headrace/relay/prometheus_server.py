"""The HTTP server of `[metrics.prometheus]`: one page, `/metrics`.

Invariant: its work is bounded. There are at most CONNECTIONS_MAX connections, each is closed after
one reply or after REQUEST_S, and a client above that number gets 503 and is counted.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from headrace.errors import Error
from headrace.metrics.exporters import Address

PATH = "/metrics"
CONNECTIONS_MAX = 16
REQUEST_S = 10.0  # for a whole request and its reply
SILENT_S = 5.0  # between two packets
LINE_BYTES_MAX = 8 * 1024
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

logger = logging.getLogger(__name__)

Render = Callable[[str], tuple[bytes, str]]  # the Accept header -> page, content type


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read the page. `names`: host names that a request may use, besides IP addresses; a
    page in a browser could otherwise read it under a name of its own (DNS rebinding)."""

    names: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)

    def takes_host(self, host: str | None) -> bool:
        found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d{1,5})?", host or "")
        if found is None:
            return False
        name = (found[1] or found[2]).lower().rstrip(".")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return True

    def takes_token(self, authorization: str) -> bool:
        if self.token is None:
            return True
        kind, _, given = authorization.partition(" ")
        is_same = hmac.compare_digest(given.strip().encode(), self.token.encode())
        return kind.lower() == "bearer" and is_same


class PrometheusServer:
    """Listens until it is closed. OSError if the address is in use or is not of this machine."""

    def __init__(self, address: Address, access: Access, render: Render) -> None:
        self._server = _Server(address, access, render)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="prometheus", daemon=True
        )
        self._thread.start()

    def counts(self) -> tuple[int, int]:
        """Pages sent and requests refused since the last call."""
        return self._server.take_counts()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.close_connections(older_than_s=-1.0)
        self._thread.join(1.0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: Address, access: Access, render: Render) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.access = access
        self.render = render
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}  # since when
        self._counts = [0, 0]
        super().__init__((address.host, address.port), _Request)

    def server_bind(self) -> None:
        # HTTPServer also looks up the name of the machine, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= CONNECTIONS_MAX
            if is_full:
                self._counts[1] += 1
            else:
                self._open[request] = time.monotonic()
        if not is_full:
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_FULL)
        super().shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called by the server's loop."""
        self.close_connections(REQUEST_S)

    def close_connections(self, older_than_s: float) -> None:
        now = time.monotonic()
        with self._lock:
            late = [one for one, since in self._open.items() if now - since > older_than_s]
        for one in late:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # its thread then ends with an error

    def handle_error(self, request: Any, client_address: Any) -> None:
        exc = sys.exc_info()[1]
        if not isinstance(exc, OSError | ValueError):  # a client that hung up, or was too slow
            logger.error("a request for metrics failed", exc_info=exc)

    def count(self, *, is_sent: bool) -> None:
        with self._lock:
            self._counts[0 if is_sent else 1] += 1

    def take_counts(self) -> tuple[int, int]:
        with self._lock:
            sent, refused = self._counts
            self._counts = [0, 0]
        return sent, refused


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = SILENT_S
    protocol_version = "HTTP/1.1"
    default_request_version = protocol_version  # an invalid request line also gets a status
    server_version, sys_version = "headrace", ""

    def handle(self) -> None:
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(LINE_BYTES_MAX + 1)
        if len(self.raw_requestline) > LINE_BYTES_MAX:
            self.requestline, self.request_version, self.command = "", "", ""
            self._reply(414, b"The request line is too long.\n")
        elif self.raw_requestline and self.parse_request():
            self._answer()

    def _answer(self) -> None:
        access = self.server.access
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not access.takes_host(hosts[0]):
            self._reply(400, b"Unknown host name; add it to `hosts` in [metrics.prometheus].\n")
        elif self.command not in ("GET", "HEAD"):
            self._reply(405, b"Use GET.\n", {"Allow": "GET, HEAD"})
        elif self.path.partition("?")[0] != PATH:
            self._reply(404, b"Metrics are at /metrics.\n")
        elif not access.takes_token(self.headers.get("Authorization", "")):
            self._reply(401, b"A token is needed.\n", {"WWW-Authenticate": "Bearer"})
        else:
            self._send_page()

    def _send_page(self) -> None:
        try:
            page, content_type = self.server.render(self.headers.get("Accept", ""))
        except (Error, OSError) as exc:
            self.server.count(is_sent=False)
            self._reply(503, f"{exc}\n".encode())
            return
        self._reply(200, page, {"Content-Type": content_type})
        self.server.count(is_sent=True)

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        plain = {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
        fixed = {"Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**plain, **fixed, "X-Content-Type-Options": "nosniff"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: a page is read every few seconds."""
