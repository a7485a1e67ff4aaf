"""The content of a Structured Streaming checkpoint, read as plain files without Spark.

    metadata        {"id": "UUID of the query"}
    offsets/N       v1 / settings and watermark as JSON / one line per source ("-": none yet)
    commits/N       v1 or v2 / {"nextBatchWatermarkMs": ...}: batch N is committed
    sources/I/N     files that a source listed       state/OPERATOR/PARTITION/VERSION.*  (N + 1)

Used by the driver before a start, and by the `checkpoint` commands. `identity` checks the owner.
Invariant: writes nothing, and never raises on bad content: `Layout.problems` lists the damage.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoints import source_logs
from headrace.checkpoints.file_checks import (
    RESTORE,
    Problem,
    checksum_mismatch,
    entries,
    first_gap,
    is_json,
    is_json_object,
    numbered_entries,
    text_of,
)

_STATE_FILE = re.compile(r"(\d+)(?:_[^.]*)?\.(delta|changelog|snapshot|zip)")
# Commits are v2 if state files have unique names; offsets are v2 if sources have names, which
# Headrace does not allow.
_VERSIONS = {"offsets": ("v1",), "commits": ("v1", "v2")}
_VERSION_FIX = {
    "offsets": "Use the Spark version that wrote the checkpoint. Format v2 means that the "
    "checkpoint was created with spark.sql.streaming.queryEvolution.enableSourceEvolution. "
    "Headrace does not support this setting: turn it off, and use a new checkpoint (and a new "
    "folder for a file sink).",
    "commits": "Use the Spark version that wrote the checkpoint.",
}


@dataclass(frozen=True, slots=True)
class Layout:
    path: str
    exists: bool = False
    query_id: str | None = None
    offsets: tuple[int, ...] = ()  # batch numbers, sorted
    commits: tuple[int, ...] = ()
    last_offsets: str | None = None  # text of the newest offsets file, if readable
    sources: int | None = None  # number of sources in that file
    operators: tuple[int, ...] = ()  # numbers of the stateful operators
    problems: tuple[Problem, ...] = ()

    @property
    def is_started(self) -> bool:
        return bool(self.offsets or self.commits)


@dataclass(frozen=True, slots=True)
class _Log:
    numbers: tuple[int, ...]
    texts: dict[int, str]
    problems: tuple[Problem, ...]


def read(path: Path) -> Layout:
    if not os.path.lexists(path):
        return Layout(str(path))
    if not path.is_dir():
        return Layout(str(path), exists=True, problems=(_unreadable(path, "it is not a folder"),))
    offsets = _read_log(path / "offsets", _offsets_fault)
    commits = _read_log(path / "commits", _commit_fault)
    query_id, metadata = _read_metadata(path, bool(offsets.numbers or commits.numbers))
    last = offsets.texts.get(offsets.numbers[-1]) if offsets.numbers else None
    sources = None if last is None else source_lines(last)
    committed = commits.numbers[-1] if commits.numbers else None
    problems = (
        *metadata,
        *offsets.problems,
        *commits.problems,
        *_content_problems(path, offsets, commits),
        *_order_problems(path, offsets.numbers, commits.numbers),
        *source_logs.problems(path, sources or ()),
        *_state_problems(path, committed),
    )
    return Layout(
        path=str(path),
        exists=True,
        query_id=query_id,
        offsets=offsets.numbers,
        commits=commits.numbers,
        last_offsets=last,
        sources=None if sources is None else len(sources),
        operators=tuple(sorted(int(p.name) for p in numbered_entries(path / "state"))),
        problems=problems,
    )


def last_committed_batch(path: Path) -> int | None:
    """The newest number in commits/; the file itself is not read."""
    return max((int(p.name) for p in numbered_entries(path / "commits")), default=None)


def source_lines(offsets_text: str) -> tuple[str, ...]:
    """One per source, in the order of the query; "-" if it has no offset yet."""
    return tuple(offsets_text.splitlines()[2:])


def _read_metadata(path: Path, is_started: bool) -> tuple[str | None, tuple[Problem, ...]]:
    file = path / "metadata"
    if not os.path.lexists(file):
        if not is_started:
            return None, ()
        what = f"{path} has batches but no `metadata` file. That file contains the query id."
        fix = f"Restore {file}. Its content must be " + '{"id":"..."}, with the query id.'
        return None, (Problem("checkpoint-metadata-missing", what, fix),)
    text, fault = text_of(file)
    if fault is None:
        fault = _metadata_fault(text)
    if fault is not None:
        what = f"{file} is damaged: {fault}."
        return None, (Problem("checkpoint-metadata-damaged", what, RESTORE),)
    mismatch = checksum_mismatch(file)
    return json.loads(text)["id"], (mismatch,) if mismatch else ()


def _metadata_fault(text: str) -> str | None:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return "it is empty" if not text.strip() else f"it is not JSON ({text[:40]!r})"
    if not isinstance(body, dict) or not isinstance(body.get("id"), str):
        return f"it has no id ({text[:60]!r})"
    try:
        uuid.UUID(body["id"])
    except ValueError:
        return f"its id is not a UUID ({body['id'][:60]!r})"
    return None


def _read_log(folder: Path, fault_of: Callable[[str], str | None]) -> _Log:
    if not os.path.lexists(folder):
        return _Log((), {}, ())
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        return _Log((), {}, (_unreadable(folder, "it is not a readable folder"),))
    numbers, texts, problems = [], {}, []
    for file in entries(folder):
        if not re.fullmatch(r"[0-9]+", file.name):
            continue  # .crc, .tmp and other names, which Spark ignores too
        if str(int(file.name)) != file.name:
            what = f"Spark would read {file} as a batch, but batch numbers have no leading zeros."
            problems.append(Problem("checkpoint-stray-file", what, f"mv {file} {folder.parent}/"))
            continue
        numbers.append(int(file.name))
        text, fault = text_of(file)
        if problem := _entry_problem(file, text, fault, fault_of):
            problems.append(problem)
        else:
            texts[numbers[-1]] = text
    return _Log(tuple(sorted(numbers)), texts, tuple(problems))


def _entry_problem(
    file: Path, text: str, fault: str | None, fault_of: Callable[[str], str | None]
) -> Problem | None:
    kind = file.parent.name
    version, known = text.split("\n", 1)[0].strip(), _VERSIONS[kind]
    if fault is None and not text.strip():
        what = f"{file} is empty: its content was lost."
        return Problem(f"checkpoint-{kind}-empty", what, _log_fix(file))
    if fault is None and re.fullmatch(r"v[0-9]+", version) and version not in known:
        what = f"{file} has an unknown format, {version}. Supported: {', '.join(known)}."
        return Problem("checkpoint-version-unknown", what, _VERSION_FIX[kind])
    fault = fault or (None if version in known else f"it starts with {version[:40]!r}, not v1")
    fault = fault or fault_of(text)
    what = f"{file} is damaged: {fault}."
    return Problem(f"checkpoint-{kind}-damaged", what, _log_fix(file)) if fault else None


def _offsets_fault(text: str) -> str | None:
    lines = text.splitlines()
    if len(lines) < 2 or (lines[1].strip() and not is_json_object(lines[1])):
        return "its second line is not a JSON object"
    if len(lines) < 3:
        return "it has no sources"
    for number, line in enumerate(lines[2:]):
        # Most offsets are JSON, some are plain numbers, and a connector may write any text.
        if not line.strip() or not line.isprintable():
            return f"the offset of source {number} is not text"
        if line.startswith(("{", "[")) and not is_json(line):
            return f"the offset of source {number} is incomplete JSON ({line[-30:]!r})"
    return None


def _commit_fault(text: str) -> str | None:
    lines = text.splitlines()
    if len(lines) > 1 and not is_json_object(lines[1]):
        return "its second line is not a JSON object"
    return None


def _content_problems(path: Path, offsets: _Log, commits: _Log) -> Iterator[Problem]:
    """Problems of files that are well-formed, one per file."""
    # All batches of a checkpoint have the same sources: a file with fewer lines is truncated.
    counts = {number: len(source_lines(text)) for number, text in offsets.texts.items()}
    most = max(counts.values(), default=0)
    for number, count in counts.items():
        file = path / "offsets" / str(number)
        if count < most:
            what = f"{file} is damaged: it lists only {count} of {most} sources."
            yield Problem("checkpoint-offsets-damaged", what, _log_fix(file))
        elif mismatch := checksum_mismatch(file):
            yield mismatch
    for number in commits.texts:
        if mismatch := checksum_mismatch(path / "commits" / str(number)):
            yield mismatch


def _order_problems(
    path: Path, offsets: tuple[int, ...], commits: tuple[int, ...]
) -> Iterator[Problem]:
    if not commits:
        # An unfinished first batch is normal; a later one without any commit is not.
        if offsets and offsets[-1] > 0:
            what = f"{path}: batch {offsets[-1]} is planned, but commits/ contains no batches."
            yield Problem("checkpoint-commits-missing", what, RESTORE)
        return
    last = commits[-1]
    if not offsets or last > offsets[-1]:
        newest = f"ends at batch {offsets[-1]}" if offsets else "is empty"
        what = f"{path}: commits/ ends at batch {last}, but offsets/ {newest}."
        yield Problem("checkpoint-commits-ahead", what, RESTORE)
    elif offsets[-1] > last + 1:
        what = (
            f"{path}: offsets/ ends at batch {offsets[-1]}, but the last committed batch is {last}."
        )
        fix = f"{RESTORE} commits/ is missing batches {last + 1} to {offsets[-1] - 1}."
        yield Problem("checkpoint-offsets-ahead", what, fix)
    for kind, numbers in (("offsets", [n for n in offsets if n <= last + 1]), ("commits", commits)):
        if missing := first_gap(numbers):
            what = f"{path}/{kind} ends at batch {numbers[-1]}, but batch {missing} is missing."
            yield Problem(f"checkpoint-{kind}-gap", what, RESTORE)


def _state_problems(path: Path, committed: int | None) -> Iterator[Problem]:
    """After batch N every store has version N + 1: a snapshot and all changes since."""
    if committed is None:
        return
    for operator in numbered_entries(path / "state"):
        for partition in numbered_entries(operator):
            for store in _stores(partition):
                if (missing := _missing_version(store, committed + 1)) is not None:
                    what = (
                        f"{store} lacks version {missing}, which is needed after batch {committed}."
                    )
                    yield Problem("checkpoint-state-missing", what, RESTORE)


def _stores(partition: Path) -> list[Path]:
    """The folder of the partition; for joins, one folder per store below it."""
    if any(_STATE_FILE.fullmatch(p.name) for p in entries(partition)):
        return [partition]
    below = [p for p in entries(partition) if p.is_dir() and not p.name.startswith(("_", "."))]
    return [p for p in below if p.name not in ("SSTs", "logs")] or [partition]


def _missing_version(store: Path, version: int) -> int | None:
    found = [m for p in entries(store) if (m := _STATE_FILE.fullmatch(p.name))]
    whole = {int(m[1]) for m in found if m[2] in ("snapshot", "zip")}
    changes = {int(m[1]) for m in found if m[2] in ("delta", "changelog")}
    while version > 0 and version not in whole:
        if version not in changes:
            return version
        version -= 1
    return None


def _unreadable(path: Path, why: str) -> Problem:
    return Problem(
        "checkpoint-unreadable",
        f"{path} cannot be read: {why}.",
        f"Check the permissions: ls -ld {path}",
    )


def _log_fix(file: Path) -> str:
    return (
        f"{RESTORE} If batch {file.name} is neither committed nor in the sink, you can move"
        f" the file away instead: mv {file} {file.parent.parent}/{file.parent.name}-{file.name}.bad"
    )
