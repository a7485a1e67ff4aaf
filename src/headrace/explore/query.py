"""Runs queries in Spark's SQL over committed files, with DuckDB in this process.

Invariant: a single SELECT over named tables (checked by `sql_guard`). DuckDB can open only the
files of these tables, and has no network.
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

from headrace.define.sql_names import too_deep
from headrace.errors import SqlError
from headrace.explore import live_tables, sql_guard
from headrace.explore.catalog import Catalog
from headrace.explore.dialect import Translation, translate
from headrace.explore.result import AsOf, QueryResult
from headrace.explore.scan import USE_SPARK, Scan, quote_identifier, scan

if TYPE_CHECKING:
    import duckdb

ROWS_MAX = 1000
TIMEOUT_S = 60.0
THREADS_MAX = 8  # each needs memory
PATHS_MAX = 1000
FDS = "/dev/fd/"  # open files by number: see live_tables.open_snapshot
_VARYING = re.compile(r"schema mismatch|union_by_name", re.IGNORECASE)


def prepare() -> None:
    """Loads the libraries, so that the first query is fast."""
    import duckdb
    import sqlglot.optimizer.scope  # noqa: F401

    duckdb.connect(":memory:").close()


def ask(
    text: str, names: Catalog, *, rows_max: int = ROWS_MAX, timeout_s: float = TIMEOUT_S
) -> QueryResult:
    begin = time.monotonic()
    scans: dict[str, Scan] = {}
    with ExitStack() as held:

        def view_of(parts: tuple[str, ...]) -> str:
            table = names.find(parts)
            key = f"{table.written_by or table.name} {table.place}"
            if key not in scans:
                scans[key] = scan(table, held, is_confined=names.is_confined)
            return _view(list(scans).index(key))

        query = translate(text, view_of)
        try:
            columns, types, rows = _run(query, scans.values(), rows_max, timeout_s)
        except _VaryingError:
            columns, types, rows = _run(query, scans.values(), rows_max, timeout_s, is_varying=True)
        except RecursionError as exc:
            raise too_deep(SqlError) from exc
    return QueryResult(
        columns=columns,
        types=types,
        rows=tuple(rows[:rows_max]),
        is_cut=len(rows) > rows_max,
        took_s=time.monotonic() - begin,
        tables=tuple(AsOf(s.table.name, s.at, s.batch, len(s.files)) for s in scans.values()),
    )


def _view(number: int) -> str:
    """A name that no query can define: `sql_guard` rejects such common table expressions."""
    return f"headrace:{number}"


class _VaryingError(Exception):
    """The files of one table do not have the same columns."""


def _run(
    query: Translation,
    scans: Collection[Scan],
    rows_max: int,
    timeout_s: float,
    *,
    is_varying: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...], list[tuple[Any, ...]]]:
    import duckdb

    views = {_view(number): source for number, source in enumerate(scans)}
    with _connect() as conn, _interrupt_after(conn, timeout_s):
        try:
            for view, source in views.items():
                conn.execute(
                    f"SET VARIABLE {quote_identifier(view)} = $files", {"files": list(source.files)}
                )
            _restrict(conn, [path for source in scans for path in source.files])
            sql_guard.check(_parse_tree(conn, query.sql()), set(views))
            # Not DuckDB views: these would look up all files once more.
            texts = {
                view: source.text(view, is_varying=is_varying or _has_varying_columns(conn, source))
                for view, source in views.items()
            }
            result = conn.execute(query.sql(texts))
            described = result.description or []
            rows = result.fetchmany(rows_max + 1)
        except duckdb.InterruptException as exc:
            raise SqlError(
                f"The query did not finish within {timeout_s:g} s.",
                fix="Read less data (for example, WHERE on a partition column), or increase "
                "--timeout.",
                slug="sql-timeout",
            ) from exc
        except (duckdb.OutOfMemoryException, MemoryError) as exc:
            raise out_of_memory() from exc
        except duckdb.Error as exc:
            if _VARYING.search(str(exc)) and not is_varying:
                raise _VaryingError from exc
            raise _to_sql_error(exc) from exc
    return tuple(d[0] for d in described), tuple(str(d[1]) for d in described), rows


def _parse_tree(conn: duckdb.DuckDBPyConnection, sql: str) -> Any:
    conn.extract_statements(sql)  # raises for a syntax error, with its position
    row = conn.execute("SELECT json_serialize_sql($sql)", {"sql": sql}).fetchone()
    return json.loads(row[0]) if row else {}


def out_of_memory() -> SqlError:
    return SqlError(
        "The query exceeds the memory limit.",
        fix="Read less data (for example, WHERE on a partition column, or LIMIT), or use Spark: "
        "headrace sql --spark",
        slug="sql-memory",
    )


def _has_varying_columns(conn: duckdb.DuckDBPyConnection, source: Scan) -> bool:
    """The newest file has different columns: a later version of the query wrote it."""
    if source.table.sink.kind != "parquet" or len(source.files) < 2:
        return False
    first, last = (
        conn.execute("DESCRIBE FROM read_parquet($file)", {"file": [path]}).fetchall()
        for path in (source.files[0], source.files[-1])
    )
    return first != last


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    threads = min(os.cpu_count() or 1, THREADS_MAX)
    conn = duckdb.connect(":memory:", config={"threads": threads})
    conn.execute("SET TimeZone = 'UTC'")
    conn.execute("SET temp_directory = ''")  # no query writes to disk
    conn.execute("SET python_enable_replacements = false")  # Python variables are not tables
    return conn


def _restrict(conn: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """Restricts DuckDB to `files`; if there are many, to their folders, because ten thousand paths
    take longer than most queries. A query still reads only the scanned files: it cannot name one.

    DuckDB resolves links, here and whenever it opens a file. So a file or folder that has become a
    link is detected here, and DuckDB rejects one that becomes a link later.
    """
    opened = [path for path in files if path.startswith(FDS)]
    # If the name of an open file has been deleted (a live table has a newer snapshot), DuckDB
    # resolves it to the link itself, which is in this folder.
    numbers = [f"{os.path.realpath(FDS)}/"] if opened else []
    paths, folders = list(files), list(numbers)
    if len(files) > PATHS_MAX:
        paths = opened
        folders += sorted({f"{path.rpartition('/')[0]}/" for path in files if path not in opened})
    expected = {*paths, *folders, *(os.path.realpath(path) for path in opened)}
    conn.execute("SET allowed_paths = $paths", {"paths": paths})
    conn.execute("SET allowed_directories = $folders", {"folders": folders})
    conn.execute("SET autoload_known_extensions = false")
    conn.execute("SET enable_external_access = false")
    conn.execute("SET lock_configuration = true")
    row = conn.execute(
        "SELECT current_setting('allowed_paths') || current_setting('allowed_directories')"
    ).fetchone()
    for path in row[0] if row else ():
        if path not in expected and not path.startswith(tuple(numbers)):
            raise live_tables.misplaced_file_error(path)


@contextmanager
def _interrupt_after(conn: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, conn.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _to_sql_error(exc: duckdb.Error) -> SqlError:
    """DuckDB's message; if DuckDB lacks a feature, the fix is to use Spark."""
    import duckdb

    text = str(exc).split("\n\nLINE ")[0].strip()
    if "expression depth" in text:
        return too_deep(SqlError)
    kind, _, message = text.partition(": ")
    lines = [line.strip() for line in (message or kind).splitlines() if line.strip()]
    is_missing = isinstance(exc, duckdb.ParserException | duckdb.CatalogException)
    return SqlError(
        f"The query failed: {lines[0] if lines else kind}",
        why=" ".join(lines[1:]) or None,
        fix=USE_SPARK
        if is_missing
        else "Run `headrace sql` without a query to list tables and columns.",
        slug="sql-failed",
    )
