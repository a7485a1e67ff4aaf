"""Three queries under fire: a partitioned file sink, windows that overwrite, folders by rename."""

import json
import os
from pathlib import Path

from pyspark.sql import functions as F

import headrace as hr

ROW = "id long, file string, key string, amount long, at timestamp, payload string, sha string"


@hr.view
def rows(incoming):
    return incoming.select(F.from_json("value", ROW).alias("row")).select("row.*")


@hr.stream(to=hr.parquet("data/history", partition_by=["day"]))
def history(rows):
    return rows.withColumn("day", F.to_date("at"))


def overwrite_windows(batch, batch_id):
    folder = Path("data/counts")
    folder.mkdir(parents=True, exist_ok=True)
    for row in batch.collect():
        name = f"{row['start']}-{row['key']}.json"
        temp = folder / f".{name}.tmp"
        temp.write_text(json.dumps({"n": row["n"], "total": row["total"]}))
        os.replace(temp, folder / name)


@hr.stream(to=hr.each_batch(overwrite_windows), mode="update")
def counts(rows):
    return (
        rows.withWatermark("at", "1 hour")
        .groupBy(F.window("at", "1 minute"), "key")
        .agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
        .select(F.unix_seconds("window.start").alias("start"), "key", "n", "total")
    )


def write_folder(batch, batch_id):
    final = Path(f"data/batches/batch={batch_id}")
    if final.exists():  # this batch was written before a kill: the same input, the same rows
        return
    temp = final.with_name(f".batch={batch_id}")
    batch.write.mode("overwrite").parquet(str(temp))
    os.rename(temp, final)


@hr.stream(to=hr.each_batch(write_folder))
def batches(rows):
    return rows
