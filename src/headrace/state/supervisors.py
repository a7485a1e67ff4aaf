"""Whether a supervisor keeps this project, and which process it is.

The kernel's lock on `supervisor.lock` decides; `supervisor.json` only says who holds it, for where
the kernel does not. Invariant: the lock file is opened in this module only, and never by a process
that holds its lock: whoever closes any descriptor of a file loses its POSIX locks on it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from pathlib import Path

from headrace import processes
from headrace.errors import StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.places import Places
from headrace.model.runs import Process

# `struct flock`: on Linux type, whence, start, length, pid; elsewhere (BSD) the numbers first.
_IS_LINUX = sys.platform == "linux"
_FLOCK = struct.Struct("@hhqqi4x" if _IS_LINUX else "@qqihh")
_held: dict[Path, int] = {}  # locks of this process: lock file -> its descriptor
_opening = threading.Lock()  # a look in one thread must not close what another one just locked


def running(places: Places) -> Process | None:
    """The supervisor's process, whether its record is there or not."""
    holder = _holder(places.supervisor_lock)
    return (processes.identify(holder) if holder else None) or recorded(places)


def recorded(places: Places) -> Process | None:
    """The living process that supervisor.json names."""
    try:
        body = read_json(places.supervisor_process)
        process = Process.from_json(body) if body else None
    except (StoreError, TypeError):
        return None
    return process if process and processes.is_alive(process) else None


def record(places: Places) -> None:
    """Writes down that this process is the supervisor."""
    me = processes.identify(os.getpid())
    if me is not None:  # we live, so it is not
        write_json(places.supervisor_process, me.to_json())


def take_lock(places: Places) -> bool:
    """False if another process has it. It is free again when this process is gone."""
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


def release_lock(places: Places) -> None:
    with _opening:
        os.close(_held.pop(places.supervisor_lock))


def _holder(path: Path) -> int | None:
    """The pid of the process that holds the lock, as the kernel knows it."""
    with _opening:
        if path in _held:
            return os.getpid()
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _asked(handle)
        except OSError:  # a file system without locks
            return None
        finally:
            os.close(handle)


def _asked(handle: int) -> int | None:
    wish = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if _IS_LINUX else (0, 0, 0, fcntl.F_WRLCK, 0)
    told = _FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, _FLOCK.pack(*wish)))
    kind, pid = (told[0], told[4]) if _IS_LINUX else (told[3], told[2])
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None
