"""A question and its answer: Spark's SQL over committed files, run by DuckDB in this process.

Invariant: one SELECT, read-only, over tables by their names. DuckDB itself is locked into the
folders of these tables, and has no network.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from headrace.errors import SqlError
from headrace.explore.answer import Answer, AsOf
from headrace.explore.names import Names
from headrace.explore.scan import USE_SPARK, Scan, quoted, scan
from headrace.explore.translate import translated

if TYPE_CHECKING:
    import duckdb

ROWS_MAX = 1000
TIMEOUT_S = 60.0
FDS = "/dev/fd/"  # open files by number: see live.opened
_VARYING = re.compile(r"schema mismatch|union_by_name", re.IGNORECASE)


def prepare() -> None:
    """Load what answers, so that the first question need not wait for it."""
    import duckdb

    duckdb.connect(":memory:").close()


def ask(
    text: str, names: Names, *, rows_max: int = ROWS_MAX, timeout_s: float = TIMEOUT_S
) -> Answer:
    begin = time.monotonic()
    scans: dict[str, Scan] = {}
    with ExitStack() as held:

        def view_of(parts: tuple[str, ...]) -> str:
            table = names.find(parts)
            key = f"{table.written_by or table.name} {table.place}"
            if key not in scans:
                scans[key] = scan(table, held)
            return _view(list(scans).index(key))

        sql = translated(text, view_of)
        try:
            columns, types, rows = _run(sql, scans.values(), rows_max, timeout_s)
        except _VaryingError:
            columns, types, rows = _run(sql, scans.values(), rows_max, timeout_s, is_varying=True)
    return Answer(
        columns=columns,
        types=types,
        rows=tuple(rows[:rows_max]),
        is_cut=len(rows) > rows_max,
        took_s=time.monotonic() - begin,
        tables=tuple(
            AsOf(one.table.name, one.at, one.batch, len(one.files)) for one in scans.values()
        ),
    )


def _view(number: int) -> str:
    """A name that no question has of its own, not even for a common table expression."""
    return f"headrace:{number}"


class _VaryingError(Exception):
    """The files of one table do not have the same columns."""


def _run(
    sql: str, scans: Iterable[Scan], rows_max: int, timeout_s: float, *, is_varying: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...], list[tuple[Any, ...]]]:
    import duckdb

    with duckdb.connect(":memory:") as conn, _ended_after(conn, timeout_s):
        try:
            conn.execute("SET TimeZone = 'UTC'")
            for number, one in enumerate(scans):
                view = _view(number)
                conn.execute(f"SET VARIABLE {quoted(view)} = $files", {"files": list(one.files)})
                text = one.text(view, is_varying=is_varying or _varies(conn, one))
                # Not a view of DuckDB's: that would look up all files once more.
                sql = sql.replace(quoted(view), f"({text})")
            _lock(conn, scans)
            (statement,) = conn.extract_statements(sql)
            if statement.type != duckdb.StatementType.SELECT:
                raise SqlError(
                    "Only a SELECT is answered here.",
                    why=f"This came out as {statement.type.name}: looking changes nothing.",
                    fix="Ask one SELECT at a time.",
                    slug="not-a-query",
                )
            found = conn.execute(statement)
            described = found.description or []
            rows = found.fetchmany(rows_max + 1)
        except duckdb.InterruptException as exc:
            raise SqlError(
                f"There was no answer within {timeout_s:g} s.",
                fix="Ask for less (a WHERE on a partition column), or give it --timeout",
                slug="sql-timeout",
            ) from exc
        except duckdb.Error as exc:
            if _VARYING.search(str(exc)) and not is_varying:
                raise _VaryingError from exc
            raise _told(exc) from exc
    return tuple(d[0] for d in described), tuple(str(d[1]) for d in described), rows


def _varies(conn: duckdb.DuckDBPyConnection, one: Scan) -> bool:
    """Whether the newest file has other columns than the first: a later version of the query."""
    if one.table.sink.kind != "parquet" or len(one.files) < 2:
        return False
    first, last = (
        conn.execute("DESCRIBE FROM read_parquet($file)", {"file": [path]}).fetchall()
        for path in (one.files[0], one.files[-1])
    )
    return first != last


def _lock(conn: duckdb.DuckDBPyConnection, scans: Iterable[Scan]) -> None:
    """By folders: ten thousand paths would take longer than most answers. No question can name a
    file (`translate` sees to that), so what is read in a folder is what its scan lists."""
    folders, alone = set(), []
    for one in scans:
        inside = f"{(one.table.place or '').rstrip('/')}/"
        outside = [path for path in one.files if not path.startswith(inside)]
        alone += outside
        folders |= {inside} if len(outside) < len(one.files) else set()
        # DuckDB looks behind links. Of an open file whose name is gone by then (a live table has a
        # newer snapshot) it finds the link itself, which is in this folder.
        folders |= {f"{os.path.realpath(FDS)}/" for path in outside if path.startswith(FDS)}
    conn.execute("SET allowed_directories = $folders", {"folders": sorted(folders)})
    conn.execute("SET allowed_paths = $paths", {"paths": alone})
    conn.execute("SET enable_external_access = false")
    conn.execute("SET lock_configuration = true")


@contextmanager
def _ended_after(conn: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, conn.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _told(exc: duckdb.Error) -> SqlError:
    """DuckDB's first sentence; where it lacks what Spark has, Spark is the way."""
    import duckdb

    text = str(exc).split("\n\nLINE ")[0].strip()
    kind, _, told = text.partition(": ")
    lines = [line.strip() for line in (told or kind).splitlines() if line.strip()]
    is_missing = isinstance(exc, duckdb.ParserException | duckdb.CatalogException)
    return SqlError(
        f"The question cannot be answered: {lines[0] if lines else kind}",
        why=" ".join(lines[1:]) or None,
        fix=USE_SPARK if is_missing else "headrace sql without a question lists tables and columns",
        slug="sql-failed",
    )
