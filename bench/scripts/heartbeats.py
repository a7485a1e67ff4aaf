"""Heartbeats from topic to topic as a bare PySpark script, by default: SIGTERM ends it.

heartbeats.py SERVERS TOPIC CUSTOMERS OUTPUT CHECKPOINT
"""

from __future__ import annotations

import signal
import sys
import threading

from pyspark.sql import SparkSession
from shape import CUSTOMER, beats

servers, topic, customers, output, checkpoint = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())

spark = SparkSession.builder.getOrCreate()
known = spark.read.option("header", True).schema(CUSTOMER).csv(customers)
raw = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    beats(raw, known)
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("topic", output)
    .option("checkpointLocation", checkpoint)
    .start()
)
while not stop.wait(5.0):
    if not query.isActive:
        raise SystemExit(f"the query ended: {query.exception()}")
query.stop()
spark.stop()
