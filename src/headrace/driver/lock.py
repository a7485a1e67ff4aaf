"""One writer per checkpoint: the JVM itself holds a kernel lock beside it.

Why the JVM: it is the JVM that writes the checkpoint, and it outlives a killed Python by seconds.
The lock is gone exactly when the last thread of that JVM is. It is a POSIX lock: it would be lost
if the same JVM closed any other descriptor of that file, so nobody else opens it there.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from headrace.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, length, pid

# Held for the life of the process. A collected Java object would close its file and free the lock.
_held: dict[Path, Any] = {}


def local_path(checkpoint: str) -> Path | None:
    """The folder on this machine's disks, None for one elsewhere (s3a://…). As Hadoop reads it: a
    `%20` in a `file:` URI is part of the name."""
    scheme = urlparse(checkpoint).scheme
    if scheme == "file":
        return Path("/" + checkpoint.partition(":")[2].lstrip("/"))
    return None if scheme else Path(checkpoint)


def take(spark: SparkSession, checkpoint: str) -> None:
    """Raises CheckpointError if any other JVM holds it, or the place cannot be written.

    A lock that this JVM holds already is kept: whether its query has ended is for others to know.
    """
    folder = local_path(checkpoint)
    if folder is None:
        return  # no kernel lock on object stores: the epoch and the sinks' fences stand there
    path = folder.absolute().with_name(folder.name + ".lock")
    if path in _held:
        return
    _make_folder(path.parent)
    file = _open(spark, path)
    lock = file.getChannel().tryLock()
    if lock is None:
        raise _held_by_another(folder, path)
    _held[path] = (file, lock)


def held_elsewhere(checkpoint: str) -> CheckpointError | None:
    """A look before a JVM is paid for. Only `take` is sure: the lock may come and go."""
    folder = local_path(checkpoint)
    path = folder.absolute().with_name(folder.name + ".lock") if folder is not None else None
    if path is None or holder_pid(path) is None:
        return None
    return _held_by_another(folder or path, path)


def holder_pid(path: Path) -> int | None:
    """Who holds the lock, as the kernel knows it. Asked from Python, so the JVM's lock is safe."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    finally:
        os.close(fd)
    return pid if kind != fcntl.F_UNLCK else None


def _held_by_another(folder: Path, path: Path) -> CheckpointError:
    pid = holder_pid(path)
    who = f"process {pid}" if pid else "another process"
    return CheckpointError(
        f"The checkpoint {folder} is in use by {who}.",
        why="two processes on one checkpoint lose or double rows, so only one may start",
        where=str(path),
        fix=f"stop the other one first (ps -fp {pid})" if pid else "stop the other one first",
        slug="checkpoint-held",
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise _unwritable(folder, exc) from exc


def _open(spark: SparkSession, path: Path) -> Any:
    from py4j.protocol import Py4JJavaError

    try:  # in Python first: it says in one word what Java says in a stack trace
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return spark._jvm.java.io.RandomAccessFile(str(path), "rw")
    except (OSError, Py4JJavaError) as exc:
        raise _unwritable(path.parent, exc) from exc


def _unwritable(folder: Path, exc: Exception) -> CheckpointError:
    reason = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else str(exc)
    return CheckpointError(
        f"The checkpoint folder {folder} cannot be written: {reason}.",
        why="a query that cannot record its progress would start from the beginning each time",
        where=str(folder),
        fix="make the folder writable for this user, free space on its disk, or move all "
        "checkpoints to another place and set [project] checkpoints to it",
        slug="checkpoint-unwritable",
    )
