"""Files that a sink of ours hands to other processes: whole and synced, or not there at all.

Used by the live and the alert sink, in the driver. Invariant: a reader that lists the folder never
meets half a file; an unfinished one begins with a dot and goes with the next write.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from headrace.jsonfile import sync_folder


def write(path: Path, fill: Callable[[BinaryIO], object], mode: int = 0o666) -> None:
    """`fill` writes the content. OSError (a full disk) passes through; the old file then stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.tmp")
    try:
        with open(os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise
    sync_folder(path.parent)
    for left in path.parent.glob(".*.tmp"):  # of a driver that was killed: the folder is ours alone
        left.unlink(missing_ok=True)
