"""A word to every open page when something changed (Server-Sent Events).

The word says only that there is something new, and its number; the page then asks for what it
shows. So a page that was asleep or cut off misses nothing: it looks once and is up to date.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from headrace.web.site import Visit
from headrace.web.watch import Watch

PING_S = 5.0
RETRY_MS = 1000
LIFE_S = 900.0  # then the browser comes again: a session that has ended is noticed


async def stream(visit: Visit) -> Response:
    watch = visit.site.watch
    assert watch is not None  # noqa: S101 - the app has one
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_words(watch, visit), media_type="text/event-stream", headers=headers)


async def _words(watch: Watch, visit: Visit) -> AsyncIterator[str]:
    until = visit.now + LIFE_S
    yield f"retry: {RETRY_MS}\n\n"
    number = -1
    while visit.now < until and not watch.is_ending:
        newest = await watch.after(number, PING_S)
        if newest != number:
            number = newest
            body = json.dumps({"number": number, "at": visit.now})
            yield f"event: changed\ndata: {body}\n\n"
        else:
            yield f"event: alive\ndata: {visit.now}\n\n"  # so that the page knows it is connected
