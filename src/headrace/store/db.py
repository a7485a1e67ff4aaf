"""Opens the two SQLite files; `transaction` writes, `rows` and `read` read.

Invariant: `open_history` and `open_alerts` give a working database or raise StoreError. A file that
is damaged is renamed (never deleted) and replaced, and `conn.note` says so (`store/recovery.py`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from headrace.errors import StoreError
from headrace.store import migrations, recovery

T = TypeVar("T")

BUSY_S = 5.0
WAL_BYTES_MAX = 16 * 1024 * 1024


class Store(sqlite3.Connection):
    """A connection that knows its file. `note`: a repair at opening, for the log."""

    path: Path
    inode: int = 0
    note: str | None = None


class _UnusableError(Exception):
    """The file is not a database of Headrace, or it is damaged; it is set aside."""


def open_history(path: Path, clock: Callable[[], float] = time.time) -> Store:
    return _open(path, migrations.HISTORY, clock)


def open_alerts(path: Path, clock: Callable[[], float] = time.time) -> Store:
    """Alerts are not disposable: readable rows of a damaged file are copied."""
    return _open(path, migrations.ALERTS, clock)


def read(path: Path, ask: Callable[[Store], T], *, is_optional: bool = False) -> T | None:
    """The result of `ask`; None if there is no store yet. If the store cannot be read: StoreError,
    or None if the result `is_optional`."""
    try:
        with contextlib.closing(open_readonly(path)) as conn:
            return ask(conn)
    except StoreError as exc:
        if is_optional or exc.code == "no-store":
            return None
        raise


def open_readonly(path: Path) -> Store:
    """Never creates, changes or sets aside a file. Readers use `read`, which closes it."""
    if not path.exists():
        raise StoreError(
            f"{path.name} does not exist yet.",
            why="The supervisor creates it on its first run.",
            where=str(path),
            fix="headrace up",
            slug="no-store",
        )
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    conn: Store | None = None
    try:
        conn = _connect(uri, path, uri=True)
        conn.execute("PRAGMA query_only = 1")
        version = conn.execute("PRAGMA user_version").fetchone()[0]
        application_id = conn.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.Error as exc:
        if conn is not None:
            conn.close()
        raise to_store_error(exc, path) from exc
    schema = next(
        (s for s in (migrations.HISTORY, migrations.ALERTS) if s.application_id == application_id),
        None,
    )
    if schema is None or version != len(schema.steps):
        conn.close()
        if schema is not None and version > len(schema.steps):
            raise _newer(path, version, schema)
        raise StoreError(
            f"{path.name} has schema {version}, which this version of Headrace cannot read.",
            why="When the supervisor starts, it upgrades the file or replaces it with a new one.",
            where=str(path),
            fix="headrace up",
            slug="no-store",
        )
    return conn


@contextlib.contextmanager
def transaction(conn: Store) -> Iterator[Store]:
    """All or nothing. A nested one joins the outer one, so that callers can bundle writes."""
    if conn.in_transaction:
        yield conn
        return
    try:
        conn.execute("BEGIN IMMEDIATE")
        yield conn
        conn.execute("COMMIT")
    except sqlite3.Error as exc:
        _roll_back(conn)
        raise to_store_error(exc, conn.path) from exc
    except UnicodeEncodeError as exc:
        _roll_back(conn)
        raise StoreError(
            f"{exc.object!r} cannot be stored: it is not valid Unicode.",
            why=str(exc),
            where=str(conn.path),
            fix="Replace the invalid characters. If this is a file name, rename the file.",
            slug="bad-text",
        ) from exc
    except BaseException:
        _roll_back(conn)
        raise


def rows(conn: Store, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
    try:
        return conn.execute(sql, values).fetchall()
    except sqlite3.Error as exc:
        raise to_store_error(exc, conn.path) from exc


def is_in_place(conn: Store) -> bool:
    """False if the file was deleted or replaced: writes would be lost."""
    try:
        return os.stat(conn.path).st_ino == conn.inode
    except OSError:
        return False


def to_store_error(exc: sqlite3.Error, path: Path) -> StoreError:
    """SQLite's error as ours. "store-broken" means: close and open again (sets it aside)."""
    name = getattr(exc, "sqlite_errorname", None) or ""
    slug, what, fix = next(
        (words for *words, prefixes in _EXPLANATIONS if name.startswith(prefixes)),
        (
            "store",
            "could not be used",
            "Fix the cause, then run `headrace up`, which opens the file again.",
        ),
    )
    return StoreError(
        f"{path.name} {what}.",
        why=f"{exc} ({name or 'sqlite'})",
        where=str(path),
        fix=fix,
        slug=slug,
    )


# Slug, what, fix, and the prefixes of SQLite's error names.
_EXPLANATIONS = (
    (
        "store-locked",
        f"is locked by another process (waited {BUSY_S:g} s)",
        "Close other programs that write to it, such as an open sqlite3 shell.",
        ("SQLITE_BUSY", "SQLITE_LOCKED"),
    ),
    (
        "store-broken",
        "is damaged",
        "Run `headrace down && headrace up`, which renames the file and creates a new one.",
        recovery.DAMAGE,
    ),
    (
        "store-full",
        "cannot grow: the disk is full",
        "Free some disk space. No other action is needed.",
        ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE"),
    ),
    (
        "store-unwritable",
        "could not be opened or written",
        "Check the owner of the state folder, and whether its disk is read-only.",
        ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR"),
    ),
)


def _open(path: Path, schema: migrations.Schema, clock: Callable[[], float]) -> Store:
    problem = ""
    for _ in range(2):  # the second time it is a new file
        try:
            conn = _ready(path, schema)
        except _UnusableError as exc:
            problem = str(exc)
            moved = recovery.set_aside(path, clock())
        else:
            break
    else:
        raise StoreError(
            f"{path.name} could not be recreated.",
            why=problem,
            where=str(path),
            fix="Check the disk that holds the state folder.",
            slug="store-broken",
        )
    if problem:
        conn.note = (
            f"{path.name} was unusable ({problem}); renamed it to {moved.name} "
            "and created a new one"
        )
        if schema.disposable:
            recovery.forget_oldest(path)
        else:
            kept = recovery.salvage_alerts(moved, conn)
            conn.note += f", {kept} alert{'' if kept == 1 else 's'} recovered"
    return conn


def _ready(path: Path, schema: migrations.Schema) -> Store:
    """Connect, check, migrate; _UnusableError if the file itself is damaged."""
    conn: Store | None = None
    try:
        _create_private(path)
        conn = _connect(str(path), path)
        _check(conn, schema)
        _retry_while_locked(partial(_configure, conn, schema))
        _retry_while_locked(partial(_migrate, conn, schema))
        conn.inode = os.stat(path).st_ino
    except BaseException as exc:
        if conn is not None:
            conn.close()
        if isinstance(exc, sqlite3.Error):
            if recovery.is_damage(exc, path):
                raise _UnusableError(str(exc)) from exc
            raise to_store_error(exc, path) from exc
        if isinstance(exc, OSError):
            raise StoreError(
                f"{path.name} could not be created: {exc.strerror}.",
                where=str(path),
                fix="Check the owner of the state folder, and whether its disk is full or "
                "read-only.",
                slug="store-unwritable",
            ) from exc
        raise
    return conn


def _create_private(path: Path) -> None:
    """Only the owner may read it; SQLite gives -wal and -shm the same mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _connect(target: str, path: Path, *, uri: bool = False) -> Store:
    conn = sqlite3.connect(target, timeout=BUSY_S, isolation_level=None, uri=uri, factory=Store)
    conn.path = path
    conn.row_factory = sqlite3.Row
    # A flipped bit inside a text must not fail a whole listing.
    conn.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return conn


def _check(conn: Store, schema: migrations.Schema) -> None:
    result = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
    if result != "ok":
        raise _UnusableError(str(result).replace("\n", " "))
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    application_id = conn.execute("PRAGMA application_id").fetchone()[0]
    tables = _tables(conn)
    if application_id != schema.application_id:
        if tables or application_id:
            raise _UnusableError(f"it belongs to another program: {', '.join(sorted(tables)[:5])}")
    elif version > len(schema.steps):
        if schema.disposable:
            raise _UnusableError(
                "it was written by a newer Headrace "
                f"(schema {version} instead of {len(schema.steps)})"
            )
        raise _newer(conn.path, version, schema)
    elif version == len(schema.steps) and not schema.tables <= tables:
        raise _UnusableError(f"it lacks the table {min(schema.tables - tables)}")


def _configure(conn: Store, schema: migrations.Schema) -> None:
    conn.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only has an effect on a new file
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute(f"PRAGMA synchronous = {'NORMAL' if schema.disposable else 'FULL'}")
    conn.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")


def _migrate(conn: Store, schema: migrations.Schema) -> None:
    conn.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have migrated in between.
        done = conn.execute("PRAGMA user_version").fetchone()[0]
        for step in schema.steps[done:]:
            for statement in step:
                conn.execute(statement)
        if done < len(schema.steps):
            conn.execute(f"PRAGMA application_id = {schema.application_id}")
            conn.execute(f"PRAGMA user_version = {len(schema.steps)}")
        conn.execute("COMMIT")
    except BaseException:
        _roll_back(conn)
        raise


def _retry_while_locked(step: Callable[[], None]) -> None:
    """Switching to WAL ignores the busy timeout."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            return step()
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _tables(conn: Store) -> set[str]:
    found = conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {row["name"] for row in found if not row["name"].startswith("sqlite_")}


def _roll_back(conn: Store) -> None:
    with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back by itself on some errors
        conn.execute("ROLLBACK")


def _newer(path: Path, version: int, schema: migrations.Schema) -> StoreError:
    return StoreError(
        f"{path.name} was written by a newer version of Headrace (schema {version}; the installed "
        f"version supports schema {len(schema.steps)}).",
        why="Open alerts would be lost if an older version used the file.",
        where=str(path),
        fix=f"Install the newer version again, or move {path} elsewhere to start with a new file.",
        slug="store-newer",
    )
