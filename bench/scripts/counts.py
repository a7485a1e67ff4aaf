"""A windowed count as a bare PySpark script; SIGTERM ends it, and then it tells its answer.

counts.py INPUT CHECKPOINT MAX_FILES ANSWER

The sink takes everything and keeps nothing, so that state and shuffle are what is measured. The
answer is what the state store holds for the last committed batch: {"batch", "counts"}.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from shape import counts

source, checkpoint, max_files, answer = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", max_files).text(source)
query = (
    counts(lines)
    .writeStream.queryName("counts")
    .format("noop")
    .outputMode("update")
    .option("checkpointLocation", checkpoint)
    .start()
)
while not stop.wait(5.0):
    if not query.isActive:
        raise SystemExit(f"the query ended: {query.exception()}")
query.stop()

batch = max(int(p.name) for p in (Path(checkpoint) / "commits").iterdir() if p.name.isdigit())
state = spark.read.format("statestore").option("batchId", batch).load(checkpoint)
start = F.unix_seconds("key.window.start")
rows = state.select(start.alias("start"), "key.key", "value.count").collect()
found = {"batch": batch, "counts": [[r["start"], r["key"], r["count"]] for r in rows]}
Path(answer).write_text(json.dumps(found))
spark.stop()
