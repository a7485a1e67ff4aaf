"""What a file source wrote down of each file it took: when it arrived.

    sources/I/N             v1 / one line a file: {"path": …, "timestamp": ms, "batchId": N}
    sources/I/N.compact     every tenth: the same for all files so far, the newest last

N counts what the source has found, not the batches of the query: a progress object names it as
`logOffset`. Read by `driver/fresh.py` after every batch.
Invariant: bounded work however many files there are, and never raises: what cannot be read is not
known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

BYTES_MAX = 4 * 1024 * 1024  # read of one log file
SLICES = 8  # a larger one is read in so many places
FILES_MAX = 1_000  # files looked at in one log file, evenly chosen
ENTRIES_MAX = 16  # log files of one batch; nearly always it is one


def arrivals(checkpoint: Path, source: int, after: int, upto: int) -> list[tuple[int, float]]:
    """(modification time in ms, how many files it stands for), `after` < entry <= `upto`.

    Empty if any entry of the batch cannot be read: half the files would be half the truth.
    """
    folder = checkpoint / "sources" / str(source)
    found: list[tuple[int, float]] = []
    for entry in range(max(after + 1, upto - ENTRIES_MAX + 1), upto + 1):
        times = _of_entry(folder, entry)
        if not times:
            return []
        found += times
    return found


def _of_entry(folder: Path, entry: int) -> list[tuple[int, float]]:
    mark = b'"batchId":%d' % entry
    for name, is_compact in ((str(entry), False), (f"{entry}.compact", True)):
        try:
            lines, part = _read(folder / name, is_compact)
        except OSError:
            continue
        mine = [line for line in lines if mark in line]
        step = -(-len(mine) // FILES_MAX) or 1
        chosen = [ms for line in mine[::step] if (ms := _time(line, entry)) is not None]
        return [(ms, step / part) for ms in chosen]
    return []


def _read(file: Path, is_compact: bool) -> tuple[list[bytes], float]:
    """Its lines, or some of them and which part of it they are."""
    size = file.stat().st_size
    with file.open("rb") as log:
        if size <= BYTES_MAX:
            return log.read().splitlines(), 1.0
        if is_compact:  # the batch in question is at the end
            log.seek(size - BYTES_MAX)
            return log.read(BYTES_MAX).splitlines()[1:], 1.0
        lines: list[bytes] = []
        for start in _places(size):
            log.seek(start)
            lines += log.read(BYTES_MAX // SLICES).splitlines()[1:-1]  # its ends are cut lines
    return lines, BYTES_MAX / size


def _places(size: int) -> Iterator[int]:
    length = BYTES_MAX // SLICES
    return (number * (size - length) // (SLICES - 1) for number in range(SLICES))


def _time(line: bytes, entry: int) -> int | None:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or body.get("batchId") != entry:
        return None
    ms = body.get("timestamp")
    return ms if isinstance(ms, int) and not isinstance(ms, bool) and abs(ms) < 1 << 53 else None
