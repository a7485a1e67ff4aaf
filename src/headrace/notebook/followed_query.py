"""The query that a display follows: its own for a streaming DataFrame, or one of the user.

Invariant: a display ends only a query that it has started itself.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import SetupError
from headrace.model.progress import from_spark
from headrace.notebook import rows as row_reader
from headrace.notebook.cell_text import Rows
from headrace.notebook.display_options import DisplayOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

END_S = 20.0
_numbers = itertools.count(1)
# Complete mode shows the whole result. It needs an aggregation; other queries append.
_MODES = ("complete", "append", "update")


class StartedQuery:
    """A query for a streaming DataFrame. Its rows are kept in this process only."""

    is_own = True

    def __init__(self, frame: DataFrame, options: DisplayOptions) -> None:
        if not hasattr(frame, "_jdf"):
            raise SetupError(
                "Cannot display a stream from a Spark Connect session.",
                why="The batches stay on the server and do not reach this process.",
                fix="Use a classic session, or write to hr.memory() and display the table.",
                slug="connect-session",
            )
        self._name = f"display_{next(_numbers)}_{os.getpid()}"
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-display-"))
        try:
            self.query, self._window = self._start_query(frame, options)
        except BaseException:
            self._stop_started(frame)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def newest(self) -> bool:
        return not self._window.is_whole

    def rows(self) -> Rows | None:
        return self._window.rows()

    def end(self) -> None:
        _stop_query(self.query)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_query(
        self, frame: DataFrame, options: DisplayOptions
    ) -> tuple[StreamingQuery, row_reader.RowWindow]:
        """In the first output mode that Spark accepts. It checks before anything runs."""
        from pyspark.errors import AnalysisException

        refused: dict[str, AnalysisException] = {}
        for mode in _MODES:
            window = row_reader.RowWindow(options.rows, is_whole=mode == "complete")
            writer = frame.writeStream.queryName(self._name).outputMode(mode)
            writer = writer.option("checkpointLocation", str(self._folder / mode))
            writer = writer.trigger(processingTime=f"{round(options.every_s * 1000)} milliseconds")
            try:
                return writer.foreachBatch(window.take).start(), window
            except AnalysisException as exc:
                refused[mode] = exc
        raise refused["append"]

    def _stop_started(self, frame: DataFrame) -> None:
        """After an interrupt Spark may have started the query although `start` did not return."""
        for query in frame.sparkSession.streams.active:
            if query.name == self._name:
                _stop_query(query)


class UserQuery:
    """A query that the user has started. If it writes to a memory sink, its table is shown."""

    is_own = False

    def __init__(
        self, query: StreamingQuery, spark: SparkSession | None, options: DisplayOptions
    ) -> None:
        self.query = query
        self._spark, self._options = spark, options
        self._batch: int | None = None
        self._rows: Rows | None = None

    newest = True

    @property
    def has_rows(self) -> bool:
        return bool(self._spark and self.query.name) and self._is_memory()

    def rows(self) -> Rows | None:
        """Read again after each committed batch."""
        last: Any = self.query.lastProgress
        if self._spark is None or last is None or not self.has_rows:
            return self._rows
        batch = from_spark(last).batch
        if batch != self._batch:
            frame = self._spark.table(f"`{self.query.name}`")
            self._rows = row_reader.read_batch(frame, self._options.rows, last=True)
            self._batch = batch
        return self._rows

    def end(self) -> None:
        """The query belongs to the user."""

    def _is_memory(self) -> bool:
        query: Any = self.query
        return "MemorySink" in str(query._jsq.streamingQuery().sink().getClass().getName())


def _stop_query(query: Any) -> None:
    """Waits for at most END_S: Spark finishes the running batch first."""
    from py4j.protocol import Py4JError

    def stop() -> None:
        with contextlib.suppress(Py4JError, OSError):  # the session is gone
            query.stop()

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(END_S)
