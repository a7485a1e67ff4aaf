"""The demo's application in plain PySpark, as its guide teaches it: SIGTERM ends it.

metrics.py SERVERS RAW_TOPIC BEATS_TOPIC CUSTOMERS FOLDER

Six queries in one session. Each reads the topic, parses it, and filters what it has parsed. All
settings are Spark's own, but for the state store that transformWithState demands.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from shape import CUSTOMER, LOG

servers, raw_topic, beats_topic, customers_csv = sys.argv[1:5]
folder = Path(sys.argv[5])
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())

spark = SparkSession.builder.config(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
).getOrCreate()

raw = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", raw_topic)
    .option("startingOffsets", "earliest")
    .load()
)
customers = spark.read.option("header", True).schema(CUSTOMER).csv(customers_csv)
text = F.col("value").cast("string")
logs = (
    raw.select(F.from_json(text, LOG).alias("log"))
    .select("log.*")
    .join(F.broadcast(customers), "customer_id")
)
beats = logs.where("event_type = 'clusterHeartbeat'")


def append(name: str, rows: DataFrame) -> None:
    found = [row.asDict() for row in rows.collect()]
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(one, default=str) + "\n" for one in found)


def checkpoint(name: str) -> str:
    return str(folder / "checkpoints" / name)


# 1. The history, by day.
history = (
    logs.withColumn("date", F.to_date("timestamp"))
    .writeStream.partitionBy("date")
    .option("checkpointLocation", checkpoint("history"))
    .start(str(folder / "metrics"), format="parquet")
)

# 2. Logins a minute, for a chart.
minutes: dict[str, int] = {}


def show(rows: DataFrame, batch: int) -> None:
    minutes.update({str(int(row["minute"])): row["count"] for row in rows.collect()})
    (folder / "logins.json").write_text(json.dumps(minutes))


logins = (
    logs.where("metric = 'login'")
    .withWatermark("timestamp", "10 minutes")
    .groupBy(F.window("timestamp", "1 minute"))
    .count()
    .select(F.unix_seconds("window.start").alias("minute"), "count")
    .writeStream.outputMode("update")
    .option("checkpointLocation", checkpoint("logins"))
    .foreachBatch(show)
    .start()
)

# 3. Heartbeats, for other programs.
heartbeats = (
    beats.select(F.to_json(F.struct("*")).alias("value"))
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("topic", beats_topic)
    .option("checkpointLocation", checkpoint("heartbeats"))
    .start()
)

# 4. Clusters with too much to do.
overloaded = (
    beats.where("load > 99")
    .select("cluster_id", "load", "timestamp")
    .writeStream.option("checkpointLocation", checkpoint("overloaded"))
    .foreachBatch(lambda rows, batch: append("overloaded.jsonl", rows))
    .start()
)


# 5. Clusters that are silent for a minute.
class Silence(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "at bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        now = timerValues.getCurrentProcessingTimeInMs()
        if not self.seen.exists():
            self.handle.registerTimer(now + 60_000)
        self.seen.update((now,))
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        (at,) = self.seen.get()
        if timerValues.getCurrentProcessingTimeInMs() < at + 60_000:
            self.handle.registerTimer(at + 60_000)
        else:
            self.seen.clear()
            yield Row(cluster_id=key[0], last_seen=at)

    def close(self) -> None:
        pass


silent = (
    beats.groupBy("cluster_id")
    .transformWithState(
        statefulProcessor=Silence(),
        outputStructType="cluster_id int, last_seen bigint",
        outputMode="Update",
        timeMode="ProcessingTime",
    )
    .writeStream.outputMode("update")
    .option("checkpointLocation", checkpoint("silent"))
    .foreachBatch(lambda rows, batch: append("silent.jsonl", rows))
    .start()
)

# 6. Records that are no logs.
judged = F.from_json(text, LOG + ", wrong string", {"columnNameOfCorruptRecord": "wrong"})
bad = (
    raw.select("value", judged.alias("log"))
    .where("log.wrong IS NOT NULL")
    .select("value")
    .writeStream.option("checkpointLocation", checkpoint("bad"))
    .start(str(folder / "bad"), format="parquet")
)

while not stop.wait(1.0):
    for query in (history, logins, heartbeats, overloaded, silent, bad):
        if not query.isActive:
            raise SystemExit(f"a query ended: {query.exception()}")
for query in (history, logins, heartbeats, overloaded, silent, bad):
    query.stop()
spark.stop()
