"""Spark's own events, one line each in the events file.

Callbacks run on Spark's listener bus through py4j. They write Spark's own JSON, with the freshness
and the counts of the batch. Invariant: no callback raises, and queries do not wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import secrets
from headrace.driver.events import EventsFile
from headrace.failures.redaction import redact
from headrace.model import progress
from headrace.model.events import EventKind
from headrace.model.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR_LENGTH_MAX = 4000

OnTerminated = Callable[[str, str | None, str | None], None]
OnProgress = Callable[[str, Progress], dict[str, Any]]
OnIdle = Callable[[str], None]


def add(
    spark: SparkSession,
    events: EventsFile,
    on_terminated: OnTerminated,
    on_progress: OnProgress,
    on_idle: OnIdle,
) -> None:
    """All run on the bus and must not raise. `on_terminated(run_id, error, error_class)` must
    return at once; `on_progress(query, progress)` returns the other fields of the event, and later
    events wait for it.

    PySpark's `addListener` would copy every field of a progress into Python objects, with dozens of
    calls into the JVM for one event. Spark's own interface gives the JSON text in two.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    streaming = gateway.jvm.org.apache.spark.sql.streaming
    wrapper = streaming.PythonStreamingQueryListenerWrapper(
        _Listener(events, on_terminated, on_progress, on_idle)
    )
    spark.streams._jsqm.addListener(wrapper)


class _Listener:
    def __init__(
        self,
        events: EventsFile,
        on_terminated: OnTerminated,
        on_progress: OnProgress,
        on_idle: OnIdle,
    ) -> None:
        self._events = events
        self._on_terminated = on_terminated
        self._on_progress = on_progress
        self._on_idle = on_idle
        self._names: dict[str, str] = {}  # run id -> query name; idle events carry only the id

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        self._names[event.runId().toString()] = event.name() or event.id().toString()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        raw = json.loads(event.progress().json())
        name = progress.query_name(raw)
        data = {"progress": raw, **self._on_progress(name, progress.from_spark(raw))}
        self._events.tell(EventKind.PROGRESSED, name, data)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        run_id = event.runId().toString()
        self._on_idle(run_id)
        self._events.tell(EventKind.IDLED, self._names.get(run_id, event.id().toString()))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run_id = event.runId().toString()
        name = self._names.pop(run_id, event.id().toString())
        error, error_class = (
            _unwrap_option(event.exception()),
            _unwrap_option(event.errorClassOnException()),
        )
        error = redact(error, secrets.resolved_values()) if error else None
        data = {"error": error[:ERROR_LENGTH_MAX]} if error else {}
        if error and error_class:
            data["error_class"] = error_class
        self._events.tell(EventKind.QUERY_TERMINATED, name, data)
        self._on_terminated(run_id, error, error_class)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _unwrap_option(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
