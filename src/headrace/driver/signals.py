"""Counts SIGTERM and SIGINT for the loops.

A handler runs between two instructions of the main thread, perhaps inside py4j or with a lock held,
so it only counts and starts a thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class Signals:
    """The first signal asks for a drain, the second for an immediate end."""

    def __init__(self, on_second: Callable[[], None]) -> None:
        self._count = 0
        self._on_second = on_second

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count_signal)

    def should_stop(self) -> bool:
        return self._count >= 1

    def is_hurried(self) -> bool:
        return self._count >= 2

    def _count_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 2:
            threading.Thread(target=self._on_second, name="second-signal", daemon=True).start()
