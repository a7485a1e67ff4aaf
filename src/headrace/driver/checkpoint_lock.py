"""One writer per checkpoint: the JVM holds a kernel lock on a file next to it.

The JVM holds it because the JVM writes the checkpoint, and outlives a killed Python by seconds. The
kernel releases the lock when the JVM's last thread ends. A POSIX lock is also released when its
process closes any other descriptor of the file, so nothing else in the JVM may open it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config import local_path
from headrace.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, length, pid

# Kept until the process ends: a garbage-collected file would release its lock.
_held: dict[Path, Any] = {}


def take(spark: SparkSession, checkpoint: str) -> None:
    """Raises CheckpointError if another JVM holds the lock, or its file cannot be written."""
    folder = local_path(checkpoint)
    if folder is None:
        return  # object stores have no kernel locks
    path = _lock_path(folder)
    if path in _held:
        return
    file = _open(spark, path)
    lock = file.getChannel().tryLock()
    if lock is None:
        raise _in_use_error(folder, path)
    _held[path] = (file, lock)


def find_conflict(checkpoint: str) -> CheckpointError | None:
    """An early check, before the JVM starts. Only `take` is certain."""
    folder = local_path(checkpoint)
    if folder is None or holder_pid(_lock_path(folder)) is None:
        return None
    return _in_use_error(folder, _lock_path(folder))


def _lock_path(folder: Path) -> Path:
    return folder.absolute().with_name(folder.name + ".lock")


def holder_pid(path: Path) -> int | None:
    """The process that holds the lock, by the kernel."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, request))
    finally:
        os.close(fd)
    return pid if kind != fcntl.F_UNLCK else None


def _in_use_error(folder: Path, path: Path) -> CheckpointError:
    pid = holder_pid(path)
    who = f"process {pid}" if pid else "another process"
    return CheckpointError(
        f"The checkpoint {folder} is in use by {who}.",
        why="Two processes that share a checkpoint lose or duplicate rows.",
        where=str(path),
        fix=f"Stop that process first. To see what it is: ps -fp {pid}"
        if pid
        else "Stop that process first.",
        slug="checkpoint-held",
    )


def _open(spark: SparkSession, path: Path) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In Python first: Java's error is a stack trace.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return spark._jvm.java.io.RandomAccessFile(str(path), "rw")
    except (OSError, Py4JJavaError) as exc:
        reason = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else str(exc)
        raise CheckpointError(
            f"Could not write to the checkpoint folder {path.parent}: {reason}.",
            why="Without a checkpoint, the query would process all input again after each restart.",
            where=str(path.parent),
            fix="Make the folder writable by this user, free disk space, or move all checkpoints "
            "and set [project] checkpoints to the new folder.",
            slug="checkpoint-unwritable",
        ) from exc
