"""One Spark session for all guides, and guides as projects: their files and samples, as printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guidebook import SHORT_LIVED, Guide


@pytest.fixture(scope="package")
def spark() -> Iterator[Any]:
    """Small, but with the state store that Headrace sets. Its JVM ends with these tests."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from headrace.driver import session as ours

    session = (
        SparkSession.builder.master("local[2]")
        .appName("headrace-guides")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-Xss8m {SHORT_LIVED}")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("FATAL")
    for default in ours.DEFAULTS:
        if default.key.startswith("spark.sql.") and session.conf.isModifiable(default.key):
            session.conf.set(default.key, default.value)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its input does
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def guide(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Guide]]:
    """`guide("joins", "shown", "clicks")`: the page's files in a new project with these folders."""
    monkeypatch.chdir(tmp_path)  # a driver works in the project's folder
    opened: list[Guide] = []

    def open_(page: str, *folders: str, change: tuple[str, str] | None = None) -> Guide:
        made = Guide(page, tmp_path, spark)
        made.write_files(change)
        for folder in folders or ("incoming",):
            (tmp_path / folder).mkdir()
        opened.append(made)
        return made

    yield open_
    for query in spark.streams.active:
        query.stop()
