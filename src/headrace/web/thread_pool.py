"""Threads for requests that read files.

Anonymous requests, keys that may view and keys that may operate have separate threads, and one key
uses only a few at a time: a busy client does not delay the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread

from headrace.state.api_keys import Key, Role

T = TypeVar("T")

THREADS = {None: 2, Role.VIEW: 6, Role.OPERATE: 6}
PER_KEY = 4


class ThreadPool:
    """Used only by coroutines of one event loop."""

    def __init__(self) -> None:
        self._all = {role: CapacityLimiter(count) for role, count in THREADS.items()}
        self._own: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()

    async def run(self, who: Key | None, work: Callable[[], T]) -> T:
        if who is None:
            return await to_thread.run_sync(work, limiter=self._all[None])
        own = self._own.get(who.hash) or CapacityLimiter(PER_KEY)
        self._own[who.hash] = own
        async with own:
            return await to_thread.run_sync(work, limiter=self._all[Role(who.role)])
