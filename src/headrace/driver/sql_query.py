"""Runs one SQL query in Spark: the named tables become views, the result is written as JSON.

For tables and SQL that DuckDB does not support. Only the command line uses it, since Spark SQL can
run code.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, json_file
from headrace.checkpoints import committed_files
from headrace.connectors import kinds
from headrace.driver import pipeline, plan_analysis
from headrace.driver.running_queries import Queries
from headrace.errors import SqlError
from headrace.explore import live_tables
from headrace.explore.result import AsOf, plain
from headrace.model.runs import Ending, Exit, RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(spec: RunSpec, settings: config.Settings, run_dir: Path, queries: Queries) -> Exit:
    # PySpark returns timestamps in the process's time zone, without naming it.
    os.environ["TZ"] = "UTC"
    time.tzset()
    request = spec.question
    scratch = Path(request["answer"]).parent
    tables = request["tables"]
    # The text of the tables decides which connectors' jars are loaded.
    spark = pipeline.start_session(spec, settings, run_dir, queries, [json.dumps(tables)])
    try:
        as_of = [_as_view(spark, view, table, scratch) for view, table in tables.items()]
        frame = spark.sql(request["sql"])
        rows = frame.limit(request["rows_max"] + 1).collect()
    except SqlError:
        raise
    except Exception as exc:  # a boundary: Spark may refuse a query with anything
        raise SqlError(
            f"Spark cannot run the query: {plan_analysis.short_message(exc)}",
            fix="Run `headrace sql` without a query to list tables and columns.",
            slug="sql-failed",
        ) from exc
    body = {
        "columns": frame.columns,
        "types": [kind for _, kind in frame.dtypes],
        "rows": [[plain(value) for value in row] for row in rows],
        "tables": [asdict(table) for table in as_of],
    }
    json_file.write_json(Path(request["answer"]), body)
    return Exit(Ending.FINISHED, code=0, at=time.time())


def _as_view(spark: SparkSession, view: str, table: dict[str, Any], scratch: Path) -> AsOf:
    """The time is read before the rows, so the rows are at least as new as reported."""
    if table.get("live"):
        return _live_view(spark, view, table, scratch / f"{view}.parquet")
    sink = kinds.build_connector(table["sink"], name=table["name"])
    at: float | None = time.time()
    batch: int | None = None
    if files := sink.as_files():
        at, batch = committed_files.newest(Path(files.identity()))
    sink.read(spark, streaming=False, schema=table["schema"]).createOrReplaceTempView(view)
    return AsOf(table["name"], at, batch)


def _live_view(spark: SparkSession, view: str, table: dict[str, Any], copy: Path) -> AsOf:
    """Reads a copy, since a snapshot may be deleted before Spark reads it."""
    snapshot = live_tables.copy_snapshot(Path(table["live"]), copy)
    if snapshot is None:
        spark.createDataFrame([], table["schema"]).createOrReplaceTempView(view)
        return AsOf(table["name"])
    spark.read.parquet(str(copy)).createOrReplaceTempView(view)
    return AsOf(table["name"], snapshot.at, snapshot.batch, files=1)
