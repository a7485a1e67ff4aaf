"""One question in SQL for Spark itself: a session, the named tables as views, the answer as JSON.

For what DuckDB cannot read or say. Only the command line asks this way: Spark SQL can run code.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, jsonfile
from headrace.connectors import kinds
from headrace.define import sql
from headrace.driver import analyse, pipeline
from headrace.driver.fleet import Fleet
from headrace.errors import SqlError
from headrace.explore.answer import plain
from headrace.model.runs import Ending, Exit, RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(spec: RunSpec, settings: config.Settings, run_dir: Path, ours: Fleet) -> Exit:
    # PySpark hands moments over in the process's own time zone and without its name.
    os.environ["TZ"] = "UTC"
    time.tzset()
    asked = spec.question
    wanted = sql.tables(asked["sql"], list(asked["tables"]))
    spark = pipeline.start_session(spec, settings, run_dir, ours)
    try:
        for name in wanted:
            _as_view(spark, name, asked["tables"][name])
        found = spark.sql(asked["sql"])
        rows = found.limit(asked["rows_max"] + 1).collect()
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
    }
    jsonfile.write_json(Path(asked["answer"]), body)
    return Exit(Ending.FINISHED, code=0, at=time.time())


def _as_view(spark: SparkSession, name: str, table: dict[str, Any]) -> None:
    sink = kinds.made(table["sink"], name=name)
    sink.read(spark, streaming=False, schema=table["schema"]).createOrReplaceTempView(name)
