"""How often somebody may try: a window that slides. In memory; gone with the process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import Error

CALLERS_MAX = 1_000


@dataclass
class Pace:
    """`most` times in `window_s` seconds, for each caller."""

    most: int
    window_s: float
    clock: Callable[[], float]
    _seen: dict[str, deque[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, caller: str, what: str) -> None:
        """Counts this one, or raises."""
        with self._lock:
            self._check(caller, what, self.clock())

    def _check(self, caller: str, what: str, now: float) -> None:
        times = self._seen.setdefault(caller, deque())
        while times and times[0] <= now - self.window_s:
            times.popleft()
        if len(times) >= self.most:
            wait_s = times[0] + self.window_s - now
            raise Error(
                f"That was more than {self.most} times {what} within {self.window_s:g} s.",
                fix=f"wait {max(1.0, wait_s):.0f} s",
                slug="too-many",
            )
        times.append(now)
        if len(self._seen) > CALLERS_MAX:
            self._seen.pop(next(iter(self._seen)))
