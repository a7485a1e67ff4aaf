"""Finds the committed files of a table, and builds the DuckDB SQL that reads exactly these.

Invariant: of a folder that a stream writes, only files in its commit log are read, by their real
paths: links in the folder are resolved and checked once, here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoints import committed_files
from headrace.connectors.files import parquet
from headrace.errors import SqlError
from headrace.explore import live_tables
from headrace.explore.catalog import Table, files_of, not_committed_error

if TYPE_CHECKING:
    from headrace.connectors.files import Files

USE_SPARK = "Use headrace sql --spark, which takes a few seconds to start Spark."
_VARIES = "FROM read_parquet("
_FILES = "$files"
_PLAIN = {"header": "header", "sep": "delim", "delimiter": "delim", "quote": "quote",
          "escape": "escape", "nullValue": "nullstr"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scan:
    """`at` is when the newest rows were committed. `call` is the SQL that reads the files.

    The files are passed as a variable: ten thousand names in the SQL are slow to parse.
    """

    table: Table
    files: tuple[str, ...]
    call: str
    at: float | None = None
    batch: int | None = None

    def text(self, variable: str, *, is_varying: bool = False) -> str:
        """SQL for all rows. `is_varying`: the files have different columns, so DuckDB reads the
        schemas of all files first, which takes longer."""
        call = self.call.replace(_FILES, f"getvariable({literal(variable)})", 1)
        if not is_varying or not call.startswith(_VARIES):
            return call
        return call.removesuffix(")") + ", union_by_name = true)"


def scan(table: Table, held: ExitStack, *, is_confined: bool = False) -> Scan:
    """`held` keeps files open until they are read. `is_confined`: links must not lead out of the
    table's folder."""
    if table.snapshots:
        return _scan_live(table, held)
    sink = files_of(table)
    scheme = sink.path.partition(":/")[0]
    is_remote = scheme not in ("", sink.path, "file")
    if is_remote or sink.format not in _READERS:
        unreadable = f"is on {scheme}" if is_remote else f"has {sink.format} files"
        raise SqlError(
            f"{table.name!r} {unreadable}, which DuckDB cannot read.",
            where=sink.path,
            fix=USE_SPARK,
            slug="needs-spark",
        )
    folder = Path(os.path.realpath(sink.identity()))
    above = folder.parents if table.is_part else ()
    owner = next((path for path in (folder, *above) if _has_log(path)), None)
    within = folder if is_confined else None
    if owner is None:
        return _scan_plain(table, sink, folder, within)
    return _scan_committed(table, sink, folder, owner, within)


def _scan_live(table: Table, held: ExitStack) -> Scan:
    """The newest snapshot holds all rows."""
    folder = Path(table.snapshots)
    snapshot = live_tables.open_snapshot(folder, held)
    paths = (snapshot.path,) if snapshot else ()
    call = _build_call(table, parquet(table.snapshots), folder, paths)
    if snapshot is None:
        return Scan(table, paths, call)
    return Scan(table, paths, call, snapshot.at, snapshot.batch)


def _scan_committed(
    table: Table, sink: Files, folder: Path, owner: Path, within: Path | None
) -> Scan:
    """`owner` has the log; `folder` may be a partition or a file in it."""
    # The time before the files: the data is at least as recent as reported.
    at, batch = committed_files.newest(owner)
    paths = _resolve_links(_list_committed_paths(owner), owner if within else None)
    if folder != owner:
        paths = [path for path in paths if f"{path}/".startswith(f"{folder}/")]
        if not paths:
            raise not_committed_error(str(folder), f"It is not in the commit log of {owner}.")
    return Scan(table, tuple(paths), _build_call(table, sink, folder, tuple(paths)), at, batch)


def _list_committed_paths(owner: Path) -> list[str]:
    return [file.path for file in committed_files.files(owner, with_batches=False) if file.size > 0]


def _scan_plain(table: Table, sink: Files, folder: Path, within: Path | None) -> Scan:
    """A folder that no stream writes: all files that Spark would read."""
    if not folder.exists():
        written = f" {table.written_by} has not written anything yet." if table.written_by else ""
        raise SqlError(
            f"{folder} does not exist.{written}",
            fix="Run `headrace status` to see the pipeline's progress."
            if written
            else "Use the path of an existing folder.",
            slug="nothing-to-read",
        )
    paths: tuple[str, ...] = (str(folder),)
    if folder.is_dir():
        paths = tuple(_resolve_links(sorted(_list_visible(folder)), within))
    at = max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=None)
    return Scan(table, paths, _build_call(table, sink, folder, paths), at)


def _list_visible(folder: Path) -> list[str]:
    paths = []
    for place, folders, names in os.walk(folder):
        if _has_log(Path(place)):
            paths += _list_committed_paths(Path(place))
            folders.clear()
            continue
        folders[:] = [f for f in folders if not f.startswith((".", "_")) or "=" in f]
        paths += [os.path.join(place, n) for n in names if not n.startswith((".", "_"))]
    return paths


def _has_log(folder: Path) -> bool:
    return (folder / committed_files.LOG).is_dir()


def _resolve_links(paths: Iterable[str], within: Path | None) -> list[str]:
    """Resolves links; with `within`, a link below that folder is an error.

    Each folder is resolved once: ten thousand files share a few folders.
    """
    folders: dict[str, tuple[str, Mapping[str, bool]]] = {}
    resolved = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = _inspect_folder(folder)
        place, is_link = folders[folder]
        real = f"{place}/{name}"
        if name not in is_link:
            raise SqlError(
                f"{path} is missing.",
                why="The sink's commit log lists this file, so either the file was deleted or "
                "its folder was moved.",
                where=path,
                fix="Restore the file from a backup, or move the folder back.",
                slug="committed-file-missing",
            )
        if is_link[name]:
            real = os.path.realpath(real)
        if within is not None and not _is_no_link(path, real, within):
            raise live_tables.misplaced_file_error(path)
        resolved.append(real)
    return resolved


def _inspect_folder(folder: str) -> tuple[str, Mapping[str, bool]]:
    """Its real path, and for each name in it whether it is a link."""
    place = os.path.realpath(folder)
    with suppress(FileNotFoundError), os.scandir(place) as entries:
        return place, {entry.name: entry.is_symlink() for entry in entries}
    return place, {}


def _is_no_link(path: str, real: str, within: Path) -> bool:
    """False for a link: its real path differs below the folder."""
    inside = f"{within}/"
    return real.startswith(inside) and path.endswith(real[len(inside) - 1 :])


def _build_call(table: Table, sink: Files, folder: Path, paths: tuple[str, ...]) -> str:
    columns = _columns(table.schema or sink.schema)
    if not paths:
        if not columns:
            raise SqlError(
                f"{table.name!r} has no rows yet, and its columns are unknown.",
                where=str(folder),
                fix="Deploy the stream that writes to it: headrace up",
                slug="nothing-to-read",
            )
        shape = ", ".join(
            f"NULL::{kind} AS {quote_identifier(name)}" for name, kind in columns.items()
        )
        return f"SELECT {shape} WHERE false"
    folders = {path.rpartition("/")[0] for path in paths}
    parts = {name for path in folders for name in _partitions(path, folder)}
    inside = {name: kind for name, kind in columns.items() if name not in parts}
    options = _READERS[sink.format](sink, inside)
    if parts:
        kinds = {name: columns.get(name, "VARCHAR") for name in sorted(parts)}
        options["hive_partitioning"] = "true"
        options["hive_types"] = _struct(kinds)
    given = "".join(f", {name} = {value}" for name, value in options.items())
    reader = "csv" if sink.format == "text" else sink.format
    return f"FROM read_{reader}({_FILES}{given})"


def _partitions(place: str, folder: Path) -> list[str]:
    """The partition columns of a path: FOLDER/day=2026-01-01/hour=3 has day and hour."""
    inside = Path(place)
    parts = inside.relative_to(folder).parts if inside.is_relative_to(folder) else ()
    return [part.partition("=")[0] for part in parts if "=" in part]


def _columns(schema: str | None) -> dict[str, str]:
    """The columns of Spark's DDL, with DuckDB's types."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if not schema:
        return {}
    try:
        made = parse_one(f"CREATE TABLE t ({schema})", read="spark")
    except SqlglotError:
        return {}
    return {
        column.name: column.args["kind"].sql("duckdb") for column in made.find_all(exp.ColumnDef)
    }


def _parquet(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    return {}  # the files contain their schema


def _json(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    shape = {"columns": _struct(columns)} if columns else {}
    return {"format": "'newline_delimited'", **shape}


def _csv(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    options = {"header": "false", "delim": "','", "quote": "'\"'", "escape": "'\\'"}
    for name, value in sink.options.items():
        if key := _PLAIN.get(name):
            options[key] = str(value).lower() if key == "header" else literal(str(value))
    if columns:
        options["columns"] = _struct(columns)
    return options


def _text(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    name = next(iter(columns), "value")
    return {"columns": _struct({name: "VARCHAR"}), "header": "false", "delim": r"'\0'",
            "quote": "''", "escape": "''", "auto_detect": "false"}  # fmt: skip


_READERS = {"parquet": _parquet, "json": _json, "csv": _csv, "text": _text}


def _struct(kinds: dict[str, str]) -> str:
    return "{" + ", ".join(f"{literal(n)}: {literal(kind)}" for n, kind in kinds.items()) + "}"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
