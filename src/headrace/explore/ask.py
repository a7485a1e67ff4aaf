"""A question and its answer: Spark's SQL over committed files, run by DuckDB in this process.

Invariant: one SELECT, read-only, over tables by their names (`guard` judges). DuckDB itself may
open the files of these tables and nothing else, and has no network.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from headrace.define.sql import too_deep
from headrace.errors import SqlError
from headrace.explore import guard, live
from headrace.explore.answer import Answer, AsOf
from headrace.explore.names import Names
from headrace.explore.scan import USE_SPARK, Scan, quoted, scan
from headrace.explore.translate import Translated, translated

if TYPE_CHECKING:
    import duckdb

ROWS_MAX = 1000
TIMEOUT_S = 60.0
THREADS_MAX = 8  # each one needs memory of its own
PATHS_MAX = 1000
FDS = "/dev/fd/"  # open files by number: see live.opened
_VARYING = re.compile(r"schema mismatch|union_by_name", re.IGNORECASE)


def prepare() -> None:
    """Load what answers, so that the first question need not wait for it."""
    import duckdb
    import sqlglot.optimizer.scope  # noqa: F401

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
                scans[key] = scan(table, held, is_confined=names.is_confined)
            return _view(list(scans).index(key))

        asked = translated(text, view_of)
        try:
            columns, types, rows = _run(asked, scans.values(), rows_max, timeout_s)
        except _VaryingError:
            columns, types, rows = _run(asked, scans.values(), rows_max, timeout_s, is_varying=True)
        except RecursionError as exc:
            raise too_deep(SqlError) from exc
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
    """A name that no question has of its own: `guard` refuses such a common table expression."""
    return f"headrace:{number}"


class _VaryingError(Exception):
    """The files of one table do not have the same columns."""


def _run(
    asked: Translated,
    scans: Collection[Scan],
    rows_max: int,
    timeout_s: float,
    *,
    is_varying: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...], list[tuple[Any, ...]]]:
    import duckdb

    views = {_view(number): one for number, one in enumerate(scans)}
    with _connected() as conn, _ended_after(conn, timeout_s):
        try:
            for view, one in views.items():
                conn.execute(f"SET VARIABLE {quoted(view)} = $files", {"files": list(one.files)})
            _lock(conn, [path for one in scans for path in one.files])
            guard.check(_tree(conn, asked.sql()), set(views))
            # Not views of DuckDB's: these would look up all files once more.
            texts = {
                view: one.text(view, is_varying=is_varying or _varies(conn, one))
                for view, one in views.items()
            }
            found = conn.execute(asked.sql(texts))
            described = found.description or []
            rows = found.fetchmany(rows_max + 1)
        except duckdb.InterruptException as exc:
            raise SqlError(
                f"There was no answer within {timeout_s:g} s.",
                fix="Ask for less (a WHERE on a partition column), or give it --timeout",
                slug="sql-timeout",
            ) from exc
        except (duckdb.OutOfMemoryException, MemoryError) as exc:
            raise out_of_memory() from exc
        except duckdb.Error as exc:
            if _VARYING.search(str(exc)) and not is_varying:
                raise _VaryingError from exc
            raise _told(exc) from exc
    return tuple(d[0] for d in described), tuple(str(d[1]) for d in described), rows


def _tree(conn: duckdb.DuckDBPyConnection, sql: str) -> Any:
    conn.extract_statements(sql)  # raises for a mistake, with its place in the text
    found = conn.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchone()
    return json.loads(found[0]) if found else {}


def out_of_memory() -> SqlError:
    return SqlError(
        "The question needs more memory than it may have.",
        fix="Ask for less (a WHERE on a partition column, a LIMIT), or ask Spark: "
        "headrace sql --spark",
        slug="sql-memory",
    )


def _varies(conn: duckdb.DuckDBPyConnection, one: Scan) -> bool:
    """Whether the newest file has other columns than the first: a later version of the query."""
    if one.table.sink.kind != "parquet" or len(one.files) < 2:
        return False
    first, last = (
        conn.execute("DESCRIBE FROM read_parquet($file)", {"file": [path]}).fetchall()
        for path in (one.files[0], one.files[-1])
    )
    return first != last


def _connected() -> duckdb.DuckDBPyConnection:
    import duckdb

    threads = min(os.cpu_count() or 1, THREADS_MAX)
    conn = duckdb.connect(":memory:", config={"threads": threads})
    conn.execute("SET TimeZone = 'UTC'")
    conn.execute("SET temp_directory = ''")  # nothing is written, also not by a large question
    conn.execute("SET python_enable_replacements = false")  # no variable of ours is a table
    return conn


def _lock(conn: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """Where there are many files, by their folders: ten thousand paths would take longer than most
    answers. What is read there is still what a scan lists, since no question can name a file.

    DuckDB looks behind links, here and whenever it opens a file. So a file or folder that has
    become a link is noticed here, and one that becomes a link later is refused.
    """
    opened = [path for path in files if path.startswith(FDS)]
    # Of an open file whose name is gone by then (a live table has a newer snapshot) DuckDB finds
    # the link itself, which is in this folder.
    numbers = [f"{os.path.realpath(FDS)}/"] if opened else []
    paths, folders = list(files), list(numbers)
    if len(files) > PATHS_MAX:
        paths = opened
        folders += sorted({f"{path.rpartition('/')[0]}/" for path in files if path not in opened})
    meant = {*paths, *folders, *(os.path.realpath(path) for path in opened)}
    conn.execute("SET allowed_paths = $paths", {"paths": paths})
    conn.execute("SET allowed_directories = $folders", {"folders": folders})
    conn.execute("SET autoload_known_extensions = false")
    conn.execute("SET enable_external_access = false")
    conn.execute("SET lock_configuration = true")
    told = conn.execute(
        "SELECT current_setting('allowed_paths') || current_setting('allowed_directories')"
    ).fetchone()
    for path in told[0] if told else ():
        if path not in meant and not path.startswith(tuple(numbers)):
            raise live.misplaced(path)


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
    if "expression depth" in text:
        return too_deep(SqlError)
    kind, _, told = text.partition(": ")
    lines = [line.strip() for line in (told or kind).splitlines() if line.strip()]
    is_missing = isinstance(exc, duckdb.ParserException | duckdb.CatalogException)
    return SqlError(
        f"The question cannot be answered: {lines[0] if lines else kind}",
        why=" ".join(lines[1:]) or None,
        fix=USE_SPARK if is_missing else "headrace sql without a question lists tables and columns",
        slug="sql-failed",
    )
