"""The logs of sources in a checkpoint: the files that arrived, and damage to the log.

    sources/I/N             v1 / one line per file: {"path": …, "timestamp": ms, "batchId": N}
    sources/I/N.compact     every tenth: the same for all files so far, the newest last

N counts listings of a file source, not batches of the query; offsets and progress objects contain
it as `logOffset`. Other sources only store their start in sources/I/0: v1 / a JSON object or a
number; Kafka writes a zero byte first. Used by `driver/freshness.py`, `driver/changed_files.py`,
`driver/record_sample.py`, and by `checkpoint_content` before a start.
Invariant: limited work for any number of files, and never raises; unreadable entries are unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.checkpoints.file_checks import (
    RESTORE,
    Problem,
    checksum_mismatch,
    entries,
    first_gap,
    is_json_object,
    json_object,
    numbered_entries,
)

BYTES_MAX = 4 * 1024 * 1024  # read from one log file
SLICES = 8  # parts read from a larger one
FILES_MAX = 1_000  # evenly sampled from one log file
ENTRIES_MAX = 16  # log files of one batch; usually there is one
_ENTRY = re.compile(r"[0-9]+(\.compact)?")
_LOG_OFFSET = re.compile(r'\s*\{"logOffset":([0-9]+)\}\s*')


class ListedFile(NamedTuple):
    """A file as the source listed it. Long lists are sampled: `weight` is the number of files that
    this one represents."""

    path: str  # a URL
    ms: int  # its modification time
    weight: float


def arrivals(checkpoint: Path, source: int, after: int, upto: int) -> list[tuple[int, float]]:
    """(modification time in ms, weight) of the files in `after` < entry <= `upto`."""
    return [(one.ms, one.weight) for one in listed_files(checkpoint, source, after, upto)]


def listed_files(checkpoint: Path, source: int, after: int, upto: int) -> list[ListedFile]:
    """Files of the entries `after` < entry <= `upto`; [] if one of them cannot be read."""
    folder = checkpoint / "sources" / str(source)
    found: list[ListedFile] = []
    for entry in range(max(after + 1, upto - ENTRIES_MAX + 1), upto + 1):
        files = _read_entry(folder, entry)
        if not files:
            return []
        found += files
    return found


def problems(checkpoint: Path, lines: Sequence[str]) -> Iterator[Problem]:
    """`lines` are the newest offsets, one per source. Checks only what Spark reads at a start: the
    newest compact entry and those after it."""
    planned = {i: int(m[1]) for i, line in enumerate(lines) if (m := _LOG_OFFSET.fullmatch(line))}
    there = {int(folder.name) for folder in numbered_entries(checkpoint / "sources")}
    for index in sorted(there | planned.keys()):
        yield from _source_problems(checkpoint / "sources" / str(index), planned.get(index))


def _source_problems(folder: Path, planned: int | None) -> Iterator[Problem]:
    """`planned` is the newest entry that a batch has read; None before the first batch, or if it
    is not a file source."""
    found = {int(p.name.split(".")[0]): p for p in entries(folder) if _ENTRY.fullmatch(p.name)}
    base = max((number for number, file in found.items() if file.suffix), default=-1)
    used = sorted(number for number in found if number >= max(base, 0))
    if planned is not None and max(used, default=-1) < planned:
        newest = f"ends at entry {used[-1]}" if used else "is empty or missing"
        what = f"{folder} {newest}, but offsets/ refers to entry {planned}."
        yield Problem("checkpoint-source-log-missing", what, RESTORE)
        return
    gap = first_gap([-1, *used] if base < 0 else used)
    if planned is not None and gap is not None:
        what = f"{folder} has entry {used[-1]}, but not entry {gap}."
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
        return f"it starts with {version[:40]!r}, not v1" if is_file_source or is_cut else None
    if not body.strip():
        return "it ends after its first line"
    for line in body.rstrip("\n").split("\n"):
        if (is_file_source or line.startswith("{")) and not is_json_object(line):
            return f"a line is not a complete JSON object ({line[-30:]!r})"
    return None


def _ends(file: Path) -> bytes:
    """The whole file, or the complete lines at both ends of a large file."""
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
    """URLs of the files of an entry; a sample if there are many."""
    lines, _, _ = _chosen(checkpoint / "sources" / str(source), entry)
    found = (_body(line, entry).get("path") for line in lines)
    return [path for path in found if isinstance(path, str)]


def _read_entry(folder: Path, entry: int) -> list[ListedFile]:
    lines, step, part = _chosen(folder, entry)
    bodies = [_body(line, entry) for line in lines]
    return [
        ListedFile(str(body.get("path")), ms, step / part)
        for body in bodies
        if (ms := _time(body)) is not None
    ]


def _chosen(folder: Path, entry: int) -> tuple[list[bytes], int, float]:
    """Sampled lines of an entry, the sampling step, and the share of the file that was read."""
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
    """Lines of the file, and the share of it that was read."""
    size = file.stat().st_size
    with file.open("rb") as log:
        if size <= BYTES_MAX:
            return log.read().splitlines(), 1.0
        if is_compact:  # the newest files are at the end
            log.seek(size - BYTES_MAX)
            return log.read(BYTES_MAX).splitlines()[1:], 1.0
        lines: list[bytes] = []
        length = BYTES_MAX // SLICES
        for number in range(SLICES):
            log.seek(number * (size - length) // (SLICES - 1))
            part = log.read(length).splitlines()
            lines += part[1:-1]  # the first and the last line are incomplete
    return lines, BYTES_MAX / size


def _body(line: bytes, entry: int) -> dict[str, Any]:
    body = json_object(line)
    return body if body.get("batchId") == entry else {}


def _time(body: dict[str, Any]) -> int | None:
    ms = body.get("timestamp")
    return ms if isinstance(ms, int) and not isinstance(ms, bool) and abs(ms) < 1 << 53 else None
