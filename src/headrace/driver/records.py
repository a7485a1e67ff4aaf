"""A few raw records of a batch, read once more from where they came: a file, or a topic.

Called by `counts`, on Spark's bus. Invariant: bounded by bytes and records; nothing is kept.
"""

from __future__ import annotations

import bz2
import gzip
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from headrace.checkpoints import sources
from headrace.driver.fresh import entry
from headrace.driver.parsed import Parsed
from headrace.driver.written import Written

RECORDS_MAX = 100
FILES_MAX = 4
BYTES_MAX = 65_536
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_UNREADABLE = (".zst", ".snappy", ".lz4", ".deflate")  # Spark reads them, Python alone does not


def of_batch(
    one: Parsed, progress: Mapping[str, Any], checkpoint: Path | None, written: Written
) -> list[bytes | None]:
    if not isinstance(one.source, str):
        return written.values(one.source, progress, checkpoint, RECORDS_MAX)
    found: list[bytes | None] = []
    files = _files(one.source, progress, checkpoint)
    for file in random.sample(files, min(FILES_MAX, len(files))):
        found += _lines(file, has_header=one.options.get("header", "").lower() == "true")
    return random.sample(found, min(RECORDS_MAX, len(found)))


def _files(path: str, progress: Mapping[str, Any], checkpoint: Path | None) -> list[str]:
    """Of the batch, on a disk of this machine."""
    told = progress.get("sources")
    for number, source in enumerate(told if isinstance(told, list) else []):
        upto, begin = entry(source.get("endOffset")), entry(source.get("startOffset"))
        is_new = upto is not None and upto != begin
        if checkpoint and upto is not None and is_new and _reads(source.get("description"), path):
            taken = (urlsplit(address) for address in sources.paths(checkpoint, number, upto))
            return [unquote(at.path) for at in taken if at.scheme in ("", "file")]
    return []


def _reads(description: Any, path: str) -> bool:
    folder = str(description).removeprefix("FileStreamSource[").removesuffix("]")
    return os.path.normpath(folder.removeprefix("file:")) == os.path.normpath(path)


def _lines(file: str, *, has_header: bool) -> list[bytes]:
    """Whole lines from somewhere in the file. Packed ones are read from their beginning."""
    suffix = os.path.splitext(file)[1]
    if suffix in _UNREADABLE:
        return []
    try:
        if suffix in _PACKED:
            with _PACKED[suffix](file, "rb") as packed:
                return _whole(packed, 0, has_header)
        with open(file, "rb") as plain:
            last = max(0, os.fstat(plain.fileno()).st_size - BYTES_MAX)
            return _whole(plain, int(random.random() * last), has_header)  # noqa: S311
    except (OSError, EOFError):
        return []  # it is gone already, or it is not what its name says


def _whole(stream: IO[bytes], begin: int, has_header: bool) -> list[bytes]:
    if begin:
        stream.seek(begin)
    block = stream.read(BYTES_MAX)
    lines = block.splitlines()
    if len(block) == BYTES_MAX and lines:
        lines.pop()  # cut off, or perhaps
    return lines[1:] if begin or has_header else lines
