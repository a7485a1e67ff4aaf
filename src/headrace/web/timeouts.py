"""Timeouts for receiving a request, and the limit on connections: a client that sends nothing, or
one byte at a time, must not hold a connection forever, nor keep others out.

uvicorn itself only limits the time between two requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import h11
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.errors import Error
from headrace.web.connections import Connection, Connections

HEAD_S = 20.0
BODY_S = 20.0
RECOGNISE = "headrace.recognise"  # in the state of a request: called with the key of its user


class TimedConnection(H11Protocol):
    """Closed if the head of a request does not arrive within HEAD_S. See `connection_class`."""

    _connections: Connections
    _headers: Mapping[str, str]  # of every response, also of those that uvicorn creates
    _own: Connection
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        address = self.client[0] if self.client else "?"
        self._own = Connection(address, close=self._abort, is_busy=self._is_answering)
        self.app_state = {**self.app_state, RECOGNISE: self._recognise}
        self._wait_for_head()
        self._connections.add(self._own)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        before = self.cycle
        self._wait_for_head()
        super().on_response_complete()
        if self.cycle is not before:  # the next request had already arrived
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._connections.remove(self._own)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Bytes that are not HTTP never reach the app."""
        headers = {**self._headers, "content-type": "text/plain; charset=utf-8"}
        start = h11.Response(
            status_code=400,
            headers=[*headers.items(), ("connection", "close")],
            reason=b"Bad Request",
        )
        for event in (start, h11.Data(data=msg.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _recognise(self, key: str) -> None:
        self._connections.recognise(self._own, key)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(HEAD_S, self._abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _abort(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def connection_class(connections: Connections, headers: Mapping[str, str]) -> type[TimedConnection]:
    """uvicorn creates the connections itself, so it gets a class."""
    attributes = {"_connections": connections, "_headers": headers}
    return type("BoundTimedConnection", (TimedConnection,), attributes)


def limit_body_time(receive: Receive) -> Receive:
    """The whole body must arrive within BODY_S."""
    is_complete = False
    deadline: float | None = None

    async def receive_in_time() -> Message:
        nonlocal is_complete, deadline
        if is_complete:
            return await receive()  # waiting for the client to disconnect has no limit
        now = asyncio.get_running_loop().time()
        deadline = deadline or now + BODY_S
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as exc:
            is_complete = True
            raise Error(
                f"The request body did not arrive within {BODY_S:g} s.",
                fix="Send the request again.",
                slug="too-slow",
            ) from exc
        is_complete = not message.get("more_body", False)
        return message

    return receive_in_time
