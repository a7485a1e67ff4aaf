"""A live table on disk: each batch writes the whole table to a Parquet file, and the newest counts.

The live sink writes snapshots in the driver; readers use `newest` and `read`. Invariants: files are
written atomically; batch N is merged into the newest snapshot before N, so a repeated batch gives
the same table. If a file is deleted while it is read, `read` retries with a newer one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.json_file import write_file

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

KEPT = 3  # a reader has two batches of time before its file is deleted
METADATA = b"headrace"  # JSON in the key-value metadata of the file
TRIES = 10
_NAME = re.compile(r"([0-9]{1,18})\.parquet")

T = TypeVar("T")


def newest(folder: Path) -> Path | None:
    found = numbers(folder)
    return folder / f"{found[-1]}.parquet" if found else None


def read(folder: Path, open_: Callable[[Path], T]) -> T | None:
    """The result of `open_` for the newest snapshot; retries if that is deleted meanwhile."""
    for _ in range(TRIES - 1):
        try:
            path = newest(folder)
            return None if path is None else open_(path)
        except FileNotFoundError:
            continue
    path = newest(folder)
    return None if path is None else open_(path)


def numbers(folder: Path) -> list[int]:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def merge(base: pa.Table, batch: pa.Table, key: tuple[str, ...], most: int) -> pa.Table:
    """Replace rows of `base` by rows of `batch` with the same key, or append them without a key.

    Keeps the `most` rows updated last, in that order, with the columns of `batch`. Raises
    ArrowException if the types of a column do not match. Pure.
    """
    import pyarrow as pa

    common = [name for name in batch.column_names if name in base.column_names]
    both = pa.concat_tables(
        [_without_metadata(base.select(common)), _without_metadata(batch)],
        promote_options="permissive",
    ).select(batch.column_names)
    if key:
        order = pa.array(range(both.num_rows), pa.int64())
        keys = pa.Table.from_arrays(
            [*both.select(key).columns, order], [*(f"k{n}" for n in range(len(key))), "row"]
        )
        grouped = keys.group_by(keys.column_names[:-1]).aggregate([("row", "max")])
        both = both.take(grouped["row_max"].combine_chunks().sort())
    return both.slice(max(0, both.num_rows - most))


def _without_metadata(table: pa.Table) -> pa.Table:
    """Without metadata, all columns nullable: a column that `base` lacks is null there."""
    import pyarrow as pa

    return pa.Table.from_arrays(table.columns, names=table.column_names)


@dataclass(slots=True)
class LiveSnapshots:
    """The writer, owned by one sink while its query runs."""

    folder: Path
    key: tuple[str, ...]
    most: int
    about: Mapping[str, Any]  # how readers should display it
    _has_warned: bool = False

    def add(
        self, batch: int, rows: pa.Table, *, at: float, is_whole: bool, is_cut: bool = False
    ) -> None:
        """`is_whole`: the rows are the whole table. `is_cut`: the batch had more rows."""
        base, was_cut = (None, False) if is_whole else self._read_base(batch)
        if base is not None and rows.num_rows == 0:
            self._delete_old(batch)
            return
        if is_cut and not self._has_warned:
            logger.warning(
                "batch %d has more than %d rows; the others are dropped", batch, self.most
            )
            self._has_warned = True
        table = self._apply_batch(base, rows, batch)
        about = {**self.about, "batch": batch, "at": at, "truncated": is_cut or was_cut}
        self._write(batch, table.replace_schema_metadata({METADATA: json.dumps(about)}))
        self._delete_old(batch)

    def _read_base(self, batch: int) -> tuple[pa.Table | None, bool]:
        """The table before this batch, and whether rows were dropped from it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        found = [number for number in numbers(self.folder) if number < batch]
        if not found:
            if batch:
                logger.warning(
                    "no snapshot before batch %d in %s; starting with an empty table",
                    batch,
                    self.folder,
                )
            return None, False
        path = self.folder / f"{found[-1]}.parquet"
        try:
            with path.open("rb") as file:
                table = pq.read_table(file)
        except pa.ArrowInvalid as exc:
            logger.warning("%s is damaged; starting with an empty table: %s", path, exc)
            return None, False
        about = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
        return table, bool(about.get("truncated"))

    def _apply_batch(self, base: pa.Table | None, rows: pa.Table, batch: int) -> pa.Table:
        import pyarrow as pa

        if base is not None and not set(self.key) - set(base.column_names):
            try:
                return merge(base, rows, self.key, self.most)
            except pa.ArrowException as exc:
                reason = str(exc).partition("\n")[0]
                logger.warning(
                    "the columns changed in batch %d; starting with an empty table: %s",
                    batch,
                    reason,
                )
        return merge(rows.slice(0, 0), rows, self.key, self.most)

    def _write(self, batch: int, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        path = self.folder / f"{batch}.parquet"
        write_file(path, lambda file: pq.write_table(table, file), mode=0o666, is_only_writer=True)

    def _delete_old(self, batch: int) -> None:
        """Delete old snapshots, and higher numbers, which belong to an earlier checkpoint."""
        found = numbers(self.folder)
        kept = [number for number in found if number <= batch][-KEPT:]
        for number in found:
            if number not in kept:
                (self.folder / f"{number}.parquet").unlink(missing_ok=True)
