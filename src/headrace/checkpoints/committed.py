"""Which files of a file sink count: exactly those that its log, `_spark_metadata`, has committed.

Read by SQL, by readers of a stream's output, and by `sinks` before a start. A plain listing of the
folder also shows files of batches that were cut half-way. The log is `N` a batch and, every tenth,
`N.compact`: all so far.
Invariant: reads only; either the whole truth of one moment, or an error, never a part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from headrace.checkpoints.problems import first_gap
from headrace.errors import ConnectorError

T = TypeVar("T")

LOG = "_spark_metadata"
_CODED = re.compile("[%?#]")
_TRIES = 5  # Spark deletes old entries while we read; then a newer compact one is there


@dataclass(frozen=True, slots=True)
class Committed:
    path: str  # absolute; with its scheme if it is not a local file
    batch: int | None  # None: only a compact entry knows it, and that does not tell
    size: int


def files(path: Path, *, with_batches: bool = True) -> list[Committed]:
    """In the order of the log. [] for a sink to which nothing was written yet.

    `with_batches=False` is quicker: only the newest compact entry and what follows it is read.
    """
    log = path / LOG
    if not log.is_dir():
        if _has_data(path):
            raise ConnectorError(
                f"{path} has files but no {LOG}: what is committed in it cannot be known.",
                why="it was not written by a streaming query, or its log was deleted",
                where=str(path),
                fix="read it as plain files, or name the folder that a stream writes to",
                slug="no-commit-log",
            )
        return []
    return _retried(log, lambda: _read(log, with_batches))


def last_batch(path: Path) -> int | None:
    """The newest batch in the log, None if it has none. Raises if an entry that still counts is
    missing or damaged; only a compact one, which may be large, is taken as it is."""
    log = path / LOG
    return _retried(log, lambda: _last_batch(log)) if log.is_dir() else None


def newest(path: Path) -> tuple[float | None, int | None]:
    """When the newest entry of the log was written, and its batch; Nones where there is none."""
    for _ in range(_TRIES):
        try:
            return _newest(path / LOG)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None, None


def _newest(log: Path) -> tuple[float | None, int | None]:
    entries = [(int(p.name.partition(".")[0]), p) for p in log.iterdir() if p.name[0].isdigit()]
    if not entries:
        return None, None
    batch, file = max(entries)
    return file.stat().st_mtime, batch


def _retried(log: Path, read: Callable[[], T]) -> T:
    for _ in range(_TRIES - 1):
        try:
            return read()
        except FileNotFoundError:
            continue
    try:
        return read()
    except FileNotFoundError as exc:
        raise _damaged(Path(exc.filename or log), "it vanished while it was read") from exc


def _last_batch(log: Path) -> int | None:
    base, later = _current(log, *_numbers(log))
    for number in later:
        _entries(log / str(number))
    return later[-1] if later else base


def _has_data(path: Path) -> bool:
    if not path.is_dir():
        return path.exists()
    return any(not p.name.startswith((".", "_")) for p in path.iterdir())


def _read(log: Path, with_batches: bool) -> list[Committed]:
    plain, compact = _numbers(log)
    base, later = _current(log, plain, compact)
    found: dict[str, Committed] = {}
    deleted: set[str] = set()
    if base is not None:
        batches = _batches_before(log, compact, plain) if with_batches else {}
        for entry in _entries(log / f"{base}.compact"):
            _apply(entry, batches.get(entry["path"]), found, deleted)
    for number in later:
        for entry in _entries(log / str(number)):
            _apply(entry, number, found, deleted)
    return [one for uri, one in found.items() if uri not in deleted]


def _numbers(log: Path) -> tuple[set[int], list[int]]:
    """Of the plain entries, and of the compact ones in order."""
    names = {p.name for p in log.iterdir()}
    plain = {int(n) for n in names if re.fullmatch(r"[0-9]+", n)}
    compact = sorted(int(m[1]) for n in names if (m := re.fullmatch(r"([0-9]+)\.compact", n)))
    return plain, compact


def _current(log: Path, plain: set[int], compact: list[int]) -> tuple[int | None, list[int]]:
    """What counts: the newest compact entry, and the plain ones after it."""
    base = compact[-1] if compact else None
    later = sorted(n for n in plain if base is None or n > base)
    missing = first_gap([-1 if base is None else base, *later])
    if missing is not None:
        raise ConnectorError(
            f"{log} lacks the entry {missing}, but has the entry {later[-1]}.",
            why="an entry of the log was deleted; what is committed cannot be known",
            where=str(log),
            fix=f"restore {log} from a backup",
            slug="commit-log-gap",
        )
    return base, later


def _batches_before(log: Path, compact: list[int], plain: set[int]) -> dict[str, int]:
    """Which batch a compact entry's file came from, as far as older entries are still there.

    What is in a compact entry and in none before it is new in that very batch, if all that it was
    made of is still there: the compact one before it, and every number in between.
    """
    batches: dict[str, int] = {}
    seen: set[str] = set()
    first = 0
    try:
        for base in compact:
            for number in sorted(n for n in plain if first <= n < base):
                batches.update({entry["path"]: number for entry in _entries(log / str(number))})
            here = {entry["path"] for entry in _entries(log / f"{base}.compact")}
            if all(n in plain for n in range(first, base)):
                batches.update({uri: base for uri in here - seen - batches.keys()})
            seen |= here
            first = base + 1
    except (FileNotFoundError, ConnectorError):
        return {}  # being cleaned up, or torn: they no longer count, only the newest compact one
    return batches


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as exc:
        raise _damaged(file, f"it is not UTF-8 text (byte {exc.start})") from exc
    except IsADirectoryError as exc:
        raise _damaged(file, "it is a folder") from exc
    if lines[0] != "v1":
        raise _damaged(file, f"it begins {lines[0][:40]!r}, not v1")
    told = [line for line in lines[1:] if line]
    entries = _parsed(file, told)
    for line, entry in zip(told, entries, strict=True):
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise _damaged(file, f"a line names no path ({line[:60]!r})")
        if entry.get("action") not in ("add", "delete") or not isinstance(entry.get("size"), int):
            raise _damaged(file, f"a line has no known action or size ({line[:60]!r})")
    return entries


def _parsed(file: Path, lines: list[str]) -> list[Any]:
    """All at once, since there may be many; one by one if that fails, to say which one it is."""
    try:
        found: list[Any] = json.loads(f"[{','.join(lines)}]")
        if len(found) == len(lines):
            return found
    except (ValueError, RecursionError):
        pass
    return [_line(file, line) for line in lines]


def _line(file: Path, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise _damaged(file, f"a line is not JSON ({line[:60]!r})") from exc


def _apply(
    entry: dict[str, Any], batch: int | None, found: dict[str, Committed], deleted: set[str]
) -> None:
    uri = entry["path"]
    if entry["action"] == "delete":
        deleted.add(uri)  # for good, as in Spark: names are never used twice
    elif not entry.get("isDir", False):
        found[uri] = Committed(path=_decoded(uri), batch=batch, size=entry["size"])


def _decoded(uri: str) -> str:
    if uri.startswith("file:///") and not _CODED.search(uri):
        return uri.removeprefix("file://")  # nearly always, and then quick
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"


def _damaged(file: Path, why: str) -> ConnectorError:
    return ConnectorError(
        f"{file} is damaged: {why}.",
        why="what is committed cannot be known without it",
        where=str(file),
        fix=f"restore {file.parent} from a backup",
        slug="commit-log-damaged",
    )
