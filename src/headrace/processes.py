"""Which process is which: a pid alone may belong to a stranger a moment later. Reads only.

The driver records itself with it, the supervisor and the command line ask.

A process is known by pid, start time and boot; a child of a run also by the markers in its
environment, which every process that it starts inherits. Invariant: a zombie is not alive, and what
cannot be proven to be ours is a stranger.
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
STATE_MARK = "HEADRACE_STATE"  # whose run: two projects may have pipelines of one name

_PROC = Path("/proc") if sys.platform == "linux" else None
_DEAD = ("Z", "X", "x")
_TICKS_TOLERANCE_S = 0.05
_LOADING_S = 0.1


class Marked(NamedTuple):
    """A living process with the mark of a run."""

    process: Process
    run: str
    is_leader: bool  # of its session: the driver itself


def identify(pid: int) -> Process | None:
    """The living process that has this pid now."""
    started = _started(pid)
    return None if started is None else Process(pid, started, boot_id())


def is_alive(process: Process) -> bool:
    """False for zombies, for strangers who inherited the pid, and for everyone before a reboot."""
    if process.boot != boot_id():
        return False
    started = _started(process.pid)
    if started is None:
        return False
    return abs(started - process.started) <= _TICKS_TOLERANCE_S


def marked(state: Path) -> list[Marked]:
    """Every living process of this user that belongs to a run of this state folder."""
    found = []
    for pid in psutil.pids():
        run = _run_of(pid, state)
        process = identify(pid) if run else None
        if run and process:
            found.append(Marked(process, run, _is_leader(pid)))
    return found


def is_marked(process: Process, run: str, state: Path) -> bool:
    return is_alive(process) and _run_of(process.pid, state) == run


def environment(pid: int) -> dict[str, str]:
    """What a process was started with; nothing of one that is gone or another user's.

    While a program is being loaded (exec) it shows none, for less than a millisecond mostly: a
    look at that moment would take a child of ours for a stranger.
    """
    deadline = time.monotonic() + _LOADING_S
    while (told := _environment(pid)) == {} and _is_program(pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    return told or {}


@functools.cache
def boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else str(int(psutil.boot_time()))


def _started(pid: int) -> float | None:
    """Seconds from boot to start where the kernel says so: setting the clock cannot change it."""
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
    fields = stat.rpartition(b")")[2].split()  # the name before it may hold anything
    if len(fields) < 20 or fields[0].decode() in _DEAD:
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _run_of(pid: int, state: Path) -> str | None:
    told = environment(pid)
    return told.get(RUN_MARK) if told.get(STATE_MARK) == str(state) else None


def _is_program(pid: int) -> bool:
    """Threads of the kernel are none; a kernel may show an empty environment for them."""
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
