"""The committed files of a file sink, from its log `_spark_metadata`.

Used by SQL, by readers of a stream's output, and by `sink_mismatch` before a start. A listing of
the folder also shows files of failed batches. The log has an entry `N` for each batch, and for
every tenth batch `N.compact` with all entries so far.
Invariant: reads only; returns a consistent state or raises, never a part.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from headrace.checkpoints.file_checks import first_gap
from headrace.errors import ConnectorError

T = TypeVar("T")

LOG = "_spark_metadata"
_CODED = re.compile("[%?#]")
_TRIES = 5  # Spark may delete entries while they are read, after it wrote a compact one


@dataclass(frozen=True, slots=True)
class CommittedFile:
    path: str  # absolute; with its scheme if it is not a local file
    batch: int | None  # None if only a compact entry is left, which does not contain it
    size: int


def files(path: Path, *, with_batches: bool = True) -> list[CommittedFile]:
    """In the order of the log; [] before the first batch. `with_batches=False` is faster: it reads
    only the newest compact entry and those after it."""
    log = path / LOG
    if not log.is_dir():
        if _has_data(path):
            raise ConnectorError(
                f"{path} has files but no {LOG}, so Headrace cannot tell which of them are "
                "committed.",
                why="The folder was not written by a streaming query, or its log was deleted.",
                where=str(path),
                fix="Read the folder as plain files, or use a folder that a stream writes to.",
                slug="no-commit-log",
            )
        return []
    return _retry(log, lambda: _read(log, with_batches))


def last_batch(path: Path) -> int | None:
    """The newest batch in the log, None if it is empty. Raises if a current entry is missing or
    damaged; the compact one, which may be large, is not read."""
    log = path / LOG
    return _retry(log, lambda: _last_batch(log)) if log.is_dir() else None


def newest(path: Path) -> tuple[float | None, int | None]:
    """Time and batch of the newest entry; (None, None) for an empty log."""
    log = path / LOG
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            plain, compact = _numbers(log)
            batch = max({*plain, *compact}, default=None)
            if batch is None:
                return None, None
            name = f"{batch}.compact" if batch in compact else str(batch)
            return (log / name).stat().st_mtime, batch
    return None, None


def _retry(log: Path, read: Callable[[], T]) -> T:
    for _ in range(_TRIES - 1):
        try:
            return read()
        except FileNotFoundError:
            continue
    try:
        return read()
    except FileNotFoundError as exc:
        raise _damaged_file(Path(exc.filename or log), "it was deleted while being read") from exc


def _last_batch(log: Path) -> int | None:
    base, later = _current(log, *_numbers(log))
    for number in later:
        _entries(log / str(number))
    return later[-1] if later else base


def _has_data(path: Path) -> bool:
    if not path.is_dir():
        return path.exists()
    return any(not p.name.startswith((".", "_")) for p in path.iterdir())


def _read(log: Path, with_batches: bool) -> list[CommittedFile]:
    plain, compact = _numbers(log)
    base, later = _current(log, plain, compact)
    found: dict[str, CommittedFile] = {}
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
    names = {p.name for p in log.iterdir()}
    plain = {int(n) for n in names if re.fullmatch(r"[0-9]+", n)}
    compact = sorted(int(m[1]) for n in names if (m := re.fullmatch(r"([0-9]+)\.compact", n)))
    return plain, compact


def _current(log: Path, plain: set[int], compact: list[int]) -> tuple[int | None, list[int]]:
    """The current entries: the newest compact one, and the plain ones after it."""
    base = compact[-1] if compact else None
    later = sorted(n for n in plain if base is None or n > base)
    missing = first_gap([-1 if base is None else base, *later])
    if missing is not None:
        raise ConnectorError(
            f"{log} has entry {later[-1]}, but not entry {missing}.",
            why="An entry was deleted, so Headrace cannot tell which files are committed.",
            where=str(log),
            fix=f"Restore {log} from a backup.",
            slug="commit-log-gap",
        )
    return base, later


def _batches_before(log: Path, compact: list[int], plain: set[int]) -> dict[str, int]:
    """The batches of files in compact entries, as far as older entries still exist. A file that
    first appears in a compact entry belongs to the batch of that entry, if all entries that it
    combines still exist: the previous compact one, and every number in between."""
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
        return {}  # deleted or damaged, but these are no longer current
    return batches


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as exc:
        raise _damaged_file(file, f"it is not UTF-8 text (byte {exc.start})") from exc
    except IsADirectoryError as exc:
        raise _damaged_file(file, "it is a folder") from exc
    if lines[0] != "v1":
        raise _damaged_file(file, f"it starts with {lines[0][:40]!r}, not v1")
    body = [line for line in lines[1:] if line]
    entries = _parse_lines(file, body)
    for line, entry in zip(body, entries, strict=True):
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise _damaged_file(file, f"a line has no path ({line[:60]!r})")
        if entry.get("action") not in ("add", "delete") or not isinstance(entry.get("size"), int):
            raise _damaged_file(file, f"a line has no valid action or size ({line[:60]!r})")
    return entries


def _parse_lines(file: Path, lines: list[str]) -> list[Any]:
    """All at once for speed; one by one if that fails, to find the damaged line."""
    with contextlib.suppress(ValueError, RecursionError):
        found: list[Any] = json.loads(f"[{','.join(lines)}]")
        if len(found) == len(lines):
            return found
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as exc:
            raise _damaged_file(file, f"a line is not JSON ({line[:60]!r})") from exc
    return found


def _apply(
    entry: dict[str, Any], batch: int | None, found: dict[str, CommittedFile], deleted: set[str]
) -> None:
    uri = entry["path"]
    if entry["action"] == "delete":
        deleted.add(uri)  # permanently, as in Spark: names are never reused
    elif not entry.get("isDir", False):
        found[uri] = CommittedFile(path=_decode_uri(uri), batch=batch, size=entry["size"])


def _decode_uri(uri: str) -> str:
    if uri.startswith("file:///") and not _CODED.search(uri):
        return uri.removeprefix("file://")  # the common case, fast
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"


def _damaged_file(file: Path, why: str) -> ConnectorError:
    return ConnectorError(
        f"{file} is damaged: {why}.",
        why="Without this file, Headrace cannot tell which files are committed.",
        where=str(file),
        fix=f"Restore {file.parent} from a backup.",
        slug="commit-log-damaged",
    )
