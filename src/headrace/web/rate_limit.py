"""Limits on how often a caller may act, and on open streams per key. Kept in memory."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import Error
from headrace.state.api_keys import Key, Role

CALLERS_MAX = 1_000
STREAMS_PER_KEY = 12
STREAMS = 150
STREAMS_RESERVED = 50  # for keys that may act
WINDOW_S = 60.0


@dataclass
class RateLimit:
    """`most` times in WINDOW_S seconds per caller."""

    most: int
    clock: Callable[[], float]
    _seen: dict[str, deque[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, caller: str, what: str) -> None:
        """Counts this one, or raises."""
        with self._lock:
            now = self.clock()
            times = self._seen.setdefault(caller, deque())
            while times and times[0] <= now - WINDOW_S:
                times.popleft()
            if len(times) >= self.most:
                wait_s = max(1.0, times[0] + WINDOW_S - now)
                what = f"Too many {what}: more than {self.most} within {WINDOW_S:g} s."
                raise Error(what, fix=f"Wait {wait_s:.0f} s, then try again.", slug="too-many")
            times.append(now)
            if len(self._seen) > CALLERS_MAX:
                self._seen.pop(next(iter(self._seen)))


@dataclass
class Streams:
    """Open streams by key. Used only in the event loop."""

    _open: Counter[str] = field(default_factory=Counter)

    def enter(self, who: Key) -> None:
        """Counts this one, or raises."""
        most = STREAMS if Role(who.role) is Role.OPERATE else STREAMS - STREAMS_RESERVED
        if self._open[who.hash] >= STREAMS_PER_KEY or self._open.total() >= most:
            raise Error(
                "Too many open event streams.",
                why=f"Allowed: {STREAMS_PER_KEY} per key, {most} in total.",
                fix="Close other browser tabs that show Headrace, or stop programs that read event "
                "streams.",
                slug="too-many",
            )
        self._open[who.hash] += 1

    def leave(self, who: Key) -> None:
        self._open[who.hash] -= 1
        self._open += Counter()  # drops zeros
