"""`hr.display`: shows a stream, a query, SQL text or a batch DataFrame as a live table or chart."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError, Error
from headrace.notebook import batch_io, chart, kernel, output, renderer
from headrace.notebook import rows as notebook_rows
from headrace.notebook.cell_text import Rows
from headrace.notebook.display_options import DisplayOptions, parse_options
from headrace.notebook.followed_query import END_S, StartedQuery, UserQuery
from headrace.notebook.query_watch import GONE, QueryWatch, RateHistory, condition
from headrace.notebook.renderer import Condition
from headrace.transforms import column_checks

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
    """Show a streaming or batch DataFrame, a running query, or the result of SQL text.

    `chart` is table, line, bar, area or number, with the columns `x` and `y`. A stream shows its
    newest `rows`, updated at the interval `every`.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    options = parse_options(title, chart, x, y, rows, every)
    frame = batch_io.sql(what, spark=spark) if isinstance(what, str) else what
    if isinstance(frame, StreamingQuery):
        return Display(options, UserQuery(frame, spark or batch_io.active(), options))
    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"hr.display cannot show a {type(what).__name__}.",
            why="It shows Spark DataFrames, streaming queries and SQL text.",
            fix="To show a pandas DataFrame: hr.display(spark.createDataFrame(…))",
            slug="not-a-dataframe",
        )
    column_checks.require(frame, "display", filter(None, (options.x, *options.y)))
    if frame.isStreaming:
        return Display(options, StartedQuery(frame, options))
    return Display(options, None, notebook_rows.read_frame(frame, options.rows))


class Display:
    """Updates its output until it is stopped. A batch DataFrame is shown once."""

    def __init__(
        self,
        options: DisplayOptions,
        target: StartedQuery | UserQuery | None,
        rows: Rows | None = None,
    ) -> None:
        self._options, self._target, self._rows = options, target, rows
        self._rates = RateHistory()
        self._lock = threading.RLock()  # one thread draws at a time, so that the newest comes last
        self._final: Condition | None = None
        self._drawn = threading.Event()  # set once the final state is drawn
        is_cell = kernel.shell() is not None
        self._output: output.Cell | output.Terminal
        self._output = output.Cell() if is_cell else output.Terminal()
        if target is None:
            self._show_once()
            return
        has_body = isinstance(target, StartedQuery) or target.has_rows
        parts = ("head", "body", "foot") if has_body else ("head", "foot")
        self._output.open(parts, self.stop)
        self._token = kernel.register(self._end)
        self._watch = QueryWatch(
            f"display-{self._token}",
            self._follow,
            on_interrupt=lambda: self._end("Stopped by an interrupt"),
            on_lost=lambda: self._finish(Condition("stopped", GONE)),
        )
        self._draw(Condition("waiting", "Starting"))
        self._watch.start()

    @property
    def query(self) -> StreamingQuery | None:
        """The streaming query, or None for a batch DataFrame."""
        return self._target.query if self._target is not None else None

    @property
    def is_running(self) -> bool:
        return self._final is None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows currently shown."""
        shown = self._rows
        return [dict(zip(shown.names, row, strict=True)) for row in shown.values] if shown else []

    def wait(self, timeout_s: float = WAIT_S) -> Display:
        """Wait until all rows that have arrived are shown. Raises if the query has failed."""
        query = self.query
        if query is None or self._final is not None:
            return self._check_failure()
        thread = threading.Thread(target=_all_available, args=(query,), daemon=True)
        thread.start()
        thread.join(timeout_s)
        if thread.is_alive():
            raise Error(
                f"The display did not catch up within {timeout_s:g} s.",
                why="Rows arrive without a pause, or faster than they are processed.",
                fix="Do not call wait(): the display updates on its own.",
                slug="display-behind",
            )
        self._follow()
        return self._check_failure()

    def stop(self) -> None:
        """Stop the display, and also the query if the display started it."""
        self._end("Stopped")

    def figure(self) -> Any:
        """The rows currently shown, as a plotly figure."""
        drawn = chart.series(self._rows or Rows((), ()), self._options)
        if isinstance(drawn, str):
            raise DefinitionError(
                drawn,
                fix="Set y= to a numeric column, or call wait() first, so that rows can arrive.",
                slug="nothing-to-draw",
            )
        kind = "line" if self._options.chart in ("table", "number") else self._options.chart
        return chart.figure(drawn, kind, self._options.title)

    def _follow(self) -> bool:
        """Update and draw once. Returns True when the query has ended."""
        if self._target is None:
            return True
        now = condition(self._target.query)
        with self._lock:
            if self._final is not None:
                return True
            self._rates.update(self._target.query)
            self._rows = self._target.rows()
            if now.state in ("running", "waiting"):
                self._draw(now)
                return False
        self._finish(now)
        return True

    def _end(self, why: str) -> None:
        target = self._target
        if target is None or self._final is not None:
            return
        self._watch.end()
        if not target.is_own and why.startswith("Stopped"):
            why = f"{why}; the query keeps running"
        self._finish(Condition("stopped", why))

    def _finish(self, last: Condition) -> None:
        with self._lock:
            if self._final is not None or self._target is None:
                return
            self._final = last
        try:
            kernel.unregister(self._token)
            self._target.end()
            with self._lock:
                if isinstance(self._target, StartedQuery):
                    self._rows = self._target.rows()
                self._draw(last)
        finally:
            self._drawn.set()

    def _draw(self, now: Condition) -> None:
        with self._lock:
            is_over, newest = self._final is not None, self._target is None or self._target.newest
            hint = "" if is_over or self._output.has_button else output.STOP_HINT
            head = renderer.head(now, self._options.title, hint)
            self._output.show("body", renderer.body(self._rows, self._options, newest=newest))
            self._output.show("foot", renderer.foot(tuple(self._rates.batches)))
            if is_over:
                self._output.close(head)
            else:
                self._output.show("head", head)

    def _show_once(self) -> None:
        self._final = Condition("stopped", "")
        head = renderer.head(self._final, self._options.title)
        self._output.open(("head", "body") if self._options.title else ("body",), None)
        self._output.close(head)
        self._output.show("body", renderer.body(self._rows, self._options, newest=False))

    def _check_failure(self) -> Display:
        if self._final is not None and self._target is not None:
            self._drawn.wait(WAIT_S)
        verdict = self._final.failure if self._final is not None else None
        if verdict is not None:
            about = {"why": verdict.why, "where": verdict.where, "fix": verdict.fix}
            raise Error(verdict.what, **about, slug="display-failed")
        return self

    def _ipython_display_(self) -> None:
        """It is already shown, so IPython must not show it as the value of a cell."""

    def __repr__(self) -> str:
        state = "running" if self.is_running else "ended"
        return f"<display of {self._options.title or 'rows'}: {state}>"


def _all_available(query: Any) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    lost = (PySparkException, Py4JError, OSError)  # `_follow` reports the reason
    try:
        query.processAllAvailable()
    except lost:
        with contextlib.suppress(*lost):  # Spark raises a failure before the query has ended
            query.awaitTermination(END_S)
