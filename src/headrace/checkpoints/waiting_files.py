"""Files that wait in the folders of a query's file sources: those newer than what it has listed.

A file source reads files by their modification time and logs the files of each batch, so a waiting
file is newer than the newest one in the log. Never starts Spark. Invariant: bounded work; None if
it is not known.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.checkpoints import source_logs
from headrace.checkpoints.file_checks import numbered_entries

FILES_MAX = 20_000  # of one folder; with more, the count is a lower bound
FOLDERS_MAX = 50


def count(checkpoint: Path) -> tuple[int, int] | None:
    """How many files wait, and their size in bytes; of all file sources of the query."""
    files = size = 0
    is_known = False
    for folder in numbered_entries(checkpoint / "sources"):
        newest = _newest_listed(checkpoint, int(folder.name))
        if newest is None:
            continue
        is_known = True
        newest_ms, folders = newest
        for found_files, found_size in (_newer(path, newest_ms) for path in folders):
            files, size = files + found_files, size + found_size
    return (files, size) if is_known else None


def _newest_listed(checkpoint: Path, source: int) -> tuple[int, list[Path]] | None:
    """The newest modification time in the log of a source, in ms, and the folders of its files."""
    folder = checkpoint / "sources" / str(source)
    numbers = []
    with contextlib.suppress(OSError):
        names = (entry.name.removesuffix(".compact") for entry in os.scandir(folder))
        numbers = [int(name) for name in names if name.isdecimal()]
    if not numbers:
        return None
    listed = source_logs.listed_files(checkpoint, source, max(numbers) - 1, max(numbers))
    if not listed:
        return None
    return max(one.ms for one in listed), _folders(one.path for one in listed)


def _folders(urls: Iterable[str]) -> list[Path]:
    local = (unquote(urlsplit(url).path) for url in urls if urlsplit(url).scheme in ("", "file"))
    return sorted({Path(path).parent for path in local})[:FOLDERS_MAX]


def _newer(folder: Path, than_ms: int) -> tuple[int, int]:
    files = size = 0
    with contextlib.suppress(OSError):
        for number, entry in enumerate(os.scandir(folder)):
            if number >= FILES_MAX:
                break
            if entry.name.startswith((".", "_")):
                continue
            with contextlib.suppress(OSError):
                stats = entry.stat()
                if entry.is_file() and stats.st_mtime * 1000 > than_ms + 1:
                    files, size = files + 1, size + stats.st_size
    return files, size
