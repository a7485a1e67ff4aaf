"""How long a connection may take to say what it wants, and how many there may be: somebody who says
nothing, or says it byte by byte, must not hold a place for ever, nor keep others out.

uvicorn itself only limits how long a connection is kept between two requests.
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
RECOGNISE = "headrace.recognise"  # in a request's state: says whose key its connection has brought


class Patient(H11Protocol):
    """A connection whose request has not come within HEAD_S is closed. Made by `patient`."""

    _room: Connections
    _always: Mapping[str, str]  # headers of every response, also of those that uvicorn makes
    _me: Connection
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        address = self.client[0] if self.client else "?"
        self._me = Connection(address, close=self._give_up, is_busy=self._is_answering)
        self.app_state = {**self.app_state, RECOGNISE: self._recognise}
        self._wait_for_head()
        self._room.add(self._me)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        before = self.cycle
        self._wait_for_head()
        super().on_response_complete()
        if self.cycle is not before:  # the next request was there already
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._room.remove(self._me)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP never reaches the app."""
        headers = {**self._always, "content-type": "text/plain; charset=utf-8"}
        start = h11.Response(
            status_code=400,
            headers=[*headers.items(), ("connection", "close")],
            reason=b"Bad Request",
        )
        for event in (start, h11.Data(data=msg.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _recognise(self, key: str) -> None:
        self._room.recognise(self._me, key)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def patient(room: Connections, always: Mapping[str, str]) -> type[Patient]:
    """uvicorn makes one for each connection itself, so it is given a class."""
    return type("Patient", (Patient,), {"_room": room, "_always": always})


def in_time(receive: Receive) -> Receive:
    """The same, but a body has to be whole within BODY_S."""
    is_whole = False
    deadline: float | None = None

    async def receiving() -> Message:
        nonlocal is_whole, deadline
        if is_whole:
            return await receive()  # waiting for the other side to go may take as long as it takes
        now = asyncio.get_running_loop().time()
        deadline = deadline or now + BODY_S
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as exc:
            is_whole = True
            raise Error(
                f"The body did not arrive within {BODY_S:g} s.",
                fix="send it again",
                slug="too-slow",
            ) from exc
        is_whole = not message.get("more_body", False)
        return message

    return receiving
