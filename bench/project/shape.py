"""What both sides do with a line: the same function in the pipeline and in the bare scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW = "id long, at timestamp, key string, amount long, city string, note string"


def parsed(lines: DataFrame) -> DataFrame:
    return lines.select(F.from_json("value", ROW).alias("row")).select("row.*")


def kept(lines: DataFrame) -> DataFrame:
    return parsed(lines).withColumn("day", F.to_date("at"))


def counts(lines: DataFrame) -> DataFrame:
    rows = parsed(lines).withWatermark("at", "1 day")
    return rows.groupBy(F.window("at", "1 minute"), "key").count()
