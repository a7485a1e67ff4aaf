"""The history alone as a bare PySpark script: drains a topic and ends by itself.

history.py SERVERS TOPIC CUSTOMERS OUTPUT CHECKPOINT MAX_ROWS
"""

from __future__ import annotations

import signal
import sys

from pyspark.sql import SparkSession
from shape import CUSTOMER, dated, opened

servers, topic, customers, output, checkpoint, max_rows = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda *_: None)  # who has seen the last commit asks for the end

spark = SparkSession.builder.getOrCreate()
known = spark.read.option("header", True).schema(CUSTOMER).csv(customers)
raw = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", max_rows)
    .load()
)
query = (
    dated(opened(raw), known)
    .writeStream.partitionBy("date")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start(output, format="parquet")
)
query.awaitTermination()
spark.stop()
