"""`hr.display`: a stream, a query, SQL text or a batch DataFrame as a table or chart that follows
what happens, in place. What it returns is a `Display`: `.stop()`, `.wait()`, `.query`, `.figure()`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError, Error
from headrace.notebook import batch, chart, kernel, picture, screen, taking
from headrace.notebook.cells import Rows
from headrace.notebook.look import Look, look, require_columns
from headrace.notebook.picture import Condition
from headrace.notebook.subjects import END_S, Foreign, Own
from headrace.notebook.watching import GONE, Pulse, Watch, condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

WAIT_S = 60.0


def display(
    what: object,
    *,
    title: str | None = None,
    chart: str | None = None,
    x: str | None = None,
    y: str | list[str] | tuple[str, ...] | None = None,
    rows: int = 100,
    every: str | float = "1 second",
    spark: SparkSession | None = None,
) -> Display:
    """Show a streaming or batch DataFrame, a running query, or the answer to SQL text.

    `chart` is table, line, bar, area or number, over the column `x`, of the columns `y`. Of a
    stream the newest `rows` are kept; `every` says how often it looks for more.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    wanted = look(title, chart, x, y, rows, every)
    frame = batch.sql(what, spark=spark) if isinstance(what, str) else what
    if isinstance(frame, StreamingQuery):
        return Display(wanted, Foreign(frame, spark or batch.active(), wanted))
    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"hr.display cannot show a {type(what).__name__}.",
            why="It shows a DataFrame of Spark, a streaming query, or SQL text.",
            fix="Of pandas: hr.display(spark.createDataFrame(…)).",
            slug="not-a-dataframe",
        )
    require_columns(wanted, frame.columns)
    if frame.isStreaming:
        return Display(wanted, Own(frame, wanted))
    return Display(wanted, None, taking.of_frame(frame, wanted.rows))


class Display:
    """Something that is shown until it is stopped. A batch DataFrame is shown once."""

    def __init__(
        self, wanted: Look, subject: Own | Foreign | None, rows: Rows | None = None
    ) -> None:
        self._look, self._subject, self._rows = wanted, subject, rows
        self._pulse = Pulse()
        self._lock = threading.RLock()  # one draws at a time, so that nothing old comes last
        self._final: Condition | None = None
        self._drawn = threading.Event()  # the last state, by whichever thread met it
        is_cell = kernel.shell() is not None
        self._screen: screen.Screen = screen.Cell() if is_cell else screen.Terminal()
        if subject is None:
            self._show_once()
            return
        has_body = isinstance(subject, Own) or subject.has_rows
        parts = ("head", "body", "foot") if has_body else ("head", "foot")
        self._screen.open(parts, self.stop)
        self._token = kernel.born(self._end)
        self._watch = Watch(f"display-{self._token}", self._follow, self._interrupted, self._lost)
        self._draw(Condition("waiting", "Starting"))
        self._watch.start()

    @property
    def query(self) -> StreamingQuery | None:
        """The query that is followed; None of a batch DataFrame."""
        return self._subject.query if self._subject is not None else None

    @property
    def is_running(self) -> bool:
        return self._final is None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is shown now, for a program."""
        found = self._rows
        return [dict(zip(found.names, row, strict=True)) for row in found.values] if found else []

    def wait(self, timeout_s: float = WAIT_S) -> Display:
        """Until all that has arrived so far is shown. Raises if the query has failed."""
        query = self.query
        if query is None or self._final is not None:
            return self._checked()
        thread = threading.Thread(target=_all_available, args=(query,), daemon=True)
        thread.start()
        thread.join(timeout_s)
        if thread.is_alive():
            raise Error(
                f"The display has not caught up within {timeout_s:g} s.",
                why="Rows arrive faster than they are processed, or without a pause.",
                fix="Go on without waiting: it is updated by itself.",
                slug="display-behind",
            )
        self._follow()
        return self._checked()

    def stop(self) -> None:
        """End it: the query that it has started, the thread, the temporary folder."""
        self._end("Stopped")

    def figure(self) -> Any:
        """The rows that are shown now as a plotly figure, to zoom and point into."""
        drawn = chart.series(self._rows or Rows((), ()), self._look)
        if isinstance(drawn, str):
            raise DefinitionError(
                drawn,
                fix="Give y= a column of numbers, or wait() for rows.",
                slug="nothing-to-draw",
            )
        kind = "line" if self._look.chart in ("table", "number") else self._look.chart
        return chart.figure(drawn, kind, self._look.title)

    def _follow(self) -> bool:
        """Look once, and draw; True when there is nothing more to follow."""
        if self._subject is None:
            return True
        found = condition(self._subject.query)
        with self._lock:
            if self._final is not None:
                return True
            self._pulse.take(self._subject.query)
            self._rows = self._subject.rows()
            if found.state in ("running", "waiting"):
                self._draw(found)
                return False
        self._finish(found)
        return True

    def _interrupted(self) -> None:
        self._end("Stopped by an interrupt")

    def _lost(self) -> None:
        self._finish(Condition("stopped", GONE))

    def _end(self, why: str) -> None:
        subject = self._subject
        if subject is None or self._final is not None:
            return
        self._watch.end()
        if not subject.is_own and why.startswith("Stopped"):
            why = f"{why}; the query itself runs on"
        self._finish(Condition("stopped", why))

    def _finish(self, last: Condition) -> None:
        """The last state stays as it is, also in the saved notebook."""
        with self._lock:
            if self._final is not None or self._subject is None:
                return
            self._final = last
        try:
            kernel.gone(self._token)
            self._subject.end()
            with self._lock:
                if isinstance(self._subject, Own):
                    self._rows = self._subject.rows()
                self._draw(last)
        finally:
            self._drawn.set()

    def _draw(self, now: Condition) -> None:
        with self._lock:
            is_over, newest = self._final is not None, self._subject is None or self._subject.newest
            hint = "" if is_over or self._screen.has_button else screen.STOP_HINT
            head = picture.head(now, self._look.title, hint)
            self._screen.show("body", picture.body(self._rows, self._look, newest=newest))
            self._screen.show("foot", picture.foot(tuple(self._pulse.beats)))
            if is_over:
                self._screen.close(head)
            else:
                self._screen.show("head", head)

    def _show_once(self) -> None:
        self._final = Condition("stopped", "")
        head = picture.head(self._final, self._look.title)
        self._screen.open(("head", "body") if self._look.title else ("body",), None)
        self._screen.close(head)
        self._screen.show("body", picture.body(self._rows, self._look, newest=False))

    def _checked(self) -> Display:
        if self._final is not None and self._subject is not None:
            self._drawn.wait(WAIT_S)
        verdict = self._final.failure if self._final is not None else None
        if verdict is not None:
            raise Error(verdict.what, why=verdict.why, where=verdict.where, fix=verdict.fix,
                        slug="display-failed")  # fmt: skip
        return self

    def _ipython_display_(self) -> None:
        """As the last line of a cell it is shown already."""

    def __repr__(self) -> str:
        return f"<display of {self._look.title or 'rows'}: {'on' if self.is_running else 'over'}>"


def _all_available(query: Any) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    lost = (PySparkException, Py4JError, OSError)  # `_follow` tells what has happened
    try:
        query.processAllAvailable()
    except lost:
        with contextlib.suppress(*lost):  # Spark tells a failure before the query has ended
            query.awaitTermination(END_S)
