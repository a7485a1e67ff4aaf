"""Threads for requests that read files: who waits behind whom.

Strangers, keys that may look and keys that may act each have threads of their own, and one key gets
a few of them at a time: nobody who asks much keeps the owner waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread

from headrace.state.keys import Key, Role

T = TypeVar("T")

THREADS = {None: 2, Role.VIEW: 6, Role.OPERATE: 6}
OF_ONE_KEY = 4


class Turns:
    """Owns the limits. Made inside the event loop's life, used by its coroutines only."""

    def __init__(self) -> None:
        self._all = {role: CapacityLimiter(count) for role, count in THREADS.items()}
        self._own: WeakValueDictionary[str, CapacityLimiter] = WeakValueDictionary()

    async def run(self, who: Key | None, work: Callable[[], T]) -> T:
        if who is None:
            return await to_thread.run_sync(work, limiter=self._all[None])
        own = self._own.get(who.hash) or CapacityLimiter(OF_ONE_KEY)
        self._own[who.hash] = own
        async with own:
            return await to_thread.run_sync(work, limiter=self._all[Role(who.role)])
