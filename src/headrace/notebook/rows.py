"""Reads rows from Spark into this process.

Invariant: at most the requested number of rows leave Spark, and long texts are cut in Spark.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from headrace.connectors.column_parameters import collect_rows
from headrace.notebook.cell_text import Rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TEXT_CHARS_MAX = 5_000


class RowWindow:
    """The newest rows of a stream, or with `is_whole` the result of its last batch."""

    def __init__(self, most: int, *, is_whole: bool) -> None:
        self.is_whole = is_whole
        self._most = most
        self._lock = threading.Lock()
        self._kept: deque[tuple[Any, ...]] = deque(maxlen=most)
        self._shown: Rows | None = None
        self._is_cut = False

    def take(self, frame: DataFrame, batch: int) -> None:
        """For `foreachBatch`. Of a complete result the first rows are shown: it may be sorted."""
        rows = read_batch(frame, self._most, last=not self.is_whole)
        with self._lock:
            if self.is_whole:
                self._shown = rows
                return
            self._is_cut |= rows.is_cut or len(self._kept) + len(rows.values) > self._most
            self._kept.extend(rows.values)
            self._shown = Rows(rows.names, rows.kinds, tuple(self._kept), self._is_cut)

    def rows(self) -> Rows | None:
        with self._lock:
            return self._shown


def read_batch(frame: DataFrame, most: int, *, last: bool) -> Rows:
    """The last (or first) rows of a stream's batch. All of its rows are computed."""
    table, is_cut = collect_rows(_plain(frame), most, last=last)
    return _rows(frame, table, is_cut)


def read_frame(frame: DataFrame, most: int) -> Rows:
    """The first rows of a batch DataFrame."""
    table = _plain(frame).limit(most + 1).toArrow()
    return _rows(frame, table.slice(0, most), table.num_rows > most)


def _plain(frame: DataFrame) -> DataFrame:
    """With unique names, types that Arrow supports, and shortened texts."""
    kinds = [kind for _, kind in frame.dtypes]
    numbered = frame.toDF(*(f"c{n}" for n in range(len(kinds))))
    return numbered.select(*(_column(f"c{n}", kind) for n, kind in enumerate(kinds)))


def _column(name: str, kind: str) -> Column:
    from pyspark.sql import functions as F

    column = F.col(name)
    if kind == "variant":
        column, kind = F.to_json(column), "string"
    elif "interval" in kind and not kind.startswith(("array", "map", "struct")):
        column, kind = column.cast("string"), "string"
    if kind != "string":
        return column.alias(name)
    length = F.format_number(F.length(column), 0)
    begin = F.substring(column, 1, TEXT_CHARS_MAX)
    long = F.concat(begin, F.lit("… ("), length, F.lit(" characters)"))
    is_long = F.length(column) > TEXT_CHARS_MAX
    return F.when(is_long, long).otherwise(column).alias(name)


def _rows(frame: DataFrame, table: Any, is_cut: bool) -> Rows:
    columns = [_values(column) for column in table.columns]
    kinds = tuple(kind for _, kind in frame.dtypes)
    values = tuple(zip(*columns, strict=True)) if columns else ()
    return Rows(tuple(frame.columns), kinds, values, is_cut)


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a year that Python does not support
        import pyarrow as pa

        values = column.cast(pa.int64()).to_pylist()
    return values
