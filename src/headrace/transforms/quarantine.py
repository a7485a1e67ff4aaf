"""Rows of a quarantine: the bad record, its origin, and the reason.

A hidden query per node writes them. Its `observe` counts the input and the bad records of each
batch, so that input = passed + quarantined can be verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVED = "headrace_quarantine"  # the metric's name in Spark's progress; fields: rows, bad
RAW_BYTES = 65_536  # kept of a record that is too large


class RecordCheck(Protocol):
    """Checks the records of an input. `rows` adds the columns that the other methods use; `raw` is
    set at least for bad records."""

    raw: Column
    size: Column  # of the record, in bytes

    def rows(
        self, df: DataFrame, kept: tuple[str, ...], *, only_bad: bool = False
    ) -> DataFrame: ...
    def is_good(self) -> Column: ...
    def reason(self) -> Column: ...
    def detail(self) -> Column: ...


def quarantine_rows(
    df: DataFrame, examined: RecordCheck, rule: str, version: str | None
) -> DataFrame:
    from pyspark.sql import functions as F

    coordinates = _coordinates(df)
    bad = ~examined.is_good()
    rows = examined.rows(df.withColumns(coordinates), tuple(coordinates), only_bad=True).observe(
        OBSERVED, F.count(F.lit(1)).alias("rows"), F.count_if(bad).alias("bad")
    )
    return rows.where(bad).select(
        examined.raw.cast("binary").alias("raw"),
        examined.size.alias("bytes"),
        examined.reason().alias("reason"),
        examined.detail().alias("detail"),
        F.lit(rule).alias("rule"),
        *(F.col(name).alias(name.removeprefix("_headrace_")) for name in coordinates),
        F.lit(version).cast("string").alias("version"),
        F.current_timestamp().alias("at"),
    )


def _coordinates(df: DataFrame) -> dict[str, Column]:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    nothing = F.lit(None)
    source, partition, offset = nothing, nothing, nothing
    if {"topic", "partition", "offset"} <= set(df.columns):
        source, partition, offset = F.col("topic"), F.col("partition"), F.col("offset")
    else:
        try:
            df.select("_metadata.file_path")
            source = F.col("_metadata.file_path")
        except AnalysisException:  # not from files, or the column was dropped
            pass
    return {
        "_headrace_source": source.cast("string"),
        "_headrace_partition": partition.cast("int"),
        "_headrace_offset": offset.cast("bigint"),
    }
