"""Sets aside a damaged database file and saves what can be read.

Invariant: only the oldest set-aside copies of the history are deleted.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from headrace.errors import StoreError

# SQLite's names of errors in the file itself (not a lock, not a full disk).
DAMAGE = (
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
    "SQLITE_IOERR_READ",
    "SQLITE_IOERR_SHORT_READ",
    "SQLITE_IOERR_CORRUPTFS",
)
COPIES_MAX = 3
_SUFFIXES = ("", "-wal", "-shm")


def is_damage(exc: sqlite3.Error, path: Path) -> bool:
    name = getattr(exc, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_CANTOPEN"):
        # A folder, or a file without read permission. Else the error is in its folder.
        return path.is_dir() or (path.exists() and not os.access(path, os.R_OK | os.W_OK))
    return name.startswith(DAMAGE)


def set_aside(path: Path, now: float) -> Path:
    """Rename to NAME.corrupt-TIME, with its -wal and -shm, for inspection."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    try:
        for suffix in _SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{target}{suffix}")
    except OSError as exc:
        raise StoreError(
            f"{path.name} is unusable and could not be renamed: {exc.strerror}.",
            where=str(path),
            fix="Check the owner of the state folder, and whether its disk is read-only. Then "
            f"run: mv {path} {target}",
            slug="store-unwritable",
        ) from exc
    return target


def forget_oldest(path: Path) -> None:
    """Keep the newest copies: repeated damage must not fill the disk."""
    copies = sorted(
        p
        for p in path.parent.glob(f"{glob.escape(path.name)}.corrupt-*")
        if p.is_file() and not p.name.endswith(_SUFFIXES[1:])
    )
    for copy in copies[:-COPIES_MAX]:
        for suffix in _SUFFIXES:
            with contextlib.suppress(OSError):
                os.unlink(f"{copy}{suffix}")


def salvage_alerts(damaged: Path, conn: sqlite3.Connection) -> int:
    """Copy each table up to the first unreadable page. Returns the number of alerts."""
    old: sqlite3.Connection | None = None
    kept = 0
    with contextlib.suppress(sqlite3.Error):
        uri = f"file:{quote(str(damaged.absolute()))}?mode=ro"
        old = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
        old.execute("PRAGMA writable_schema = 1")  # reads even if the end of the file is missing
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        # In one transaction, for speed. Without the numbers of batches and the
        # positions, stored rows would be stored again.
        conn.execute("BEGIN IMMEDIATE")
        _copy_table(old, conn, "taken_batches", "query_id")
        _copy_table(old, conn, "topic_positions", "rowid")
        found = _copy_table(old, conn, "alerts", "rowid")
        _copy_table(old, conn, "topic_rows", "twin")
        for table, by in (
            ("change_readers", "reader"),
            ("alert_changes", "id"),
            ("deliveries", "id"),
            ("silences", "id"),
        ):
            _copy_table(old, conn, table, by)
        conn.execute("COMMIT")
        kept = found
    if conn.in_transaction:  # the disk is full
        with contextlib.suppress(sqlite3.Error):
            conn.execute("ROLLBACK")
    if old is not None:
        old.close()
    return kept


def _copy_table(old: sqlite3.Connection, conn: sqlite3.Connection, table: str, by: str) -> int:
    """The common columns: the old file may have an earlier version, or lack the table."""
    kept = 0
    with contextlib.suppress(sqlite3.Error):
        known = [{row[1] for row in c.execute(f"PRAGMA table_info({table})")} for c in (old, conn)]
        if not (columns := sorted(known[0] & known[1])):
            return 0
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        for row in old.execute(f"SELECT {names} FROM {table} ORDER BY {by}"):  # noqa: S608
            into = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
            kept += conn.execute(into, row).rowcount
    return kept
