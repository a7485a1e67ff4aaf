"""The pipeline of the benchmarks as a bare PySpark script; SIGTERM ends it.

kept.py INPUT OUTPUT CHECKPOINT MAX_FILES EVERY
"""

from __future__ import annotations

import signal
import sys
import threading

from pyspark.sql import SparkSession
from shape import kept

source, output, checkpoint, max_files, every = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", max_files).text(source)
query = (
    kept(lines)
    .writeStream.queryName("kept")
    .partitionBy("day")
    .option("checkpointLocation", checkpoint)
    .trigger(processingTime=every)
    .start(output, format="parquet")
)
while not stop.wait(5.0):
    if not query.isActive:
        raise SystemExit(f"the query ended: {query.exception()}")
query.stop()
spark.stop()
