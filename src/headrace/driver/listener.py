"""Spark's own events, one line each in the events file.

Callbacks arrive on Spark's listener bus through py4j: they take the text that Spark already has and
write it, with how fresh the batch's answers are and counts of it beside it.
Invariant: no callback raises. Queries wait for none of them; only asking a broker takes time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import references
from headrace.driver.events import EventsFile
from headrace.failures.redact import redact
from headrace.model.events import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR_LENGTH_MAX = 4000

OnTerminated = Callable[[str, str | None, str | None], None]
OnProgress = Callable[[str, Mapping[str, Any]], dict[str, Any]]
OnIdle = Callable[[str], None]


def add(
    spark: SparkSession,
    events: EventsFile,
    on_terminated: OnTerminated,
    on_progress: OnProgress,
    on_idle: OnIdle,
) -> None:
    """All run on the bus. `on_terminated(run_id, error, error_class)` must only take a note;
    `on_progress(query, progress)` says how fresh the batch is and what was counted of it, and must
    not raise; what it waits for, later events wait for as well.

    Not PySpark's `addListener`: that copies every field of a progress into Python objects, dozens
    of calls into the JVM for one event. Spark's own interface gives the JSON text in two.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    streaming = gateway.jvm.org.apache.spark.sql.streaming
    told = streaming.PythonStreamingQueryListenerWrapper(
        _Listener(events, on_terminated, on_progress, on_idle)
    )
    spark.streams._jsqm.addListener(told)


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
        progress = json.loads(event.progress().json())
        name = progress.get("name") or progress["id"]
        data = {"progress": progress, **self._on_progress(name, progress)}
        self._events.tell(Kind.PROGRESSED, name, data)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        run_id = event.runId().toString()
        self._on_idle(run_id)
        self._events.tell(Kind.IDLED, self._names.get(run_id, event.id().toString()))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run_id = event.runId().toString()
        name = self._names.pop(run_id, event.id().toString())
        error, error_class = _given(event.exception()), _given(event.errorClassOnException())
        error = redact(error, references.resolved()) if error else None
        data = {"error": error[:ERROR_LENGTH_MAX]} if error else {}
        if error and error_class:
            data["error_class"] = error_class
        self._events.tell(Kind.QUERY_TERMINATED, name, data)
        self._on_terminated(run_id, error, error_class)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _given(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
