"""Stopping a real query: at a batch boundary, or cut, and the report says which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.checkpoints import checkpoint_content
from headrace.driver.drain import DrainResult, drain

pytestmark = pytest.mark.spark


def never() -> bool:
    return False


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[Any], StreamingQuery]]:
    queries: list[StreamingQuery] = []

    def begin(each_batch: Callable[[Any, int], None]) -> StreamingQuery:
        frame = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        writer = frame.writeStream.foreachBatch(each_batch)
        queries.append(writer.option("checkpointLocation", str(tmp_path / "c")).start())
        return queries[-1]

    yield begin
    for query in queries:
        query.stop()


def test_a_running_batch_is_finished_and_committed(
    spark: SparkSession, start: Callable[[Any], StreamingQuery], tmp_path: Path
) -> None:
    entered, finished = threading.Event(), []

    def slow(_: Any, batch_id: int) -> None:
        entered.set()
        time.sleep(1.5)  # the work: a drain that cuts would come back before it is done
        finished.append(batch_id)

    query = start(slow)
    assert entered.wait(30)

    ended = drain(spark, [query], timeout_s=20, is_hurried=never)

    assert ended == {str(query.runId): DrainResult.CLEAN}
    assert finished
    assert finished[-1] == checkpoint_content.last_committed_batch(tmp_path / "c")
    assert query.exception() is None


def test_a_batch_that_takes_too_long_is_cut_and_said_to_be(
    spark: SparkSession, start: Callable[[Any], StreamingQuery]
) -> None:
    entered, release = threading.Event(), threading.Event()

    def stuck(*_: Any) -> None:
        entered.set()
        release.wait(20)

    query = start(stuck)
    assert entered.wait(30)
    threading.Timer(2.0, release.set).start()  # Spark's stop() waits for the Python call

    ended = drain(spark, [query], timeout_s=0.5, is_hurried=never)

    assert ended == {str(query.runId): DrainResult.CUT}


def test_a_second_signal_does_not_wait_for_the_deadline(
    spark: SparkSession, start: Callable[[Any], StreamingQuery]
) -> None:
    entered, release = threading.Event(), threading.Event()

    def stuck(*_: Any) -> None:
        entered.set()
        release.wait(20)

    query = start(stuck)
    assert entered.wait(30)
    threading.Timer(1.0, release.set).start()
    began = time.monotonic()

    ended = drain(spark, [query], timeout_s=60, is_hurried=lambda: True)

    assert ended == {str(query.runId): DrainResult.CUT}
    assert time.monotonic() - began < 30
