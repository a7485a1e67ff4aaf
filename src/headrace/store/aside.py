"""What happens to a database file that cannot be used: it is renamed, and what can be saved is.

Read by `store/db.py`. Invariant: nothing is deleted here but the oldest set-aside copies of the
history.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from headrace.errors import StoreError

# The file itself is the trouble (not a lock, not a full disk): SQLite's names for it.
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
        # In the way: a folder, or a file that we may not read. Else its folder is the trouble.
        return path.is_dir() or (path.exists() and not os.access(path, os.R_OK | os.W_OK))
    return name.startswith(DAMAGE)


def set_aside(path: Path, now: float) -> Path:
    """Rename to NAME.corrupt-TIME, with its -wal and -shm, so that it can still be looked into."""
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
            f"{path.name} is damaged and cannot be set aside: {exc.strerror}.",
            where=str(path),
            fix=f"mv {path} {target}",
            slug="store-unwritable",
        ) from exc
    return target


def forget_oldest(path: Path) -> None:
    """Keep the newest copies: a disk that breaks files again and again must not fill up."""
    copies = sorted(
        p
        for p in path.parent.glob(f"{_literal(path.name)}.corrupt-*")
        if p.is_file() and not p.name.endswith(_SUFFIXES[1:])
    )
    for copy in copies[:-COPIES_MAX]:
        for suffix in _SUFFIXES:
            with contextlib.suppress(OSError):
                os.unlink(f"{copy}{suffix}")


def salvage_alerts(damaged: Path, conn: sqlite3.Connection) -> int:
    """Copy what can still be read: of each table up to a page that cannot. How many alerts."""
    old: sqlite3.Connection | None = None
    kept = 0
    with contextlib.suppress(sqlite3.Error):
        uri = f"file:{quote(str(damaged.absolute()))}?mode=ro"
        old = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
        old.execute("PRAGMA writable_schema = 1")  # reads on where the file's end is missing
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        # In one: each row by itself would wait for the disk. Without the numbers of batches and the
        # places, rows that were taken would be taken again.
        conn.execute("BEGIN IMMEDIATE")
        _copied(old, conn, "taken_batches", "query_id")
        _copied(old, conn, "topic_positions", "rowid")
        found = _copied(old, conn, "alerts", "rowid")
        _copied(old, conn, "topic_rows", "twin")
        conn.execute("COMMIT")
        kept = found
    if conn.in_transaction:  # the disk is full
        with contextlib.suppress(sqlite3.Error):
            conn.execute("ROLLBACK")
    if old is not None:
        old.close()
    return kept


def _copied(old: sqlite3.Connection, conn: sqlite3.Connection, table: str, by: str) -> int:
    """The columns that both have: the old file may be of an earlier version. None of a table that
    it does not know."""
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


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
