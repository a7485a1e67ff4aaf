"""Whether a supervisor runs for this project, and its process.

The kernel's lock on `supervisor.lock` decides; `supervisor.json` names the holder on systems where
the kernel does not. Invariant: only this module opens the lock file, and never in a process that
holds the lock: a process that closes any descriptor of a file loses its POSIX locks on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import threading
from pathlib import Path

from headrace import process_identity
from headrace.json_file import read_valid, write_json
from headrace.model.runs import Process
from headrace.model.state_paths import StatePaths

# `struct flock`: on Linux type, whence, start, length, pid; elsewhere (BSD) the numbers first.
_IS_LINUX = sys.platform == "linux"
_FLOCK = struct.Struct("@hhqqi4x" if _IS_LINUX else "@qqihh")
_held: dict[Path, int] = {}  # locks of this process: lock file -> its descriptor
_opening = threading.Lock()  # one thread must not close what another has just locked


def running(places: StatePaths) -> Process | None:
    """The supervisor's process, even if its record is missing."""
    holder = _holder(places.supervisor_lock)
    return (process_identity.identify(holder) if holder else None) or find_recorded(places)


def find_recorded(places: StatePaths) -> Process | None:
    """The living process that supervisor.json names."""
    process = read_valid(places.supervisor_process, Process.from_json)
    return process if process and process_identity.is_alive(process) else None


def record(places: StatePaths) -> None:
    me = process_identity.identify(os.getpid())
    if me is not None:  # never None for a living process
        write_json(places.supervisor_process, me.to_json())


def mark_alive(places: StatePaths) -> None:
    """The supervisor's loop works. Called in every round."""
    with contextlib.suppress(OSError):  # the next round records it again
        os.utime(places.supervisor_process)


def seconds_since_alive(places: StatePaths, now: float) -> float | None:
    """The age of the last mark; None if there is no supervisor."""
    try:
        return now - places.supervisor_process.stat().st_mtime
    except OSError:
        return None


def take_lock(places: StatePaths) -> bool:
    """False if another process has it. The kernel frees it when this process ends."""
    path = places.supervisor_lock
    with _opening:
        if path in _held:
            return False
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        _held[path] = handle
        return True


def release_lock(places: StatePaths) -> None:
    with _opening:
        os.close(_held.pop(places.supervisor_lock))


def _holder(path: Path) -> int | None:
    """The pid of the process that holds the lock, from the kernel."""
    with _opening:
        if path in _held:
            return os.getpid()
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _query_lock_owner(handle)
        except OSError:  # a file system without locks
            return None
        finally:
            os.close(handle)


def _query_lock_owner(handle: int) -> int | None:
    wish = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if _IS_LINUX else (0, 0, 0, fcntl.F_WRLCK, 0)
    lock = _FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, _FLOCK.pack(*wish)))
    kind, pid = (lock[0], lock[4]) if _IS_LINUX else (lock[3], lock[2])
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None
