"""From a table to the files that count, and to the DuckDB text that reads exactly these.

Invariant: of a folder that a stream writes to, only what its log has committed is ever named, and
by its real path: what a link in the folder leads to is checked once, here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoints import committed
from headrace.connectors.files import Files
from headrace.errors import SqlError
from headrace.explore import live
from headrace.explore.names import Table, files_of, not_committed

USE_SPARK = "headrace sql --spark reads it, with a Spark of its own (some seconds more)"
_VARIES = "FROM read_parquet("
_FILES = "$files"
_PLAIN = {"header": "header", "sep": "delim", "delimiter": "delim", "quote": "quote",
          "escape": "escape", "nullValue": "nullstr"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scan:
    """`at` is when the newest rows were committed. `call` reads the files, or stands for none.

    The files come in as a variable: ten thousand names in the text would be parsed again and again.
    """

    table: Table
    files: tuple[str, ...]
    call: str
    at: float | None = None
    batch: int | None = None

    def text(self, variable: str, *, is_varying: bool = False) -> str:
        """All rows. `is_varying`: the files differ in their columns; then all heads are read first,
        which takes longer."""
        call = self.call.replace(_FILES, f"getvariable({literal(variable)})", 1)
        if not is_varying or not call.startswith(_VARIES):
            return call
        return call.removesuffix(")") + ", union_by_name = true)"


def scan(table: Table, held: ExitStack, *, is_confined: bool = False) -> Scan:
    """`held` keeps open what has to stay until it is read. `is_confined`: no link may lead out of
    the table's folder."""
    if table.snapshots:
        return _live(table, held)
    sink = files_of(table)
    if (scheme := sink.path.partition(":/")[0]) not in ("", sink.path, "file"):
        raise SqlError(
            f"{table.name!r} is on {scheme}, which is not read from here.",
            where=sink.path,
            fix=USE_SPARK,
            slug="needs-spark",
        )
    if sink.format not in _READERS:
        raise SqlError(
            f"{table.name!r} is in {sink.format} files, which DuckDB does not read.",
            where=sink.path,
            fix=USE_SPARK,
            slug="needs-spark",
        )
    folder = Path(os.path.realpath(sink.identity()))
    above = folder.parents if table.is_part else ()
    owner = next((one for one in (folder, *above) if _has_log(one)), None)
    within = folder if is_confined else None
    if owner is None:
        return _plain(table, sink, folder, within)
    return _committed(table, sink, folder, owner, within)


def _live(table: Table, held: ExitStack) -> Scan:
    """The newest snapshot holds all rows."""
    folder = Path(table.snapshots)
    found = live.opened(folder, held)
    paths = (found.path,) if found else ()
    call = _call(table, Files(table.snapshots, "parquet"), folder, paths)
    return Scan(table, paths, call, found.at if found else None, found.batch if found else None)


def _committed(table: Table, sink: Files, folder: Path, owner: Path, within: Path | None) -> Scan:
    """`owner` is where the log is; `folder` may be a part of it: one partition, or one file."""
    # The moment before the files: what is read is at least as new as is said.
    at, batch = committed.newest(owner)
    paths = _real(_logged(owner), owner if within else None)
    if folder != owner:
        paths = [path for path in paths if f"{path}/".startswith(f"{folder}/")]
        if not paths:
            raise not_committed(str(folder), f"The log of {owner} lists nothing there.")
    return Scan(table, tuple(paths), _call(table, sink, folder, tuple(paths)), at, batch)


def _logged(owner: Path) -> list[str]:
    return [one.path for one in committed.files(owner, with_batches=False) if one.size > 0]


def _plain(table: Table, sink: Files, folder: Path, within: Path | None) -> Scan:
    """A folder that no stream writes to: all files in it, as Spark would take them."""
    if not folder.exists():
        written = f" {table.written_by} has not written anything yet." if table.written_by else ""
        raise SqlError(
            f"There is nothing at {folder}.{written}",
            fix="headrace status says how far it is" if written else "Name an existing folder.",
            slug="nothing-to-read",
        )
    paths: tuple[str, ...] = (str(folder),)
    if folder.is_dir():
        paths = tuple(_real(sorted(_visible(folder)), within))
    at = max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=None)
    return Scan(table, paths, _call(table, sink, folder, paths), at)


def _visible(folder: Path) -> list[str]:
    found = []
    for place, folders, names in os.walk(folder):
        if _has_log(Path(place)):
            found += _logged(Path(place))
            folders.clear()
            continue
        folders[:] = [f for f in folders if not f.startswith((".", "_")) or "=" in f]
        found += [os.path.join(place, n) for n in names if not n.startswith((".", "_"))]
    return found


def _has_log(folder: Path) -> bool:
    return (folder / committed.LOG).is_dir()


def _real(paths: Iterable[str], within: Path | None) -> list[str]:
    """What is behind links; with `within` there may be none below that folder.

    Ten thousand files share a few folders, which are resolved once.
    """
    folders: dict[str, tuple[str, Mapping[str, bool]]] = {}
    found = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = _looked_at(folder)
        place, is_link = folders[folder]
        real = f"{place}/{name}"
        if name not in is_link:
            raise _missing(path)
        if is_link[name]:
            real = os.path.realpath(real)
        if within is not None and not _is_itself(path, real, within):
            raise live.misplaced(path)
        found.append(real)
    return found


def _looked_at(folder: str) -> tuple[str, Mapping[str, bool]]:
    """Where it really is, and which of the names in it are links."""
    place = os.path.realpath(folder)
    with suppress(FileNotFoundError), os.scandir(place) as entries:
        return place, {one.name: one.is_symlink() for one in entries}
    return place, {}


def _missing(path: str) -> SqlError:
    return SqlError(
        f"{path} is missing.",
        why="The sink's log lists it, so rows are lost or their folder was moved.",
        where=path,
        fix="Restore it from a backup, or move the folder back.",
        slug="committed-file-missing",
    )


def _is_itself(path: str, real: str, within: Path) -> bool:
    """A link would change what the path is called below the folder."""
    inside = f"{within}/"
    return real.startswith(inside) and path.endswith(real[len(inside) - 1 :])


def _call(table: Table, sink: Files, folder: Path, paths: tuple[str, ...]) -> str:
    columns = _columns(table.schema or sink.schema)
    if not paths:
        if not columns:
            raise SqlError(
                f"{table.name!r} holds no rows yet, and its columns are not known.",
                where=str(folder),
                fix="deploy the stream that writes it: headrace up",
                slug="nothing-to-read",
            )
        shape = ", ".join(f"NULL::{kind} AS {quoted(name)}" for name, kind in columns.items())
        return f"SELECT {shape} WHERE false"
    folders = {path.rpartition("/")[0] for path in paths}
    parts = {name for one in folders for name in _partitions(one, folder)}
    inside = {name: kind for name, kind in columns.items() if name not in parts}
    options = _READERS[sink.format](sink, inside)
    if parts:
        kinds = {name: columns.get(name, "VARCHAR") for name in sorted(parts)}
        options["hive_partitioning"] = "true"
        options["hive_types"] = _struct(kinds)
    given = "".join(f", {name} = {value}" for name, value in options.items())
    reader = _FUNCTIONS[sink.format]
    return f"FROM {reader}({_FILES}{given})"


def _partitions(place: str, folder: Path) -> list[str]:
    """FOLDER/day=2026-01-01/hour=3: the names before the signs."""
    inside = Path(place)
    if not inside.is_relative_to(folder):
        return []
    return [p.partition("=")[0] for p in inside.relative_to(folder).parts if "=" in p]


def _columns(schema: str | None) -> dict[str, str]:
    """Spark's DDL as names and DuckDB's types."""
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
    return {}  # the files say it themselves


def _json(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    shape = {"columns": _struct(columns)} if columns else {}
    return {"format": "'newline_delimited'", **shape}


def _csv(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    options = {"header": "false", "delim": "','", "quote": "'\"'", "escape": "'\\'"}
    for name, value in sink.options.items():
        if name in _PLAIN:
            key = _PLAIN[name]
            options[key] = str(value).lower() if key == "header" else literal(str(value))
    if columns:
        options["columns"] = _struct(columns)
    return options


def _lines(sink: Files, columns: dict[str, str]) -> dict[str, str]:
    name = next(iter(columns), "value")
    return {"columns": _struct({name: "VARCHAR"}), "header": "false", "delim": r"'\0'",
            "quote": "''", "escape": "''", "auto_detect": "false"}  # fmt: skip


_READERS = {"parquet": _parquet, "json": _json, "csv": _csv, "text": _lines}
_FUNCTIONS = {"parquet": "read_parquet", "json": "read_json", "csv": "read_csv", "text": "read_csv"}


def _struct(kinds: dict[str, str]) -> str:
    return "{" + ", ".join(f"{literal(n)}: {literal(kind)}" for n, kind in kinds.items()) + "}"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
