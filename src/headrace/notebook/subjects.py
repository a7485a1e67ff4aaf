"""What is shown and followed: a query that a display starts for a streaming DataFrame, or one that
the user has started. Each has `query`, `rows()` and `end()`.

Invariant: a display ends only what it has started itself.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import SetupError
from headrace.notebook import taking
from headrace.notebook.cells import Rows
from headrace.notebook.look import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

END_S = 20.0
_numbers = itertools.count(1)
# A complete result says all that is known; what has none (no aggregation) is appended.
_MODES = ("complete", "append", "update")


class Own:
    """A streaming DataFrame: one query, whose rows are kept here and nowhere else."""

    is_own = True

    def __init__(self, frame: DataFrame, look: Look) -> None:
        if not hasattr(frame, "_jdf"):
            raise SetupError(
                "A stream of Spark Connect cannot be displayed.",
                why="Its batches are handed to a function on the server, not to this process.",
                fix="Use a classic session here, or write to hr.memory() and display the table.",
                slug="connect-session",
            )
        self._name = f"display_{next(_numbers)}_{os.getpid()}"
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-display-"))
        try:
            self.query, self._window = self._started(frame, look)
        except BaseException:
            self._end_unseen(frame)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def newest(self) -> bool:
        return not self._window.is_whole

    def rows(self) -> Rows | None:
        return self._window.rows()

    def end(self) -> None:
        ended(self.query)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self, frame: DataFrame, look: Look) -> tuple[StreamingQuery, taking.Window]:
        """In the first mode that Spark takes. It judges before anything runs."""
        from pyspark.errors import AnalysisException

        refused: dict[str, AnalysisException] = {}
        for mode in _MODES:
            window = taking.Window(look.rows, is_whole=mode == "complete")
            writer = frame.writeStream.queryName(self._name).outputMode(mode)
            writer = writer.option("checkpointLocation", str(self._folder / mode))
            writer = writer.trigger(processingTime=f"{round(look.every_s * 1000)} milliseconds")
            try:
                return writer.foreachBatch(window.take).start(), window
            except AnalysisException as exc:
                refused[mode] = exc
        raise refused["append"]

    def _end_unseen(self, frame: DataFrame) -> None:
        """An interrupt may come when Spark has started it and Python does not know it yet."""
        for one in frame.sparkSession.streams.active:
            if one.name == self._name:
                ended(one)


class Foreign:
    """A query that runs anyway. Of a memory sink its table is shown too."""

    is_own = False

    def __init__(self, query: StreamingQuery, spark: SparkSession | None, look: Look) -> None:
        self.query = query
        self._spark, self._look = spark, look
        self._batch: int | None = None
        self._rows: Rows | None = None

    newest = True

    @property
    def has_rows(self) -> bool:
        return bool(self._spark and self.query.name) and self._is_memory()

    def rows(self) -> Rows | None:
        """Read again when a batch has been committed since."""
        last: Any = self.query.lastProgress
        if self._spark is None or last is None or not self.has_rows:
            return self._rows
        if last["batchId"] != self._batch:
            frame = self._spark.table(f"`{self.query.name}`")
            self._rows = taking.of_batch(frame, self._look.rows, last=True)
            self._batch = last["batchId"]
        return self._rows

    def end(self) -> None:
        """It is not ours to end."""

    def _is_memory(self) -> bool:
        query: Any = self.query
        return "MemorySink" in str(query._jsq.streamingQuery().sink().getClass().getName())


def ended(query: Any, within_s: float = END_S) -> bool:
    """Stopped, or still stopping after that long: Spark waits for a batch that runs."""
    thread = threading.Thread(target=_stop, args=(query,), daemon=True)
    thread.start()
    thread.join(within_s)
    return not thread.is_alive()


def _stop(query: Any) -> None:
    from py4j.protocol import Py4JError

    try:
        query.stop()
    except (Py4JError, OSError):
        return  # the session is gone, and the query with it
