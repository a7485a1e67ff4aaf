"""Reads and writes small JSON files, and other files that processes exchange, so that they survive
a crash. Invariant: a reader sees the old content or the new, never a part of either.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from headrace.errors import StoreError

T = TypeVar("T")


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """TypeError (not JSON) passes through, like the errors of `write_file`."""
    content = (json.dumps(body, indent=2) + "\n").encode("ascii")
    write_file(path, lambda file: file.write(content))


def write_file(
    path: Path,
    fill: Callable[[BinaryIO], object],
    *,
    mode: int = 0o600,
    is_only_writer: bool = False,
) -> None:
    """Temp file beside the target, fsync, rename, fsync of the folder. Creates missing folders.

    OSError (full disk, read-only) passes through; the old file then stays. The only writer of a
    folder also deletes the temp files of a process that was killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden and ending in .tmp: readers that list the folder never see half a file.
    temp = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode), "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise
    _sync_folder(path.parent)
    for left in path.parent.glob(".*.tmp") if is_only_writer else ():
        left.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any] | None:
    """None if the file does not exist; StoreError "bad-json-file" if it is not a JSON object."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StoreError(
            f"{path.name} cannot be read: {exc.strerror or exc}.",
            where=str(path),
            fix=f"Make {path} readable by this user.",
            slug="unreadable-file",
        ) from exc
    try:
        body = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise _bad(path, content, str(exc)) from exc
    if not isinstance(body, dict):
        raise _bad(path, content, f"It contains a {type(body).__name__}, not an object.")
    return body


def read_valid(path: Path, parse: Callable[[dict[str, Any]], T]) -> T | None:
    """The parsed content; None if the file is missing, empty, unreadable or invalid."""
    try:
        body = read_json(path)
        return parse(body) if body else None
    except (StoreError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _sync_folder(path: Path) -> None:
    """Make a rename durable. File systems that do not support it are skipped."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _bad(path: Path, content: bytes, why: str) -> StoreError:
    size = len(content)
    return StoreError(
        f"{path.name} is not a JSON object ({size} bytes, starting with {content[:40]!r}).",
        why=why,
        where=str(path),
        fix=f"If the file is not needed, move it out of the way: mv {path} {path}.bad",
        slug="bad-json-file",
    )
