"""Two queries: one fails on a certain row, the other is healthy. Three listeners: one is good."""

import json
import time
from pathlib import Path

from pyspark.sql.streaming import StreamingQueryListener

import headrace as hr


def write_or_fail(batch, batch_id):
    values = [row["value"] for row in batch.collect()]
    for value in values:
        if value == "poison":
            raise ValueError(f"cannot price the order {value!r}")


@hr.stream(to=hr.each_batch(write_or_fail))
def fragile(lines):
    return lines


def append(batch, batch_id):
    folder = Path("data/healthy")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(batch_id)).write_text("\n".join(row["value"] for row in batch.collect()))


@hr.stream(to=hr.each_batch(append))
def healthy(lines):
    return lines


class Heard(StreamingQueryListener):
    """Writes a line for each event, with the names of the query's MBeans."""

    def __init__(self, spark):
        self.gateway = spark.sparkContext._gateway

    def beans(self):
        """Spark's MBeans. By reflection: py4j may not call the server's own class."""
        java = self.gateway.jvm
        server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        methods = java.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
        query = next(one for one in methods if one.getName() == "queryNames")
        arguments = self.gateway.new_array(java.java.lang.Object, 2)
        arguments[0] = java.javax.management.ObjectName("metrics:*")
        return [str(name) for name in query.invoke(server, arguments)]

    def write(self, **facts):
        with open("heard.jsonl", "a") as file:
            file.write(json.dumps(facts, default=str) + "\n")

    def onQueryStarted(self, event):
        self.write(event="started", query=event.name, id=event.id)

    def onQueryProgress(self, event):
        beans = [name for name in self.beans() if event.progress.name in name]
        batch = event.progress.batchId
        self.write(event="progress", query=event.progress.name, batch=batch, beans=beans)

    def onQueryTerminated(self, event):
        self.write(event="terminated", id=event.id, error=event.exception)


@hr.listener
def heard(spark):
    return Heard(spark)


@hr.listener
class Broken(StreamingQueryListener):
    def onQueryStarted(self, event):
        raise LookupError("no dashboard for " + event.name)

    def onQueryProgress(self, event):
        raise LookupError("no dashboard")

    def onQueryTerminated(self, event):
        raise SystemExit(7)


@hr.listener
class Slow(StreamingQueryListener):
    def onQueryStarted(self, event):
        time.sleep(600)

    def onQueryProgress(self, event):
        time.sleep(600)

    def onQueryTerminated(self, event):
        time.sleep(600)
