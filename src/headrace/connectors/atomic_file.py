"""Atomic writes of files that a sink hands to other processes; used by the live and alert sinks.

Invariant: a reader that lists the folder never sees a partial file. Unfinished files start with a
dot, and the next write deletes them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from headrace.json_file import sync_folder


def write(path: Path, fill: Callable[[BinaryIO], object], mode: int = 0o666) -> None:
    """`fill` writes the content. On OSError (a full disk) the old file stays."""
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
    for left in path.parent.glob(".*.tmp"):  # from a killed driver: nothing else writes here
        left.unlink(missing_ok=True)
