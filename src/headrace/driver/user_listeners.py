"""The user's own streaming query listeners (`@hr.listener`), each in a thread of its own.

Spark calls the listeners of a session one after the other, Headrace's own too, and a start of a
query waits for them. So events are put into a queue for each listener.
Invariant: a listener that raises or is slow delays no query, no event of Headrace and no other
listener. What it misses is counted.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.define import listeners
from headrace.define.declarations import Collector, Declaration
from headrace.errors import DefinitionError, Error, together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

QUEUE_MAX = 1000
CLOSE_S = 5.0  # at the end of a run, for the events that still wait

Event = tuple[str, Any]  # the method's name, Spark's event


@dataclass(eq=False)
class UserListener:
    name: str
    place: str
    listener: Any
    find_place: Callable[[Any], object]  # the user's line in a traceback
    errors: int = 0
    missed: int = 0
    _queue: queue.Queue[Event | None] = field(default_factory=lambda: queue.Queue(QUEUE_MAX))
    _is_closed: bool = False
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"listener {self.name}", daemon=True)
        self._thread.start()

    def offer(self, method: str, event: Any) -> None:
        try:
            self._queue.put_nowait((method, event))
        except queue.Full:
            self.missed += 1
            if self.missed == 1:
                text = "the listener %s (%s) is too slow: %d events wait, and it misses new ones"
                logger.warning(text, self.name, self.place, QUEUE_MAX)

    def close(self, within_s: float) -> None:
        """Deliver what waits, if it is quick, and log what was lost."""
        self._is_closed = True
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(within_s)
        if self._thread.is_alive():
            self.missed += self._queue.qsize()
        if self.errors > 1 or self.missed:
            text = "the listener %s (%s) raised %d errors and missed %d events"
            logger.warning(text, self.name, self.place, self.errors, self.missed)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            self._call(*event)
            if self._is_closed and self._queue.empty():
                return

    def _call(self, method: str, java_event: Any) -> None:
        from py4j.protocol import Py4JError

        event = None
        try:
            event = _in_python(method, java_event)
            getattr(self.listener, method)(event)
        except (Exception, SystemExit) as exc:  # a boundary: the user's code may raise anything
            if event is None and isinstance(exc, Py4JError | OSError):
                self.missed += 1  # the JVM has ended
                return
            self.errors += 1
            if self.errors == 1:
                where = self.find_place(exc.__traceback__) or self.place
                text = "the listener %s raised %s (%s, in %s); more errors are only counted"
                what = traceback.format_exception_only(exc)[-1].partition("\n")[0]
                logger.error(text, self.name, what, where, method, exc_info=exc)


@dataclass
class UserListeners:
    """Those of a run. None in a script, which adds its own to the session."""

    _all: list[UserListener] = field(default_factory=list)

    def create(
        self, found: Sequence[Declaration], collector: Collector, spark: SparkSession
    ) -> None:
        """Before the first query starts, so that they hear of every start. Raises Error."""
        problems: list[Error] = []
        for one in found:
            try:
                made = _create(one, collector, spark)
            except Error as exc:
                problems.append(exc)
            else:
                heard = UserListener(one.name, str(one.place), made, collector.innermost)
                self._all.append(heard)
        if problems:
            self.close()
            raise together(problems)

    def tell(self, method: str, event: Any) -> None:
        for one in self._all:
            one.offer(method, event)

    def close(self) -> None:
        deadline = time.monotonic() + CLOSE_S
        for one in self._all:
            one.close(max(0.0, deadline - time.monotonic()))
        self._all.clear()


def _create(one: Declaration, collector: Collector, spark: SparkSession) -> Any:
    given = {listeners.SESSION: spark} if listeners.takes_session(one.function) else {}
    try:
        made = one.function(**given)
    except Error:
        raise
    except Exception as exc:  # a boundary: the user's code may raise anything
        raise DefinitionError(
            f"The listener {one.name!r} could not be created: {type(exc).__name__}: {exc}",
            where=str(collector.innermost(exc.__traceback__) or one.place),
            fix="Correct that line. Headrace creates listeners before the queries start, and in "
            "`headrace check`.",
            slug="listener-failed",
        ) from exc
    if not listeners.is_listener_class(type(made)):
        what = f"The listener {one.name!r} returned {made!r}, which is not a {listeners.BASE}."
        raise listeners.not_a_listener(what, str(one.place))
    return made


def _in_python(method: str, event: Any) -> Any:
    """The event as PySpark's own `addListener` passes it."""
    from pyspark.sql.streaming import listener as events

    kinds: dict[str, Any] = {
        "onQueryStarted": events.QueryStartedEvent,
        "onQueryProgress": events.QueryProgressEvent,
        "onQueryIdle": events.QueryIdleEvent,
        "onQueryTerminated": events.QueryTerminatedEvent,
    }
    return kinds[method].fromJObject(event)
