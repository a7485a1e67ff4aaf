"""Follows a query for a display, in a thread: its status, rates and failure."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.driver import exit_report
from headrace.failures.classifier import FailureText, classify
from headrace.model.progress import Progress, from_spark
from headrace.notebook import kernel
from headrace.notebook.rate_chart import BATCHES_MAX
from headrace.notebook.renderer import Condition

logger = logging.getLogger(__name__)
POLL_S = 0.25
GONE = "The query stopped because the Spark session ended"


class RateHistory:
    """The newest progress reports of a query."""

    def __init__(self) -> None:
        self.batches: deque[Progress] = deque(maxlen=BATCHES_MAX)

    def update(self, query: Any) -> None:
        known = {(batch.batch, batch.began_at) for batch in self.batches}
        reports = query.recentProgress if not known else [query.lastProgress]
        for batch in (from_spark(report) for report in reports if report is not None):
            if (batch.batch, batch.began_at) not in known:
                self.batches.append(batch)


def condition(query: Any) -> Condition:
    """Spark's status message, or the classified failure."""
    if not query.isActive:
        failure = query._jsq.exception()
        return Condition("stopped", "Ended") if failure.isEmpty() else _failed(failure.get())
    status = query.status
    is_busy = bool(status["isTriggerActive"] and status["isDataAvailable"])
    return Condition("running" if is_busy else "waiting", str(status["message"]))


def _failed(java_exception: Any) -> Condition:
    causes, trace = exit_report.java_causes(java_exception)
    text = exit_report.redact_failure(FailureText(causes=causes, trace=trace))
    return Condition("failed", "Failed", classify(text), text.trace)


class QueryWatch(threading.Thread):
    """Calls `follow()` until it returns True, `on_interrupt()` if the idle kernel is interrupted,
    and `on_lost()` if the session is gone."""

    def __init__(
        self,
        name: str,
        follow: Callable[[], bool],
        on_interrupt: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(name=f"headrace-{name}", daemon=True)
        self._follow, self._on_interrupt, self._on_lost = follow, on_interrupt, on_lost
        self._interrupts = kernel.interrupts()
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.wait(POLL_S):
                if kernel.interrupts() != self._interrupts:
                    self._on_interrupt()
                    return
                if self._follow():
                    return
        except Exception:  # a boundary: py4j raises many things once the JVM is gone
            logger.debug("the Spark session of a display is gone", exc_info=True)
            self._on_lost()

    def end(self) -> None:
        self._over.set()
