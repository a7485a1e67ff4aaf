"""Runs a small pipeline whose JVM writes the class archive (see `class_archive`).

`python -m headrace.driver.warm_up SCRATCH ARCHIVE`
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.driver import class_archive, session
from headrace.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES = [
    {"at": "2026-01-01T00:00:01Z", "level": "INFO", "body": {"job": "a", "load": 0.5, "tags": [1]}},
    {"at": "2026-01-01T00:02:30Z", "level": "WARN", "body": {"job": "b", "load": 0.9, "tags": []}},
]
SCHEMA = "at timestamp, level string, body struct<job: string, load: double, tags: array<int>>"


def main(scratch: Path, archive: Path) -> None:
    conf = session.settings_of(
        "warm",
        {},
        run_dir=scratch,
        cores=os.cpu_count() or 1,
        is_short=True,
        java=class_archive.make(archive),
        environment=os.environ,
    )
    session.write_conf(scratch / "conf", conf)
    session.prepare_environment(scratch / "conf", (), is_local=True)
    spark = session.start()
    jvm = session.jvm_process(spark)
    rehearse(spark, scratch)
    spark.stop()
    jvm.stdin.close()  # ends the JVM, which then writes the archive
    jvm.wait()


def rehearse(spark: SparkSession, scratch: Path) -> None:
    """Sources, parsing, windows, state, joins, Python functions, and three kinds of sinks."""
    from pyspark.sql import functions as F

    (scratch / "in").mkdir()
    (scratch / "in" / "lines.json").write_text("\n".join(map(json.dumps, LINES)))
    raw = spark.readStream.text(str(scratch / "in"))
    logs = raw.select(F.from_json("value", SCHEMA).alias("one")).select("one.*")
    levels = spark.createDataFrame([("INFO", 1), ("WARN", 2)], "level string, weight int")
    shout = F.udf(lambda text: text.upper(), "string")
    rows = (
        logs.join(F.broadcast(levels), "level")
        .withColumn("job", shout("body.job"))
        .withColumn("date", F.to_date("at"))
        .observe("seen", F.count(F.lit(1)).alias("n"))
    )
    counts = (
        logs.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"), "level")
        .agg(F.count(F.lit(1)).alias("n"), F.avg("body.load").alias("load"))
    )
    unique = logs.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["at"])

    def collect(batch: DataFrame, _: int) -> None:
        batch.toArrow()

    place = str(scratch / "out")
    history = rows.writeStream.format("parquet").partitionBy("date").option("path", place)
    writers = [history, counts.writeStream.outputMode("update").foreachBatch(collect)]
    writers.append(unique.writeStream.format("noop"))
    queries = [
        writer.option("checkpointLocation", str(scratch / "checkpoints" / str(n)))
        .trigger(availableNow=True)
        .start()
        for n, writer in enumerate(writers)
    ]
    for query in queries:
        query.awaitTermination()
    spark.read.parquet(place).groupBy("date").count().collect()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except Error as exc:
        sys.exit(str(exc))
