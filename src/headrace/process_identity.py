"""Identifies processes, since a pid alone may be reused. Reads only.

A process is identified by pid, start time and boot; a process of a run also by markers in its
environment, which its children inherit. Invariant: a zombie is not alive, and a process that cannot
be proven to be ours is not ours.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from headrace.model.runs import Process

RUN_MARK = "HEADRACE_RUN_ID"
STATE_MARK = "HEADRACE_STATE"  # two projects may have pipelines of the same name

_PROC = Path("/proc") if sys.platform == "linux" else None
_DEAD = ("Z", "X", "x")
_TICKS_TOLERANCE_S = 0.05
_LOADING_S = 0.1


class MarkedProcess(NamedTuple):
    """A live process with the marker of a run."""

    process: Process
    run: str
    is_leader: bool  # of its session: the driver itself


def identify(pid: int) -> Process | None:
    """The live process that has this pid now."""
    started = _read_start_time(pid)
    return None if started is None else Process(pid, started, boot_id())


def is_alive(process: Process) -> bool:
    """False for zombies, for another process with the same pid, and after a reboot."""
    now = identify(process.pid) if process.boot == boot_id() else None
    return now is not None and abs(now.started - process.started) <= _TICKS_TOLERANCE_S


def find_marked(state: Path) -> list[MarkedProcess]:
    """Every live process of this user that belongs to a run of this state folder."""
    return [
        MarkedProcess(process, run, _is_leader(pid))
        for pid in psutil.pids()
        if (run := _run_of(pid, state)) and (process := identify(pid))
    ]


def is_marked(process: Process, run: str, state: Path) -> bool:
    return is_alive(process) and _run_of(process.pid, state) == run


def environment(pid: int) -> dict[str, str]:
    """The environment at the start of a process; empty if it has ended or is another user's. It is
    also empty for a moment during exec. Without the retry, a child of ours would look foreign."""
    deadline = time.monotonic() + _LOADING_S
    while (found := _environment(pid)) == {} and _is_program(pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    return found or {}


@functools.cache
def boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else str(int(psutil.boot_time()))


def _read_start_time(pid: int) -> float | None:
    """Seconds from boot to start, where available: a change of the clock does not affect it."""
    if _PROC is None:
        try:
            process = psutil.Process(pid)
            dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            return None if dead else process.create_time()
        except psutil.Error:
            return None
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the name before it may contain spaces
    if len(fields) < 20 or fields[0].decode() in _DEAD:
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _run_of(pid: int, state: Path) -> str | None:
    found = environment(pid)
    return found.get(RUN_MARK) if found.get(STATE_MARK) == str(state) else None


def _is_program(pid: int) -> bool:
    """False for kernel threads, whose environment may be empty."""
    try:
        return _PROC is not None and bool(os.readlink(_PROC / str(pid) / "exe"))
    except OSError:
        return False


def _environment(pid: int) -> dict[str, str] | None:
    if _PROC is None:
        try:
            return psutil.Process(pid).environ()
        except (psutil.Error, OSError):
            return None
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (os.fsdecode(part).partition("=") for part in raw.split(b"\0") if part)
    return {name: value for name, _, value in pairs}


def _is_leader(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False
