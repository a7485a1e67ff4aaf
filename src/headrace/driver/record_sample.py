"""A sample of a batch's raw records, read again from their file or topic.

Called by `quality_counts`, on Spark's bus. Invariant: bounded in bytes and records.
"""

from __future__ import annotations

import bz2
import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from headrace.checkpoints import source_logs
from headrace.driver.parse_points import ParsePoint
from headrace.driver.record_ages import RecordAges
from headrace.model.progress import Progress

RECORDS_MAX = 100
FILES_MAX = 4
BYTES_MAX = 65_536
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_UNREADABLE = (".zst", ".snappy", ".lz4", ".deflate")  # Spark reads them, Python alone does not


def sample_batch(
    point: ParsePoint, progress: Progress, checkpoint: Path | None, record_ages: RecordAges
) -> list[bytes | None]:
    if not isinstance(point.source, str):
        return record_ages.values(point.source, progress, checkpoint, RECORDS_MAX)
    records: list[bytes | None] = []
    files = _files(point.source, progress, checkpoint)
    for file in random.sample(files, min(FILES_MAX, len(files))):
        records += _lines(file, has_header=point.options.get("header", "").lower() == "true")
    return random.sample(records, min(RECORDS_MAX, len(records)))


def _files(path: str, progress: Progress, checkpoint: Path | None) -> list[str]:
    """The batch's local files."""
    for number, source in enumerate(progress.sources):
        upto = source.end_entry
        is_new = upto is not None and upto != source.start_entry
        if checkpoint and upto is not None and is_new and _is_of(source.description, path):
            urls = (urlsplit(url) for url in source_logs.paths(checkpoint, number, upto))
            return [unquote(url.path) for url in urls if url.scheme in ("", "file")]
    return []


def _is_of(description: str, path: str) -> bool:
    folder = description.removeprefix("FileStreamSource[").removesuffix("]")
    return os.path.normpath(folder.removeprefix("file:")) == os.path.normpath(path)


def _lines(file: str, *, has_header: bool) -> list[bytes]:
    """Complete lines from a random position. Compressed files are read from their beginning."""
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
        return []  # deleted meanwhile, or not in the format of its suffix


def _whole(stream: IO[bytes], begin: int, has_header: bool) -> list[bytes]:
    if begin:
        stream.seek(begin)
    block = stream.read(BYTES_MAX)
    lines = block.splitlines()
    if len(block) == BYTES_MAX and lines:
        lines.pop()  # it may be cut off
    return lines[1:] if begin or has_header else lines
