"""Each query can get into one kind of trouble in which nothing fails."""

import time
from pathlib import Path

from pyspark.sql import functions as F

import headrace as hr

DEVICE = "id long, room string, temp double"
SLOW = Path("slow")
READING = "id long, at timestamp, temp double"


@hr.source
def lines():
    return hr.text("in/lines")


@hr.source
def times():
    return hr.json("in/times", schema=READING)


@hr.source
def delayed():
    return hr.json("in/delayed", schema=READING)


@hr.source
def left():
    return hr.json("in/left", schema=READING)


@hr.source
def right():
    return hr.json("in/right", schema=READING)


@hr.source
def ids():
    return hr.json("in/ids", schema=READING)


@hr.source
def devices():
    return hr.json("in/devices", schema=DEVICE)


@hr.table
def rooms():
    return hr.csv("rooms.csv", schema="room string, floor int")


@hr.source
def ticks():
    return hr.rate(100)


@hr.view
def parsed(lines):
    return hr.parse_json(lines, READING)


@hr.stream(to=hr.parquet("data/kept"), every="4 seconds")
def kept(parsed):
    return parsed


def by_window(df):
    return df.withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds")).count()


@hr.stream(to=hr.parquet("data/counted"), every="4 seconds")
def counted(times):
    return by_window(times).select("window.start", "count")


@hr.stream(to=hr.parquet("data/punctual"), every="4 seconds")
def punctual(delayed):
    return by_window(delayed).select("window.start", "count")


@hr.stream(to=hr.parquet("data/paired"), every="4 seconds")
def paired(left, right):
    a = left.withWatermark("at", "1 second").select("id", "at")
    b = right.withWatermark("at", "1 second").select(
        F.col("id").alias("other"), F.col("at").alias("then")
    )
    near = F.expr("id = other AND then BETWEEN at AND at + INTERVAL 10 SECONDS")
    return a.join(b, near, "left_outer")


@hr.stream(to=hr.parquet("data/unique"), every="4 seconds")
def unique(ids):
    return ids.select("id").dropDuplicates()


@hr.stream(to=hr.parquet("data/placed"), every="4 seconds")
def placed(devices, rooms):
    return devices.join(F.broadcast(rooms), "room")


def load(df, batch_id):
    df.count()
    if SLOW.exists():  # each batch takes longer than the last, as when rows pile up
        first = int(SLOW.read_text() or batch_id)
        SLOW.write_text(str(first))
        time.sleep(1.3 ** (batch_id - first))


@hr.stream(to=hr.each_batch(load))
def loaded(ticks):
    return ticks
