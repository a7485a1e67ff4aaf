"""A receiver of notices on this machine, to see what a channel sends.

`headrace alerts listen` prints them; tests script its replies. It answers as the services do:
PagerDuty with 202 and the dedup key, Slack with "ok".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BODY_BYTES_MAX = 1024 * 1024
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: Mapping[str, str]  # names in lower case
    content: bytes
    method: str = "POST"

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    content: bytes = b"ok"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, body: Any, status: int = 200) -> Reply:
        return cls(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def reply_as_service(received: Received) -> Reply:
    """What the real service would answer. Pure."""
    if not received.content:  # a ping
        return Reply()
    try:
        body = received.json()
    except ValueError:
        return Reply(400, b"invalid JSON")
    if isinstance(body, dict) and "event_action" in body:
        return Reply.of_json({"status": "success", "dedup_key": body.get("dedup_key")}, 202)
    return Reply()


class Receiver:
    """Listens on loopback while it is open; `port` 0 means any free port."""

    def __init__(
        self, answer: Callable[[Received], Reply] = reply_as_service, port: int = 0
    ) -> None:
        self._server = _Server(("127.0.0.1", port), _Request)
        self._server.answer = answer
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answer: Callable[[Received], Reply]


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = TIMEOUT_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(0)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        size = int(length) if length.isdigit() else BODY_BYTES_MAX + 1
        if size > BODY_BYTES_MAX:
            self.send_error(413)
            return
        self._answer(size)

    def _answer(self, size: int) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        content = self.rfile.read(size)
        reply = self.server.answer(Received(self.path, headers, content, str(self.command)))
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.content)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the caller prints what it wants."""
