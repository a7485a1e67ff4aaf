"""A stream that commits many small files, and ends: one batch a file of its input.

many_files.py INPUT OUTPUT CHECKPOINT DAYS TASKS ROWS_PER_FILE

Each input file holds a number that the rows of its batch begin with. A batch writes DAYS * TASKS
files: every one of TASKS tasks has rows of every day.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, output, checkpoint = sys.argv[1:4]
days, tasks, rows = (int(text) for text in sys.argv[4:])

spark = SparkSession.builder.getOrCreate()
first = F.col("value").cast("long")
count = days * tasks * rows
levels = F.array(*(F.lit(level) for level in ("INFO", "WARN", "ERROR")))
found = (
    spark.readStream.option("maxFilesPerTrigger", 1)
    .text(source)
    .select(F.explode(F.sequence(first, first + count - 1)).alias("id"))
    .select(
        "id",
        (F.floor(F.col("id") / days) % tasks).cast("int").alias("task"),
        F.date_add(F.lit("2026-01-01").cast("date"), (F.col("id") % days).cast("int")).alias("day"),
        F.element_at(levels, (F.col("id") % 3 + 1).cast("int")).alias("level"),
        F.concat(F.lit("customer-"), F.col("id") % 50).alias("customer"),
        F.timestamp_seconds(F.lit(1_767_225_600) + F.col("id")).alias("timestamp"),
    )
    .repartitionById(tasks, "task")
    .drop("task")
)
query = (
    found.writeStream.partitionBy("day")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start(output, format="parquet")
)
query.awaitTermination()
spark.stop()
