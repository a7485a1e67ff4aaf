"""One question in SQL for Spark itself: a session, the named tables as views, the answer as JSON.

For what DuckDB cannot read or say. Only the command line asks this way: Spark SQL can run code.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, jsonfile
from headrace.checkpoints import committed
from headrace.connectors import kinds
from headrace.connectors.files import Files
from headrace.driver import analyse, pipeline
from headrace.driver.fleet import Fleet
from headrace.errors import SqlError
from headrace.explore import live
from headrace.explore.answer import AsOf, plain
from headrace.model.runs import Ending, Exit, RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(spec: RunSpec, settings: config.Settings, run_dir: Path, ours: Fleet) -> Exit:
    # PySpark hands moments over in the process's own time zone and without its name.
    os.environ["TZ"] = "UTC"
    time.tzset()
    asked = spec.question
    scratch = Path(asked["answer"]).parent
    about = [json.dumps(asked["tables"])]  # the jars of what is asked about
    spark = pipeline.start_session(spec, settings, run_dir, ours, about)
    try:
        given = asked["tables"].items()
        read = [_as_view(spark, view, table, scratch) for view, table in given]
        found = spark.sql(asked["sql"])
        rows = found.limit(asked["rows_max"] + 1).collect()
    except SqlError:
        raise
    except Exception as exc:  # a border: Spark may refuse a question with anything
        raise SqlError(
            f"Spark cannot answer: {analyse.said(exc)}",
            fix="headrace sql without a question lists tables and columns",
            slug="sql-failed",
        ) from exc
    body = {
        "columns": found.columns,
        "types": [kind for _, kind in found.dtypes],
        "rows": [[plain(value) for value in row] for row in rows],
        "tables": [asdict(one) for one in read],
    }
    jsonfile.write_json(Path(asked["answer"]), body)
    return Exit(Ending.FINISHED, code=0, at=time.time())


def _as_view(spark: SparkSession, view: str, table: dict[str, Any], scratch: Path) -> AsOf:
    """The moment is looked up before the rows: what is read is at least as new as is said."""
    if table.get("live"):
        return _live_view(spark, view, table, scratch / f"{view}.parquet")
    sink = kinds.made(table["sink"], name=table["name"])
    at: float | None = time.time()
    batch: int | None = None
    if isinstance(sink, Files):
        at, batch = committed.newest(Path(sink.identity() or ""))
    sink.read(spark, streaming=False, schema=table["schema"]).createOrReplaceTempView(view)
    return AsOf(table["name"], at, batch)


def _live_view(spark: SparkSession, view: str, table: dict[str, Any], copy: Path) -> AsOf:
    """Of a copy: Spark reads late, and a snapshot may be gone by then."""
    found = live.copied(Path(table["live"]), copy)
    if found is None:
        spark.createDataFrame([], table["schema"]).createOrReplaceTempView(view)
        return AsOf(table["name"])
    spark.read.parquet(str(copy)).createOrReplaceTempView(view)
    return AsOf(table["name"], found.at, found.batch, files=1)
