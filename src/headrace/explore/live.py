"""A live table as SQL reads it: its newest snapshot, and of when that is.

Used by `ask`, and by a driver that asks Spark. Which file is the newest is for
`connectors/snapshots` to say. Invariant: a snapshot may be deleted at any moment, because newer
ones have come: so it is opened at once, and read by its open file, or copied.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace.connectors import snapshots
from headrace.connectors.live import Live
from headrace.errors import SqlError

KIND = Live.kind


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole table as it was after a batch; `at` is when that was committed."""

    path: str
    batch: int | None
    at: float


def opened(folder: Path, held: ExitStack) -> Snapshot | None:
    """The newest, to be read as long as `held` is open; None while there is none yet."""
    file = snapshots.read(folder, open_itself)
    if file is None:
        return None
    number = held.enter_context(file).fileno()
    # The open file under a name: it stays what it is, whatever becomes of its name in the folder.
    path = f"/dev/fd/{number}"
    said = _metadata(path)
    batch, at = said.get("batch"), said.get("at")
    return Snapshot(
        path,
        batch if isinstance(batch, int) else None,
        float(at) if isinstance(at, int | float) else os.fstat(number).st_mtime,
    )


def open_itself(path: Path) -> BinaryIO:
    """The file, never what a link leads to."""
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))
    except OSError as exc:
        if exc.errno != errno.ELOOP:
            raise
        raise misplaced(str(path)) from exc


def misplaced(path: str) -> SqlError:
    return SqlError(
        f"{path} is not read, because it is a link or lies outside its table's folder.",
        why="A link could show any file that this account may read.",
        where=path,
        fix="Put the file itself in its place.",
        slug="misplaced-file",
    )


def copied(folder: Path, copy: Path) -> Snapshot | None:
    """The newest in a place where it stays, for another process."""
    with ExitStack() as held:
        found = opened(folder, held)
        if found is None:
            return None
        shutil.copyfile(found.path, copy)
        return Snapshot(str(copy), found.batch, found.at)


def _metadata(path: str) -> dict[str, Any]:
    """What the sink has written into the file about it; {} if it says nothing."""
    import duckdb

    question = "SELECT decode(value) FROM parquet_kv_metadata($file) WHERE key = $key"
    with duckdb.connect(":memory:") as conn:
        try:
            given = {"file": path, "key": snapshots.METADATA}
            found = conn.execute(question, given).fetchone()
            said = json.loads(found[0]) if found else {}
        except (duckdb.Error, ValueError):
            return {}  # damaged: the question itself will tell
    return said if isinstance(said, dict) else {}
