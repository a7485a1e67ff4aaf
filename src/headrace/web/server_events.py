"""A notification to every open page when something has changed (Server-Sent Events).

It has only a number; the page then reads what it shows from the API. So a page that was asleep or
disconnected misses nothing: it reads once and is up to date.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.state import api_keys
from headrace.web.visit import Visit

PING_S = 5.0
RETRY_MS = 1000
LIFE_S = 900.0  # then the browser reconnects


async def stream(visit: Visit) -> Response:
    visit.feed.streams.enter(visit.user)
    return _Stream(_messages(visit), visit)


class _Stream(StreamingResponse):
    """Leaves `streams` however it ends, even if the client left before the first message."""

    def __init__(self, messages: AsyncIterator[str], visit: Visit) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(messages, media_type="text/event-stream", headers=headers)
        self._visit = visit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._visit.feed.streams.leave(self._visit.user)


async def _messages(visit: Visit) -> AsyncIterator[str]:
    """Until the key is revoked, which is a change like any other."""
    feed = visit.feed
    until = visit.now + LIFE_S
    yield f"retry: {RETRY_MS}\n\n"
    number = -1
    while visit.now < until and not feed.is_ending:
        newest = await feed.after(number, PING_S)
        places = visit.site.places
        if not await run_in_threadpool(api_keys.is_current, places, visit.user, visit.now):
            return
        if newest != number:
            number = newest
            body = json.dumps({"number": number, "at": visit.now})
            yield f"event: changed\ndata: {body}\n\n"
        else:
            yield f"event: alive\ndata: {visit.now}\n\n"  # shows that it is connected
