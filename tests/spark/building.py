"""A pipeline built from text with a real session, run to its end, or refused."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from headrace import config
from headrace.define import graph, loader
from headrace.driver.build import BuiltPipeline, build
from headrace.errors import Error, Problems


def built(
    spark: Any, folder: Path, code: str, profile: str = "dev", **options: Any
) -> BuiltPipeline:
    (folder / "orders.py").write_text(
        "import headrace as hr\nfrom pyspark.sql import functions as F\n" + textwrap.dedent(code)
    )
    settings = config.load(folder, profile).for_pipeline("orders")
    loaded = loader.load("orders.py", folder, folder)
    return build(graph.resolve("orders", loaded.collector, settings), spark, settings, **options)


def drained(spark: Any, result: BuiltPipeline) -> None:
    """Run each query until it has read what is there, in order, as a driver would start them."""
    for one in result.planned:
        query = one.query
        writer = one.sink.attach(
            one.frame.writeStream, query=query.name, mode=query.mode, checkpoint=query.checkpoint
        )
        started = writer.trigger(availableNow=True).start()
        assert started.awaitTermination(120)


def problems(spark: Any, folder: Path, code: str, **options: Any) -> list[Error]:
    with pytest.raises(Error) as caught:
        built(spark, folder, code, **options)
    error = caught.value
    return list(error.problems) if isinstance(error, Problems) else [error]
