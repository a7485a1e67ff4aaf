"""Metric processing: turns raw logs into a history, a dashboard, a filter and two kinds of alerts.

    headrace check           finds mistakes before anything runs
    headrace run metrics     runs it in the foreground; Ctrl-C drains it
    headrace up              keeps it running; headrace status shows its state

Raw logs are lines of JSON: customers log in and click, jobs report, clusters send a heartbeat.
headrace.toml defines where they come from and where results go.
"""

from pyspark.sql import functions as F

import headrace as hr

LOG = """
    timestamp timestamp, customer_id int, event_type string, metric string,
    level string, cluster_id int, load double
"""


# A view is a DataFrame with a name, defined once and used by many queries. Its parameters name
# sources, tables, views and streams, like fixtures in pytest: `raw_logs` and `customers` are in
# headrace.toml.
@hr.view
def logs(raw_logs, customers):
    """Parsed, with the customer's name. Lines that are not logs go to quarantine/."""
    return hr.parse_json(raw_logs, LOG).join(F.broadcast(customers), "customer_id")


@hr.view
def beats(raw_logs, customers):
    """Heartbeats only. Filters the raw text before parsing, which is much cheaper. `logs` already
    quarantines lines that cannot be parsed."""
    wanted = raw_logs.where(F.col("value").cast("string").contains("clusterHeartbeat"))
    return (
        hr.parse_json(wanted, LOG, quarantine=False)
        .where("event_type = 'clusterHeartbeat'")
        .join(F.broadcast(customers), "customer_id")
    )


# A stream is a query that Headrace keeps running. "metrics" is a sink in headrace.toml.
# Every 10 seconds, to show progress; in production, use 1 minute to get fewer, larger files.
@hr.stream(to="metrics", every="10 seconds", fresh_within="2 minutes")
def history(logs):
    """All logs, as Parquet, by day. Query it: headrace sql "SELECT ... FROM history"."""
    return logs.withColumn("date", F.to_date("timestamp")).repartition(1)


# A live table keeps the newest row of each key.
@hr.stream(
    to=hr.live(key="minute", chart="bar", x="minute", y="logins"),
    mode="update",
    every="5 seconds",
)
def logins(history):
    """Logins per minute of event time. Late logins are added to their minute for 10 minutes, then
    dropped and counted. A stream used as an input provides its committed output."""
    return (
        history.where("metric = 'login'")
        .withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "1 minute"))
        .count()
        .selectExpr("window.start AS minute", "count AS logins")
    )


# In real time if the source and the sink support it (Kafka), otherwise every 2 seconds.
@hr.stream(to="heartbeats", trigger=hr.real_time("1 minute", otherwise="2 seconds"))
def heartbeats(beats):
    """Lines of JSON, for other programs."""
    return beats.select(F.to_json(F.struct("*")).alias("value"))


# An alert opens once per key, counts further rows, and is resolved once.
@hr.stream(
    to=hr.alert(
        key="cluster_id",
        title="Cluster {cluster_id}: load {load}",
        severity="critical",
        clear="load < 90",
        at="timestamp",
    ),
    trigger=hr.real_time("1 minute", otherwise="2 seconds"),
)
def overloaded():
    """A returned string is Spark SQL over the same names."""
    return "SELECT cluster_id, load, timestamp FROM beats WHERE load > 99 OR load < 90"


@hr.stream(
    to=hr.alert(key="cluster_id", title="Cluster {cluster_id} is silent"),
    mode="update",
    every="3 seconds",  # detects a silence within 10 seconds of its one-minute limit
)
def silent(heartbeats):
    """One row when a cluster has sent nothing for a minute, and one when it is back."""
    beats = hr.parse_json(heartbeats, LOG, quarantine=False)
    return hr.absent(beats, key="cluster_id", for_="1 minute")
