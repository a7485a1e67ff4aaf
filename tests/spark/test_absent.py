"""Silence on a real clock: told once, resolved once, and never because of ourselves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from building import built

pytestmark = pytest.mark.spark

CODE = """
@hr.stream(to=hr.each_batch(print), mode="update", every="1 second")
def quiet(lines):
    return hr.absent(lines, key="value", for_="4 seconds")
"""


class Stage:
    """Beats are lines of files; what the query said is kept in order, over all its runs."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.said: list[tuple[str, bool]] = []
        self.batches = 0
        self.hold_s = 0.0
        self.query: Any = None
        self._files = 0

    def beat(self, *keys: str) -> None:
        self._files += 1
        hidden = self.folder / "lines" / f".{self._files}"
        hidden.write_text("".join(f"{key}\n" for key in keys))
        os.rename(hidden, self.folder / "lines" / f"{self._files}.txt")

    def start(self) -> None:
        planned = built(self.spark, self.folder, CODE).planned[0]
        writer = planned.frame.writeStream.outputMode("update").foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = writer.trigger(processingTime="1 second").start()

    def stop(self) -> None:
        self.query.stop()

    def _take(self, frame: Any, batch: int) -> None:
        self.said += [(row.value, row.resolved) for row in frame.collect()]
        time.sleep(self.hold_s)  # a batch as slow as the test wants it
        self.batches += 1

    def until(self, condition: Callable[[], bool], *beating: str, limit_s: float = 60) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert self.query.exception() is None
            assert time.monotonic() < deadline, f"said only {self.said}"
            if beating:
                self.beat(*beating)
            time.sleep(0.3)


@pytest.fixture
def stage(spark: Any, tmp_path: Path) -> Generator[Stage, None, None]:
    (tmp_path / "headrace.toml").write_text('[sources.lines]\nkind = "text"\npath = "lines"\n')
    (tmp_path / "lines").mkdir()
    provider = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(
        provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
    made = Stage(spark, tmp_path)
    yield made
    if made.query is not None:
        made.stop()
    spark.conf.unset(provider)


def test_silence_is_told_once_and_resolved_once(stage: Stage) -> None:
    stage.beat("a", "b", "c")
    stage.start()
    stage.until(lambda: ("c", False) in stage.said, "a", "b")
    told_in = stage.batches
    stage.until(lambda: stage.batches > told_in + 2, "a", "b")
    assert stage.said == [("c", False)]
    stage.until(lambda: ("c", True) in stage.said, "a", "b", "c")
    assert stage.said == [("c", False), ("c", True)]

    # A slow batch: all keys go on beating while it lasts longer than the limit.
    stage.hold_s = 6.0
    seen = stage.batches
    stage.until(lambda: stage.batches > seen + 1, "a", "b", "c")
    stage.hold_s = 0.0
    assert stage.said == [("c", False), ("c", True)]

    # Down for longer than the limit: what c sent meanwhile might not have been read yet.
    stage.stop()
    time.sleep(5)  # the silence is what is tested
    stage.start()
    seen = stage.batches
    stage.until(lambda: stage.batches > seen, "a", "b")
    assert stage.said == [("c", False), ("c", True)]
    stage.until(lambda: ("c", False) in stage.said[2:], "a", "b")
    assert stage.said[2:] == [("c", False)]
