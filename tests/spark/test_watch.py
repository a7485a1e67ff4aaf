"""The loop of a run, on real queries: they end together, and the verdict is the right one."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from building import built
from pyspark.sql import DataFrame, SparkSession

from headrace.connectors.files import files
from headrace.driver import heartbeat as sampling
from headrace.driver import pipeline
from headrace.driver import run_loop as watching
from headrace.driver.events import EventsFile
from headrace.driver.run_loop import RunLoop
from headrace.driver.running_queries import Queries, RunningQuery
from headrace.driver.signals import Signals
from headrace.health.run_view import QueryView, fold_all
from headrace.model.events import Event, EventKind
from headrace.model.limits import DrainLimits
from headrace.model.runs import Exit

pytestmark = pytest.mark.spark

EachBatch = Callable[[Any, int], None]


class Run:
    """What a driver has around its loop, without the process."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.signals = Signals(on_second=lambda: None)
        self.queries = Queries(spark=None, events=EventsFile(folder / "events.jsonl"))
        self.queries.attach(spark)
        self.spark = spark
        self.rows: list[str] = []

    def start(
        self, name: str, each_batch: EachBatch, frame: DataFrame | None = None, **trigger: Any
    ) -> None:
        rate = self.spark.readStream.format("rate").option("rowsPerSecond", 10)
        frame = frame or rate.load()
        checkpoint = str(self.folder / name / "v1")
        writer = frame.writeStream.foreachBatch(each_batch).queryName(name)
        writer = writer.option("checkpointLocation", checkpoint)
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self.queries.enter(RunningQuery(name, query, checkpoint), None, {})

    def read_files(self, name: str, meanwhile: EachBatch, **fields: Any) -> Exit:
        """One file a batch, until all is read; what was read is in `rows`."""
        source = files(self.folder / "in", "text", max_files=1, **fields)
        self.queries.inputs.note(name, [source])

        def take(batch: Any, number: int) -> None:
            self.rows += [row.value for row in batch.collect()]
            meanwhile(batch, number)

        self.start(name, take, source.read(self.spark), availableNow=True)
        return self.watch().until_the_end()

    def changes(self) -> list[dict[str, Any]]:
        return [dict(e.data) for e in self.told() if e.kind is EventKind.INPUTS_CHANGED]

    def watch(self, timeout_s: float = 20.0) -> RunLoop:
        limits = DrainLimits(timeout_s=timeout_s)
        return RunLoop(self.queries, self.signals, limits, self.folder, is_open=lambda: False)

    def told(self) -> list[Event]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [Event.from_line(line) for line in lines]


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Run]:
    one = Run(spark, tmp_path)
    yield one
    for watched in one.queries.all():
        watched.query.stop()


def idle(*_: Any) -> None:
    return None


def test_one_failure_ends_all_and_names_the_query_and_its_batch(run: Run) -> None:
    def fail(_: Any, batch_id: int) -> None:
        if batch_id == 1:
            raise ValueError("no price for order 7")

    run.start("healthy", idle)
    run.start("fragile", fail)

    exit_ = run.watch().until_the_end()

    assert (exit_.ending, exit_.query, exit_.batch) == ("failed", "fragile", 1)
    assert exit_.kind == "data"
    assert exit_.queries["fragile"] == {"batch": 0, "how": "failed"}
    assert exit_.queries["healthy"]["how"] == "clean"
    assert not any(one.query.isActive for one in run.queries.all())


def test_a_query_stuck_in_python_does_not_hide_why_another_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "DRAIN_AFTER_FAILURE_S", 1.0)
    entered, release = threading.Event(), threading.Event()

    def stuck(*_: Any) -> None:
        entered.set()
        release.wait(60)

    def fail(*_: Any) -> None:
        assert entered.wait(30)
        raise ValueError("no price for order 7")

    run.start("stuck", stuck)
    run.start("fragile", fail)
    try:
        exit_ = run.watch().until_the_end()
    finally:
        release.set()

    assert (exit_.ending, exit_.query, exit_.kind) == ("failed", "fragile", "data")
    assert exit_.queries["stuck"]["how"] == "cut"


def test_a_signal_drains_and_the_heartbeat_goes_on_meanwhile(run: Run) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*_: Any) -> None:
        entered.set()
        release.wait(30)

    run.start("slow", slow)
    assert entered.wait(30)
    run.signals._count_signal(15, None)
    threading.Timer(7.0, release.set).start()  # longer than the longest silence that is allowed

    exit_ = run.watch(timeout_s=30).until_the_end()

    assert (exit_.ending, exit_.code) == ("drained", 0)
    assert exit_.queries["slow"] == {"batch": 0, "how": "clean"}
    kinds = [event.kind for event in run.told()]
    draining = kinds.index(EventKind.DRAIN_STARTED)
    assert EventKind.SAMPLED in kinds[draining:], "silence means death to the supervisor"


def test_queries_that_come_to_their_end_finish_the_run(run: Run) -> None:
    run.start("once", idle, availableNow=True)

    exit_ = run.watch().until_the_end()

    assert (exit_.ending, exit_.code) == ("finished", 0)
    assert exit_.queries["once"]["how"] == "ended"


def test_a_pipeline_that_reads_what_there_is_ends_with_every_bad_record_kept(run: Run) -> None:
    (run.folder / "in").mkdir()
    for number in range(3):
        lines = [f'{{"id": {number}}}', f"bad {number}", "bad again"]
        (run.folder / "in" / f"{number}.txt").write_text("\n".join(lines) + "\n")
    (run.folder / "headrace.toml").write_text('[sources.lines]\nkind = "text"\npath = "in"\n')
    code = """
        @hr.view
        def records(lines):
            return hr.parse_json(lines, "id int")

        @hr.stream(to=hr.parquet("out"), trigger=hr.available_now())
        def kept(records):
            return records.select("id")
        """
    for planned in built(run.spark, run.folder, code).planned:
        pipeline.start(run.spark, planned, None, run.queries)
    enough = threading.Timer(120, run.signals._count_signal, (15, None))
    enough.start()

    exit_ = run.watch().until_the_end()
    enough.cancel()

    assert (exit_.ending, exit_.code) == ("finished", 0)
    aside = run.spark.read.parquet(str(run.folder / "quarantine/orders/records")).collect()
    expected = ["bad 0", "bad 1", "bad 2", "bad again", "bad again", "bad again"]
    assert sorted(bytes(row.raw).decode() for row in aside) == expected
    rows = run.spark.read.parquet(str(run.folder / "out")).collect()
    assert sorted(row.id for row in rows) == [0, 1, 2]


def test_a_continuous_query_tells_of_its_epochs_and_rows_also_after_a_restart(run: Run) -> None:
    checkpoint = str(run.folder / "ticks" / "v1")

    def start() -> None:
        rate = run.spark.readStream.format("rate").option("rowsPerSecond", 20)
        rows = rate.option("numPartitions", 2).load().writeStream.format("noop").queryName("ticks")
        rows = rows.option("checkpointLocation", checkpoint).trigger(continuous="200 milliseconds")
        run.queries.enter(
            RunningQuery("ticks", rows.start(), checkpoint), None, {"batch_length_s": 0.2}
        )

    def view() -> QueryView:
        return fold_all(run.told()).queries["ticks"]

    start()
    sampler, deadline = sampling.Sampler(run.queries), time.monotonic() + 90
    while not (view().batches > 3 and view().rows_in > 20) and time.monotonic() < deadline:
        sampler.sample()
        time.sleep(0.1)
    seen, first = fold_all(run.told()), view()
    run.queries.all()[0].query.stop()
    start()
    again = run.queries.all()[-1].epochs

    assert seen.is_under_way
    assert first.batches == (first.batch or 0) + 1, "epochs are counted, not looks"
    assert 20 < first.rows_in < 20 * 90
    assert first.trigger_active, "it is at work all the time"
    assert again is not None
    assert (again.last or 0) >= (first.batch or 0), "what an earlier run has done is not new"


def test_tasks_are_counted_in_a_slow_batch_and_not_in_a_long_row_of_quick_ones(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "SLOW_S", 3.0)
    monkeypatch.setattr(sampling, "EVERY_S", 0.05)
    slow = 15
    for number in range(slow + 1):
        (run.folder / f"{number:02}.txt").write_text("a line\n")
    lines = run.spark.readStream.option("maxFilesPerTrigger", 1).text(str(run.folder / "*.txt"))

    def work(_: Any, batch_id: int) -> None:
        for _ in range(5 if batch_id == slow else 1):
            run.spark.range(1).count()
            time.sleep(1.0 if batch_id == slow else 0.2)

    run.start("all", work, lines, availableNow=True)
    assert run.watch().until_the_end().ending == "finished"

    told = run.told()
    ends = [event.at for event in told if event.kind == EventKind.PROGRESSED]
    assert len(ends) == slow + 1
    samples = [
        (event.at, event.data["queries"]["all"])
        for event in told
        if event.kind == EventKind.SAMPLED
    ]
    counted = [(at, one["tasks_done"]) for at, one in samples if "tasks_done" in one]
    for at, _ in counted:
        # What is counted near the end of a slow batch may be written just after it.
        since = max((end for end in ends if end <= at - 1.0), default=0.0)
        assert at - since > 2.9, "it was counted in a quick batch"
    in_slow = [tasks for at, tasks in counted if ends[-2] < at < ends[-1]]
    assert in_slow == sorted(in_slow)
    assert len(set(in_slow)) > 1, counted


def test_the_heartbeat_tells_how_much_memory_is_really_in_use(run: Run) -> None:
    """Garbage is no sign of a heap that is too small; what survives a collection is."""
    jvm: Any = run.spark._jvm
    held = jvm.java.nio.ByteBuffer.allocate(64_000_000)
    jvm.java.lang.System.gc()

    assert sampling.Sampler(run.queries).sample()

    (sample,) = [event.data for event in run.told() if event.kind is EventKind.SAMPLED]
    assert held.capacity() <= sample["heap_after_gc"] <= sample["heap_used"] + 64_000_000
    assert sample["heap_used"] <= sample["heap_committed"] <= sample["heap_max"] <= 1 << 30
    assert 0 < sample["driver_memory"] < sample["memory"]
    assert sample["driver_memory"] + sample["jvm_memory"] <= sample["memory"]
    view = fold_all(run.told())
    assert (view.heap_after_gc, view.heap_max) == (sample["heap_after_gc"], sample["heap_max"])
    assert view.memory == sample["memory"]


def wait_for(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def six_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Each with rows of its own, in the order in which Spark takes them; and all those rows."""
    (folder / "in").mkdir()
    found, rows = [folder / "in" / f"{number}.txt" for number in range(6)], []
    for number, path in enumerate(found):
        mine = [f"{number}-{row}" for row in range(3)]
        path.write_text("".join(f"{row}\n" for row in mine))
        os.utime(path, (1_700_000_000 + number,) * 2)
        rows += mine
    return found, rows


def test_a_file_that_vanished_before_it_was_read_stops_the_run_and_is_not_lost(run: Run) -> None:
    paths, expected = six_files(run.folder)
    kept = run.folder / "kept.txt"

    def delete_fourth(_: Any, batch_id: int) -> None:
        if batch_id == 0:
            paths[3].rename(kept)
        if batch_id == 2:
            wait_for(lambda: "progressed" in (run.folder / "events.jsonl").read_text())
            paths[0].unlink()  # it is committed: its owner may archive it

    exit_ = run.read_files("lines", delete_fourth)

    assert (exit_.ending, exit_.kind, exit_.failure) == ("failed", "human", "input-vanished")
    assert (exit_.query, exit_.batch) == ("lines", 3)
    assert exit_.error
    assert str(paths[3]) in str(exit_.error["what"])
    assert [(c["batch"], c["vanished"], c["vanished_files"]) for c in run.changes()] == [
        (3, 1, [str(paths[3])])
    ]

    kept.rename(run.folder / "in" / "3-again.txt")  # as the error says
    again = Run(run.spark, run.folder)
    assert again.read_files("lines", idle).ending == "finished"
    assert Counter(run.rows + again.rows) == Counter(expected)


def test_by_choice_a_run_goes_on_without_a_vanished_file_and_counts_it(run: Run) -> None:
    paths, expected = six_files(run.folder)

    def change(_: Any, batch_id: int) -> None:
        if batch_id == 0:
            paths[2].unlink()
            paths[4].write_text("other\n")
        # With the progress of the batch before, the plan of this one is looked at.
        wait_for(lambda: run.folder.joinpath("events.jsonl").read_text().count(told) >= batch_id)

    told = '"event":"progressed"'
    # Where Spark may tidy up, only a plan is evidence.
    tidied = {"cleanSource": "off"}
    exit_ = run.read_files("lines", change, on_missing="continue", options=tidied)

    assert exit_.ending == "finished"
    found = fold_all(run.told()).queries["lines"].inputs
    assert (found.vanished, found.vanished_files) == (1, (str(paths[2]),))
    assert (found.rewritten, found.rewritten_files) == (1, (str(paths[4]),))
    lost = {row for row in expected if row[0] in "24"}
    assert Counter(run.rows) == Counter([*(set(expected) - lost), "other"])


def test_an_end_that_no_listener_told_of_is_noticed(run: Run) -> None:
    run.start("quiet", idle)
    run.queries.all()[0].query.stop()
    run.queries.terminated = _Deaf()

    exit_ = run.watch().until_the_end()

    assert exit_.ending == "finished"


class _Deaf(dict[str, Any]):
    """Forgets what the listener tells until the loop has looked for itself."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def __setitem__(self, run_id: str, value: Any) -> None:
        if run_id in self._told or threading.current_thread() is threading.main_thread():
            super().__setitem__(run_id, value)
        self._told.add(run_id)
