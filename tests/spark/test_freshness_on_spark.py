"""Freshness and late rows of real queries: what Spark writes is what we read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.driver.events import EventsFile
from headrace.driver.running_queries import Queries, RunningQuery
from headrace.health import judgement
from headrace.health.run_view import RunView, fold_all
from headrace.model.events import Event, EventKind

pytestmark = pytest.mark.spark

SLACK_S = 30.0  # a slow machine makes answers older, never younger


class Run:
    """Queries with their listener, and the events they wrote."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.queries = Queries(spark=None, events=EventsFile(folder / "events.jsonl"))
        self.queries.attach(spark)
        self._fed = 0

    def feed(self, age_s: float, text: str = '{"a": 1}\n', into: str = "incoming") -> None:
        """A file that was last written so long ago, and appears whole."""
        (self.folder / into).mkdir(exist_ok=True)
        self._fed += 1
        half = self.folder / f".{self._fed}"
        half.write_text(text)
        os.utime(half, (time.time() - age_s,) * 2)
        half.rename(self.folder / into / f"{self._fed}.json")

    def read(self, schema: str = "a int", path: str = "incoming", **options: Any) -> Any:
        return self.spark.readStream.schema(schema).options(**options).json(str(self.folder / path))

    def drain(self, name: str, frame: Any, **facts: Any) -> None:
        """All that is there, in as many batches as it takes; then the news of them."""
        mode = facts.pop("mode", "append")
        sink = self.folder / "out" / name
        checkpoint = str(self.folder / "checkpoints" / name)
        writer = frame.writeStream.queryName(name).outputMode(mode)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = (writer.format("noop") if mode == "update" else writer.format("json")).start(
            None if mode == "update" else str(sink)
        )
        self.queries.enter(RunningQuery(name, query, checkpoint), None, facts)
        assert query.awaitTermination(120)
        deadline = time.monotonic() + 30
        while str(query.runId) not in self.queries.terminated:
            assert time.monotonic() < deadline, "Spark's listener lost the end of the query"
            time.sleep(0.02)

    def told(self) -> list[Event]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [Event.from_line(line) for line in lines]

    def fresh(self, name: str) -> list[dict[str, Any]]:
        """Of every batch with rows, in order."""
        told = [e for e in self.told() if e.kind is EventKind.PROGRESSED and e.query == name]
        return [e.data["fresh"] for e in told if e.data["progress"]["numInputRows"]]

    def view(self) -> RunView:
        return fold_all(self.told())


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Run]:
    one = Run(spark, tmp_path)
    yield one
    for watched in one.queries.all():
        watched.query.stop()


def within(ms: float, age_s: float) -> bool:
    return age_s <= ms / 1000 <= age_s + SLACK_S


def test_files_are_as_old_as_they_are_in_every_batch_across_compaction_and_a_restart(
    run: Run,
) -> None:
    """One file a batch, so entry 9 and 19 of the source's log are compact ones; then once more."""
    ages = [1_000.0 * (30 - n) for n in range(13)]
    for age in ages:
        run.feed(age)
    run.drain("copied", run.read(maxFilesPerTrigger=1))
    for age in (900.0, 800.0, 700.0, 600.0, 500.0, 400.0, 300.0, 200.0):
        run.feed(age)
        ages.append(age)
    run.drain("copied", run.read(maxFilesPerTrigger=1))

    found = run.fresh("copied")

    logs = run.folder / "checkpoints" / "copied" / "sources" / "0"
    assert (logs / "19.compact").exists()
    assert [one["basis"] for one in found] == ["arrival"] * 21
    for one, age in zip(found, ages, strict=True):
        assert within(one["p50_ms"], age)
        assert one["p50_ms"] == one["p99_ms"] == one["newest_ms"]


def test_a_batch_of_many_files_tells_its_middle_and_its_oldest(run: Run) -> None:
    for age in (10, 20, 30, 40, 50, 60, 70, 80, 90, 6_000):
        run.feed(age)

    run.drain("copied", run.read())

    [found] = run.fresh("copied")
    assert found["n"] == 10
    assert within(found["newest_ms"], 10)
    assert within(found["p50_ms"], 50)
    assert within(found["p99_ms"], 6_000)


def test_a_promise_is_held_against_the_files(run: Run) -> None:
    run.feed(180)
    run.drain("copied", run.read(), fresh_within_s=60.0)
    view = run.view()
    running = replace(view.queries["copied"], terminated_at=None)

    words = judgement.broken_promise(view, running, time.time())

    assert words is not None
    assert words.endswith("min; target 60 s")


def test_what_is_read_back_has_the_age_of_what_came_before(run: Run) -> None:
    run.feed(1_000)
    run.drain("first", run.read())
    run.drain("second", run.read(path="out/first"), after=["first"])
    view = run.view()

    own = view.queries["second"].fresh.p50_ms
    total, _ = judgement.freshness(view, view.queries["second"])

    assert own is not None
    assert total is not None
    assert within(own, 0)
    assert within(total, 1_000)


def test_late_rows_are_counted(run: Run) -> None:
    def rows(*moments: str) -> str:
        return "".join(f'{{"at": "2026-01-01T{moment}Z"}}\n' for moment in moments)

    run.feed(50, rows("12:00:00"))
    run.feed(40, rows("13:00:00"))  # moves the watermark to 12:59
    run.feed(30, rows("13:00:01"))  # Spark holds rows against the watermark before the last
    run.feed(20, rows("12:00:02", "12:10:00", "13:00:02"))  # two come too late
    frame = run.read("at timestamp", maxFilesPerTrigger=1).withWatermark("at", "1 minute")
    counted = frame.groupBy(F.window("at", "1 minute")).count()

    run.drain("counted", counted, mode="update")

    view = run.view()
    (row,) = judgement.query_statuses(judgement.Subject(None, view), time.time())  # type: ignore[arg-type]
    assert (row.late_rows, row.rows_in) == (2, 6)
    assert row.fresh_basis == "arrival"


def test_rows_of_a_rate_source_are_as_old_as_the_time_between_two_looks(run: Run) -> None:
    frame = run.spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    checkpoint = str(run.folder / "checkpoints" / "ticks")
    writer = frame.writeStream.queryName("ticks").format("noop")
    writer = writer.option("checkpointLocation", checkpoint).trigger(processingTime="2 seconds")
    query = writer.start()
    run.queries.enter(RunningQuery("ticks", query, checkpoint), None, {})

    deadline = time.monotonic() + 60
    while not [one for one in run.fresh("ticks") if one]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    query.stop()

    told = next(e.data for e in run.told() if e.kind is EventKind.PROGRESSED and e.data["fresh"])
    found, source = told["fresh"], told["progress"]["sources"][0]
    since_ms = 1000 * source["numInputRows"] / source["inputRowsPerSecond"]  # as Spark says
    assert found["basis"] == "trigger"
    assert 0 < found["newest_ms"] < found["p50_ms"] < found["p99_ms"]
    assert found["p99_ms"] - found["newest_ms"] == pytest.approx(since_ms, rel=0.1)
