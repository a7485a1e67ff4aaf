"""A word to every open page when something changed (Server-Sent Events).

The word says only that there is something new, and its number; the page then asks for what it
shows. So a page that was asleep or cut off misses nothing: it looks once and is up to date.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.state import keys
from headrace.state.keys import Key
from headrace.web.site import Visit
from headrace.web.watch import Watch

PING_S = 5.0
RETRY_MS = 1000
LIFE_S = 900.0  # then the browser comes again


async def stream(visit: Visit) -> Response:
    watch, who = visit.site.watch, visit.who
    assert watch is not None  # noqa: S101 - the app has one
    assert who is not None  # noqa: S101 - the gate lets nobody else in
    watch.streams.enter(who)
    return _Stream(_words(watch, visit, who), watch, who)


class _Stream(StreamingResponse):
    """Leaves its place however it ends: also where nobody was there to hear its first word."""

    def __init__(self, words: AsyncIterator[str], watch: Watch, who: Key) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(words, media_type="text/event-stream", headers=headers)
        self._watch, self._who = watch, who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watch.streams.leave(self._who)


async def _words(watch: Watch, visit: Visit, who: Key) -> AsyncIterator[str]:
    """Until its key is taken back, which is a change like any other."""
    until = visit.now + LIFE_S
    yield f"retry: {RETRY_MS}\n\n"
    number = -1
    while visit.now < until and not watch.is_ending:
        newest = await watch.after(number, PING_S)
        if not await run_in_threadpool(keys.is_current, visit.site.places, who, visit.now):
            return
        if newest != number:
            number = newest
            body = json.dumps({"number": number, "at": visit.now})
            yield f"event: changed\ndata: {body}\n\n"
        else:
            yield f"event: alive\ndata: {visit.now}\n\n"  # so that the page knows it is connected
