"""What all sides do with a log: the same functions in the pipelines and in the bare scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = """
    timestamp timestamp, customer_id int, event_type string, metric string,
    level string, cluster_id int, load double
"""
CUSTOMER = "customer_id int, customer string, plan string"


def opened(raw: DataFrame) -> DataFrame:
    """As PySpark's own guide has it."""
    parsed = F.from_json(F.col("value").cast("string"), LOG)
    return raw.select(parsed.alias("log")).select("log.*")


def dated(logs: DataFrame, customers: DataFrame) -> DataFrame:
    found = logs.join(F.broadcast(customers), "customer_id")
    return found.withColumn("date", F.to_date("timestamp"))


def beats(raw: DataFrame, customers: DataFrame) -> DataFrame:
    found = opened(raw).where("event_type = 'clusterHeartbeat'")
    joined = found.join(F.broadcast(customers), "customer_id")
    return joined.select(F.to_json(F.struct("*")).alias("value"))
