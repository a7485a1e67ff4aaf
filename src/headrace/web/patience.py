"""How long a connection may take to say what it wants: somebody who says nothing, or says it byte
by byte, must not hold a place for ever.

uvicorn itself only limits how long a connection is kept between two requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
BODY_S = 20.0


class Patient(H11Protocol):
    """A connection whose request has not come within HEAD_S is closed."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

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
        super().connection_lost(exc)

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


def in_time(receive: Receive) -> Receive:
    """The same, but a body that is not whole within BODY_S counts as somebody who has gone."""
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
        except TimeoutError:
            message = {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        return message

    return receiving
