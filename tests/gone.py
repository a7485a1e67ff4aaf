"""Whether processes are dead. A zombie is: its parent has only not asked for its exit code yet."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

LIMIT_S = 60.0


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if _is_alive(one)]


def alive_at_last(
    processes: Iterable[psutil.Process], limit_s: float = LIMIT_S
) -> list[psutil.Process]:
    """Those that have not ended within the limit."""
    left, deadline = alive(processes), time.monotonic() + limit_s
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = alive(left)
    return left


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
