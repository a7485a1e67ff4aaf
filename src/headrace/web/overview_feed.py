"""The overview, kept up to date, and a notification to every open page when it changes.

While any page is open, one task checks twice a second whether a file has changed, and only then
builds a new overview. So the cost does not depend on the number of open pages, and is zero without
one. Invariant: the feed never fails; a store that is missing or locked shows in the overview.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Hashable
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from headrace.errors import Error
from headrace.project.sql_workers import QueryWorkers
from headrace.state import supervisor_lookup
from headrace.web import error_responses, json_responses, overview
from headrace.web.rate_limit import RateLimit, Streams

if TYPE_CHECKING:
    from headrace.web.visit import Site

logger = logging.getLogger(__name__)

POLL_S = 0.5
REFRESH_S = 5.0  # rebuilt even without a change: texts such as "41 s behind" depend on the time
UNUSED_S = 15.0  # an open page calls every five seconds; after this time no page is open


class OverviewFeed:
    """Owns the newest overview, the query workers and the limits of the process."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.workers = QueryWorkers(site.settings)
        self.cache = json_responses.Cache()
        self.sql_limit = RateLimit(60, site.clock)
        self.action_limit = RateLimit(30, site.clock)
        self.test_limit = RateLimit(6, site.clock)
        self.tests = 0  # of channels, at the moment
        self.wrong_key_limit = RateLimit(10, site.clock)
        self.streams = Streams()
        self._builder = overview.OverviewBuilder(site, self.workers)
        self.number = 0  # rises with every change
        self._content: bytes = b""
        self._used_at = 0.0
        self._is_used = asyncio.Event()
        self._changed = asyncio.Condition()
        self.is_ending = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await run_in_threadpool(self.workers.close)

    async def content(self) -> bytes:
        """The overview as JSON."""
        self._note_request()
        if not self._content:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._content))
        return self._content

    async def after(self, number: int, timeout_s: float) -> int:
        """Waits for a change after `number`; returns the current number, even on a timeout."""
        self._note_request()
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait_for(lambda: self.number > number or self.is_ending)
        return self.number

    async def end(self) -> None:
        """Ends the open streams, so that the process can end."""
        async with self._changed:
            self.is_ending = True
            self._changed.notify_all()

    def _note_request(self) -> None:
        """After UNUSED_S the content is outdated, so that the next request waits for a new one."""
        now = time.monotonic()
        if now >= self._used_at + UNUSED_S:
            self._content = b""
        self._used_at = now
        self._is_used.set()

    async def _wait_until_used(self) -> None:
        """Returns at once while a page is open."""
        if time.monotonic() >= self._used_at + UNUSED_S:
            self._is_used.clear()
            await self._is_used.wait()

    async def _poll(self) -> None:
        seen: Hashable = None
        built_at = 0.0
        while True:
            await self._wait_until_used()
            try:
                now = self._site.clock()
                fingerprint = await run_in_threadpool(self._fingerprint)
                if fingerprint != seen or now >= built_at + REFRESH_S or not self._content:
                    content = await run_in_threadpool(self._build_content)
                    seen, built_at = fingerprint, now
                    await self._publish(content)
            except Exception:
                logger.exception("building the overview failed; retrying")
                error = error_responses.unexpected_error(
                    "The overview could not be loaded.",
                    why="An unexpected error occurred; the log has the traceback.",
                    fix="Run `headrace status` instead. The pipelines are not affected.",
                )
                await self._publish(self._error_content(error))
                await asyncio.sleep(5 * POLL_S)
            await asyncio.sleep(POLL_S)

    async def _publish(self, content: bytes) -> None:
        async with self._changed:
            self._content, self.number = content, self.number + 1
            self._changed.notify_all()

    def _fingerprint(self) -> Hashable:
        """Changes when any of the project's files does. Costs a few stat calls."""
        places = self._site.places
        files = (places.history, places.alerts)
        logs = [path.with_name(path.name + "-wal") for path in files]
        folders = (places.desired_folder, places.runs, places.requests, places.keys)
        running = supervisor_lookup.running(places)
        stamps = [stamp(path) for path in (*files, *logs, *folders)]
        return (running.pid if running else None, *stamps)

    def _build_content(self) -> bytes:
        try:
            return json_responses.encode(self._builder.overview())
        except Error as exc:
            return self._error_content(exc)

    def _error_content(self, error: Error) -> bytes:
        """An error instead of the last overview: nobody could see that it is outdated."""
        settings = self._site.settings
        about = {"at": self._site.clock(), "project": settings.name, "profile": settings.profile}
        empty: dict[str, Any] = {
            "supervisor": None, "notice": None, "headline": None, "hints": [], "pipelines": [],
            "alerts": [], "live": [],
        }  # fmt: skip
        return json_responses.encode({**about, **empty, "error": error.as_dict()})


def stamp(path: Any) -> tuple[int, int]:
    """Changes when the file does; zeros if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
