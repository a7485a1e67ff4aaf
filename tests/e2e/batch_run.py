"""The same definitions, run as a batch over the same input: what a stream's answer is held against.

`run` starts a process of its own, since a test process has one JVM at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(project: Path, pipeline: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of every query of the pipeline, as plain JSON values."""
    done = subprocess.run(
        [sys.executable, __file__, pipeline],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"the batch run failed:\n{done.stdout}\n{done.stderr}")
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _main(pipeline: str) -> None:
    from pyspark.sql import SparkSession

    from headrace import config
    from headrace.define import graph, loader
    from headrace.driver import build

    project = Path.cwd()
    settings = config.load(project).for_pipeline(pipeline)
    loaded = loader.load(loader.discover(settings)[pipeline], root=project, project=project)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    resolved = graph.resolve(pipeline, loaded.collector, settings)
    built = build.build(resolved, spark, settings, streaming=False)
    rows = {
        planned.query.name: [json.loads(text) for text in planned.frame.toJSON().collect()]
        for planned in built.planned
    }
    print(json.dumps(rows))


if __name__ == "__main__":
    _main(sys.argv[1])
