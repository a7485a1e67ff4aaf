"""Opens the newest snapshot of a live table.

Invariant: a newer snapshot may replace it at any moment, which deletes the file. So it is opened at
once and read through the open file, or copied.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from headrace.connectors import live_snapshots
from headrace.errors import SqlError

KIND = "live"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole table after a batch; `at` is when that batch was committed."""

    path: str
    batch: int | None
    at: float


def open_snapshot(folder: Path, held: ExitStack) -> Snapshot | None:
    """The newest, readable while `held` is open; None if there is no snapshot yet."""
    file = live_snapshots.read(folder, open_itself)
    if file is None:
        return None
    number = held.enter_context(file).fileno()
    path = f"/dev/fd/{number}"  # stays valid when the file is deleted
    metadata = _metadata(path)
    batch, at = metadata.get("batch"), metadata.get("at")
    at = float(at) if isinstance(at, int | float) else os.fstat(number).st_mtime
    return Snapshot(path, batch if isinstance(batch, int) else None, at)


def open_itself(path: Path) -> BinaryIO:
    """Does not follow a link."""
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))
    except OSError as exc:
        if exc.errno != errno.ELOOP:
            raise
        raise misplaced_file_error(str(path)) from exc


def misplaced_file_error(path: str) -> SqlError:
    return SqlError(
        f"{path} cannot be read: it is a symbolic link, or it is outside the table's folder.",
        why="A symbolic link could expose any file that this account can read.",
        where=path,
        fix="Replace the link with the file itself, or move the file into the table's folder.",
        slug="misplaced-file",
    )


def copy_snapshot(folder: Path, copy: Path) -> Snapshot | None:
    """Copies the newest for another process."""
    with ExitStack() as held:
        snapshot = open_snapshot(folder, held)
        if snapshot is None:
            return None
        shutil.copyfile(snapshot.path, copy)
        return replace(snapshot, path=str(copy))


def _metadata(path: str) -> dict[str, Any]:
    """The metadata that the sink stored in the file."""
    import duckdb

    query = "SELECT decode(value) FROM parquet_kv_metadata($file) WHERE key = $key"
    with duckdb.connect(":memory:") as conn:
        try:
            parameters = {"file": path, "key": live_snapshots.METADATA}
            row = conn.execute(query, parameters).fetchone()
            metadata = json.loads(row[0]) if row else {}
        except (duckdb.Error, ValueError):
            return {}  # damaged: the query reports it
    return metadata if isinstance(metadata, dict) else {}
