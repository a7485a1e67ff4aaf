"""A row alert in real time, and the history beside it, as the demo has both."""

from pyspark.sql import functions as F
from shape import LOG, dated

import headrace as hr


@hr.view
def beats(raw_logs):
    wanted = raw_logs.where(F.col("value").cast("string").contains("clusterHeartbeat"))
    return hr.parse_json(wanted, LOG, quarantine=False).where("event_type = 'clusterHeartbeat'")


@hr.stream(to=hr.parquet("data/history", partition_by=["date"]), every="10 seconds")
def history(raw_logs, customers):
    return dated(hr.parse_json(raw_logs, LOG, quarantine=False), customers).repartition(1)


@hr.stream(
    to=hr.alert(
        key="cluster_id",
        title="Cluster {cluster_id}: load {load}",
        severity="critical",
        clear="load < 90",
        at="timestamp",
    ),
    trigger=hr.real_time("1 minute"),
)
def overloaded():
    return "SELECT cluster_id, load, timestamp FROM beats WHERE load > 99 OR load < 90"
