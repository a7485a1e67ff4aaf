"""A live table on disk: one Parquet file a batch, each the whole table; the newest is the table.

Written by the live sink in the driver; `newest` is for whoever reads. Invariants: a file is whole
or not there; batch N is always made from the newest snapshot below N, so that a batch seen again
gives the same table. A file may vanish while it is read: `read` then takes the newer one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.connectors import wholefile

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

KEPT = 3  # the newest and two below it: a reader has the time of two batches
METADATA = b"headrace"  # in the file's own key-value metadata, as JSON
TRIES = 10
_NAME = re.compile(r"([0-9]{1,18})\.parquet")

T = TypeVar("T")


def newest(folder: Path) -> Path | None:
    """None while there is none yet."""
    found = numbers(folder)
    return folder / f"{found[-1]}.parquet" if found else None


def read(folder: Path, open_: Callable[[Path], T]) -> T | None:
    """What `open_` makes of the newest snapshot; one that vanished meanwhile has a successor."""
    for _ in range(TRIES - 1):
        try:
            path = newest(folder)
            return None if path is None else open_(path)
        except FileNotFoundError:
            continue
    path = newest(folder)
    return None if path is None else open_(path)


def numbers(folder: Path) -> list[int]:
    """Of the snapshots that are there, the lowest first."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def merged(base: pa.Table, batch: pa.Table, key: tuple[str, ...], most: int) -> pa.Table:
    """Rows of `batch` in place of those of `base` with the same key; the newest `most` of them.

    In the order of their last update. Without a key they are appended. The columns are those of
    `batch`. Pure; an ArrowException if a column's types do not go together.
    """
    import pyarrow as pa

    common = [name for name in batch.column_names if name in base.column_names]
    both = pa.concat_tables(
        [_plain(base.select(common)), _plain(batch)], promote_options="permissive"
    ).select(batch.column_names)
    if key:
        order = pa.array(range(both.num_rows), pa.int64())
        keys = pa.Table.from_arrays(
            [*both.select(key).columns, order], [*(f"k{n}" for n in range(len(key))), "row"]
        )
        grouped = keys.group_by(keys.column_names[:-1]).aggregate([("row", "max")])
        both = both.take(grouped["row_max"].combine_chunks().sort())
    return both.slice(max(0, both.num_rows - most))


def _plain(table: pa.Table) -> pa.Table:
    """Every column may be null: one that the base lacks will be. No metadata."""
    import pyarrow as pa

    return pa.Table.from_arrays(table.columns, names=table.column_names)


@dataclass(slots=True)
class Snapshots:
    """The writer: owned by one query's sink while the query runs."""

    folder: Path
    key: tuple[str, ...]
    most: int
    about: Mapping[str, Any]  # how to show it, for readers
    _has_told: bool = False

    def add(
        self, batch: int, rows: pa.Table, *, at: float, is_whole: bool, is_cut: bool = False
    ) -> None:
        """`is_whole`: the rows are the table. `is_cut`: there were more rows than are kept."""
        base, was_cut = (None, False) if is_whole else self._below(batch)
        if base is not None and rows.num_rows == 0:
            self._tidy(batch)
            return
        if is_cut and not self._has_told:
            logger.warning("batch %d has more than %d rows: only these are kept", batch, self.most)
            self._has_told = True
        table = self._joined(base, rows, batch)
        said = {**self.about, "batch": batch, "at": at, "truncated": is_cut or was_cut}
        self._write(batch, table.replace_schema_metadata({METADATA: json.dumps(said)}))
        self._tidy(batch)

    def _below(self, batch: int) -> tuple[pa.Table | None, bool]:
        """The table before this batch, and whether rows of it had been cut."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        found = [number for number in numbers(self.folder) if number < batch]
        if not found:
            if batch:
                logger.warning("no snapshot below batch %d in %s: begun anew", batch, self.folder)
            return None, False
        path = self.folder / f"{found[-1]}.parquet"
        try:
            with path.open("rb") as file:
                table = pq.read_table(file)
        except pa.ArrowInvalid as exc:
            logger.warning("%s is damaged, the table is begun anew: %s", path, exc)
            return None, False
        said = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
        return table, bool(said.get("truncated"))

    def _joined(self, base: pa.Table | None, rows: pa.Table, batch: int) -> pa.Table:
        import pyarrow as pa

        nothing = rows.slice(0, 0)
        if base is not None and not set(self.key) - set(base.column_names):
            try:
                return merged(base, rows, self.key, self.most)
            except pa.ArrowException as exc:
                said = str(exc).partition("\n")[0]
                logger.warning("batch %d: columns have changed, begun anew: %s", batch, said)
        return merged(nothing, rows, self.key, self.most)

    def _write(self, batch: int, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        path = self.folder / f"{batch}.parquet"
        wholefile.write(path, lambda file: pq.write_table(table, file))

    def _tidy(self, batch: int) -> None:
        """Higher numbers are of a former life of the checkpoint: they would pass for newer."""
        found = numbers(self.folder)
        kept = [number for number in found if number <= batch][-KEPT:]
        for number in found:
            if number not in kept:
                (self.folder / f"{number}.parquet").unlink(missing_ok=True)
