"""Ctrl-C, SIGTERM and a lost terminal (SIGHUP) while `run` follows a pipeline.

Counted here, acted on by the loop.
Invariant: a handler only counts; it never waits, prints or asks for anything.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self


class Interrupts:
    """Once drains, twice cuts; more say nothing new."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: it is meant to outlive the terminal
            self._before[number] = signal.signal(number, self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def came(self) -> bool:
        return self.count > 0

    def _seen(self, number: int, _frame: FrameType | None) -> None:
        # Others ask for a drain however often they come: only a person is impatient.
        self.count = self.count + 1 if number == signal.SIGINT else max(self.count, 1)
