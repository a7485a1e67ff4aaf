"""Counts Ctrl-C, SIGTERM and SIGHUP for the loop of `run` and `demo`.

Invariant: a handler only counts; it never waits, prints or sends a request.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self


class Interrupts:
    """The first interrupt drains, the second cuts; more have no effect."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: the run should outlive the terminal
            self._before[number] = signal.signal(number, self._handle_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def is_set(self) -> bool:
        return self.count > 0

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        # Only repeated Ctrl-C cuts; service managers may send SIGTERM more than once.
        self.count = self.count + 1 if number == signal.SIGINT else max(self.count, 1)
