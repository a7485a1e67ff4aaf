"""Follows a query: what it is doing, how fast, and of a failure what it means. A thread a display.

Spark's own words and numbers become our nouns here and nowhere else in this room.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace import references
from headrace.failures.classify import FailureText, classify
from headrace.failures.redact import redact
from headrace.notebook import kernel
from headrace.notebook.picture import Condition
from headrace.notebook.rates import BEATS_MAX, Beat, beat

logger = logging.getLogger(__name__)
POLL_S = 0.25
CAUSES_MAX = 20
GONE = "The Spark session is gone, and the query with it"


class Pulse:
    """The newest reports of a query's progress, each once."""

    def __init__(self) -> None:
        self.beats: deque[Beat] = deque(maxlen=BEATS_MAX)

    def take(self, query: Any) -> None:
        reports = query.recentProgress if not self.beats else [query.lastProgress]
        for one in reports:
            if one is not None and (made := beat(one)) not in self.beats:
                self.beats.append(made)


def condition(query: Any) -> Condition:
    """What the query is doing now, in its own words; a failure in ours."""
    if not query.isActive:
        found = query._jsq.exception()
        return Condition("stopped", "Ended") if found.isEmpty() else failed(found.get())
    status = query.status
    is_busy = bool(status["isTriggerActive"] and status["isDataAvailable"])
    return Condition("running" if is_busy else "waiting", str(status["message"]))


def failed(exc: Any) -> Condition:
    """`exc` is Java's. Secrets are taken out before anything is judged or shown."""
    causes: list[tuple[str, str]] = []
    cause = exc
    while cause is not None and len(causes) < CAUSES_MAX:
        causes.append((cause.getClass().getName(), _clean(cause.getMessage() or "")))
        cause = cause.getCause()
    trace = _clean(exc.toString())
    verdict = classify(FailureText(causes=tuple(causes), trace=trace))
    return Condition("failed", "Failed", verdict, trace)


def _clean(text: str) -> str:
    return redact(text, references.resolved())


class Watch(threading.Thread):
    """Calls `look()` again and again until that says it is over, and `interrupted()` once if the
    kernel is interrupted between two cells."""

    def __init__(
        self, name: str, look: Callable[[], bool], interrupted: Callable[[], None], lost: Any
    ) -> None:
        super().__init__(name=f"headrace-{name}", daemon=True)
        self._look, self._interrupted, self._lost = look, interrupted, lost
        self._interrupts = kernel.interrupts()
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.wait(POLL_S):
                if kernel.interrupts() != self._interrupts:
                    self._interrupted()
                    return
                if self._look():
                    return
        except Exception:  # a border: py4j raises many things once the JVM is gone
            logger.debug("a display has lost its query", exc_info=True)
            self._lost()

    def end(self) -> None:
        self._over.set()
