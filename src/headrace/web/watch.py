"""What is looked at first: the overview, kept ready, and a word to every open page on a change.

While somebody looks, one task looks twice a second whether anything was written; only then is the
overview made anew. So what a page costs does not depend on how many people look at it, and while
nobody does, none is made. Invariant: looking never fails; a store that is gone or locked shows in
the overview itself.
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
from headrace.project.workers import Workers
from headrace.state import supervisors
from headrace.web import board, jsontext
from headrace.web.pace import Pace, Streams
from headrace.web.shelf import Shelf

if TYPE_CHECKING:
    from headrace.web.site import Site

logger = logging.getLogger(__name__)

LOOK_S = 0.5
ANYWAY_S = 5.0  # words such as "41 s behind" age without any change
ALONE_S = 15.0  # an open page asks every five seconds; after this nobody looks any more


class Watch:
    """Owns the newest overview, and the workers that read data."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.workers = Workers(site.settings)
        self.shelf = Shelf()
        self.questions = Pace(60, 60.0, site.clock)
        self.actions = Pace(30, 60.0, site.clock)
        self.wrong_keys = Pace(10, 60.0, site.clock)
        self.streams = Streams()
        self._board = board.Board(site, self.workers)
        self.number = 0  # rises with every change
        self._content: bytes = b""
        self._asked_at = 0.0
        self._is_asked = asyncio.Event()
        self._changed = asyncio.Condition()
        self.is_ending = False

    @contextlib.asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await run_in_threadpool(self.workers.close)

    async def content(self) -> bytes:
        """The overview as JSON."""
        self._note_asked()
        if not self._content:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._content))
        return self._content

    async def after(self, number: int, timeout_s: float) -> int:
        """The number of the next change after this one, or the same if there was none in time."""
        self._note_asked()
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait_for(lambda: self.number > number or self.is_ending)
        return self.number

    async def end(self) -> None:
        """Lets the open streams go, so that the process can."""
        async with self._changed:
            self.is_ending = True
            self._changed.notify_all()

    def _note_asked(self) -> None:
        """After a time in which nobody looked, what is there is old: a new one is waited for."""
        now = time.monotonic()
        if now >= self._asked_at + ALONE_S:
            self._content = b""
        self._asked_at = now
        self._is_asked.set()

    async def _until_asked(self) -> None:
        """Returns at once while somebody looks."""
        if time.monotonic() >= self._asked_at + ALONE_S:
            self._is_asked.clear()
            await self._is_asked.wait()

    async def _look(self) -> None:
        seen: Hashable = None
        made_at = 0.0
        while True:
            await self._until_asked()
            try:
                now = self._site.clock()
                signs = await run_in_threadpool(self._signs)
                if signs != seen or now >= made_at + ANYWAY_S or not self._content:
                    content = await run_in_threadpool(self._made)
                    seen, made_at = signs, now
                    await self._publish(content)
            except Exception:
                logger.exception("looking at the project failed; tried again")
                await self._publish(self._failed(_unknown()))
                await asyncio.sleep(5 * LOOK_S)
            await asyncio.sleep(LOOK_S)

    async def _publish(self, content: bytes) -> None:
        async with self._changed:
            self._content, self.number = content, self.number + 1
            self._changed.notify_all()

    def _signs(self) -> Hashable:
        """What changes when anything does. Cheap: a few stats."""
        places = self._site.places
        files = (places.history, places.alerts)
        logs = [path.with_name(path.name + "-wal") for path in files]
        folders = (places.desired_folder, places.runs, places.requests, places.keys)
        running = supervisors.running(places)
        stamps = [stamp(path) for path in (*files, *logs, *folders)]
        return (running.pid if running else None, *stamps)

    def _made(self) -> bytes:
        try:
            return jsontext.encoded(self._board.overview())
        except Error as exc:
            return self._failed(exc)

    def _failed(self, error: Error) -> bytes:
        """Better than what was true a while ago: nobody can see that it is old."""
        settings = self._site.settings
        about = {"at": self._site.clock(), "project": settings.name, "profile": settings.profile}
        empty: dict[str, Any] = {
            "supervisor": None, "notice": None, "hints": [], "pipelines": [], "alerts": [],
            "live": [],
        }  # fmt: skip
        return jsontext.encoded({**about, **empty, "error": error.as_dict()})


def _unknown() -> Error:
    return Error(
        "The page cannot look at the project.",
        why="It met an error that it does not know; its log has it.",
        where="web.log in the state folder",
        fix="headrace status shows how the pipelines are; they go on without the page",
        slug="unexpected",
    )


def stamp(path: Any) -> tuple[int, int]:
    """What changes when a file does; nothing if there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
