"""The logs that sources keep in a checkpoint: what arrived when, and whether it is all there.

    sources/I/N             v1 / one line a file: {"path": …, "timestamp": ms, "batchId": N}
    sources/I/N.compact     every tenth: the same for all files so far, the newest last

N counts what a file source has found, not the batches of the query: offsets and progress objects
name it as `logOffset`. Other sources keep only where they began, in sources/I/0: v1 / a JSON object
or a number; Kafka puts a zero byte first. `driver/fresh.py` reads arrivals after every batch, and
`driver/inputs.py` what was listed; `driver/records.py` paths now and then, `layout` problems before
a start.
Invariant: bounded work however many files there are, and never raises: what cannot be read is not
known.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.checkpoints.problems import (
    RESTORE,
    Problem,
    checksum_mismatch,
    entries,
    first_gap,
    is_json_object,
    numbered,
)

BYTES_MAX = 4 * 1024 * 1024  # read of one log file
SLICES = 8  # a larger one is read in so many places
FILES_MAX = 1_000  # files looked at in one log file, evenly chosen
ENTRIES_MAX = 16  # log files of one batch; nearly always it is one
_ENTRY = re.compile(r"[0-9]+(\.compact)?")
_LOG_OFFSET = re.compile(r'\s*\{"logOffset":([0-9]+)\}\s*')


class Listed(NamedTuple):
    """A file as the source found it. Of very many, some are chosen: `weight` is how many each
    represents."""

    path: str  # a URL
    ms: int  # its modification time
    weight: float


def arrivals(checkpoint: Path, source: int, after: int, upto: int) -> list[tuple[int, float]]:
    """(modification time in ms, how many files it stands for), `after` < entry <= `upto`."""
    return [(one.ms, one.weight) for one in listed(checkpoint, source, after, upto)]


def listed(checkpoint: Path, source: int, after: int, upto: int) -> list[Listed]:
    """Files of the entries `after` < entry <= `upto`.

    Empty if any entry of the batch cannot be read: half the files would be half the truth.
    """
    folder = checkpoint / "sources" / str(source)
    found: list[Listed] = []
    for entry in range(max(after + 1, upto - ENTRIES_MAX + 1), upto + 1):
        files = _of_entry(folder, entry)
        if not files:
            return []
        found += files
    return found


def problems(checkpoint: Path, lines: Sequence[str]) -> Iterator[Problem]:
    """`lines` are the newest offsets, one a source. Only what Spark reads at a start is looked at:
    the newest compact entry and those after it."""
    planned = {i: int(m[1]) for i, line in enumerate(lines) if (m := _LOG_OFFSET.fullmatch(line))}
    there = {int(folder.name) for folder in numbered(checkpoint / "sources")}
    for index in sorted(there | planned.keys()):
        yield from _source_problems(checkpoint / "sources" / str(index), planned.get(index))


def _source_problems(folder: Path, planned: int | None) -> Iterator[Problem]:
    """`planned` is the newest entry that a batch has read; None if it is no file source, or no
    batch is planned yet."""
    found = {int(p.name.split(".")[0]): p for p in entries(folder) if _ENTRY.fullmatch(p.name)}
    base = max((number for number, file in found.items() if file.suffix), default=-1)
    used = sorted(number for number in found if number >= max(base, 0))
    if planned is not None and max(used, default=-1) < planned:
        newest = f"ends at {used[-1]}" if used else "is empty or missing"
        what = f"{folder} {newest}, but offsets/ has read up to its entry {planned}."
        yield Problem("checkpoint-source-log-missing", what, RESTORE)
        return
    gap = first_gap([-1, *used] if base < 0 else used)
    if planned is not None and gap is not None:
        what = f"{folder} lacks the entry {gap}, but has the entry {used[-1]}."
        yield Problem("checkpoint-source-log-missing", what, RESTORE)
    for number in used:
        if fault := _fault(found[number], is_file_source=planned is not None):
            what = f"{found[number]} is damaged: {fault}."
            yield Problem("checkpoint-source-log-damaged", what, RESTORE)
        elif mismatch := checksum_mismatch(found[number]):
            yield mismatch


def _fault(file: Path, *, is_file_source: bool) -> str | None:
    try:
        text = _ends(file).decode("utf-8").removeprefix("\0")
    except UnicodeDecodeError as exc:
        return f"it is not UTF-8 text (byte {exc.start})" if is_file_source else None
    except OSError as exc:
        return f"it cannot be read ({exc.strerror})"
    if not text.strip(" \n\0"):
        return "it is empty"
    version, _, body = text.partition("\n")
    if version != "v1":
        is_cut = "v1".startswith(version) and not body
        return f"it begins {version[:40]!r}, not v1" if is_file_source or is_cut else None
    if not body.strip():
        return "nothing follows its first line"
    for line in body.rstrip("\n").split("\n"):
        if (is_file_source or line.startswith("{")) and not is_json_object(line):
            return f"a line is no whole JSON object ({line[-30:]!r})"
    return None


def _ends(file: Path) -> bytes:
    """All of it; of a large file the whole lines at its beginning and at its end."""
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(0)
        if size <= BYTES_MAX:
            return log.read()
        first = log.read(BYTES_MAX // 2)
        log.seek(size - BYTES_MAX // 2)
        last = log.read(BYTES_MAX // 2)
    return first[: first.rfind(b"\n") + 1] + last[last.find(b"\n") + 1 :]


def paths(checkpoint: Path, source: int, entry: int) -> list[str]:
    """Files that were taken with an entry, as addresses; some of them if there are many."""
    lines, _, _ = _chosen(checkpoint / "sources" / str(source), entry)
    found = (_body(line, entry).get("path") for line in lines)
    return [path for path in found if isinstance(path, str)]


def _of_entry(folder: Path, entry: int) -> list[Listed]:
    lines, step, part = _chosen(folder, entry)
    bodies = [_body(line, entry) for line in lines]
    return [
        Listed(str(body.get("path")), ms, step / part)
        for body in bodies
        if (ms := _time(body)) is not None
    ]


def _chosen(folder: Path, entry: int) -> tuple[list[bytes], int, float]:
    """Lines of an entry: every how many of those that were read, and which part was read."""
    mark = b'"batchId":%d' % entry
    for name, is_compact in ((str(entry), False), (f"{entry}.compact", True)):
        try:
            lines, part = _read(folder / name, is_compact)
        except OSError:
            continue
        mine = [line for line in lines if mark in line]
        step = -(-len(mine) // FILES_MAX) or 1
        return mine[::step], step, part
    return [], 1, 1.0


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


def _body(line: bytes, entry: int) -> dict[str, Any]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) and body.get("batchId") == entry else {}


def _time(body: dict[str, Any]) -> int | None:
    ms = body.get("timestamp")
    return ms if isinstance(ms, int) and not isinstance(ms, bool) and abs(ms) < 1 << 53 else None
