"""Spark's own events, one line each in the events file.

Callbacks run on Spark's listener bus through py4j. They write Spark's own JSON, with the freshness
and the counts of the batch. Invariant: no callback raises, and queries do not wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
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


def add(spark: SparkSession, listener: Listener) -> None:
    """PySpark's `addListener` would copy every field of a progress into Python objects, with dozens
    of calls into the JVM for one event. Spark's own interface gives the JSON text in two."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    streaming = gateway.jvm.org.apache.spark.sql.streaming
    spark.streams._jsqm.addListener(streaming.PythonStreamingQueryListenerWrapper(listener))


@dataclass(eq=False)
class Listener:
    """The callbacks run on the bus and must not raise. Later events wait for them."""

    events: EventsFile
    on_terminated: Callable[[str, str | None, str | None], None]  # run id, error, error class
    on_progress: Callable[[str, Progress], dict[str, Any]]  # returns more fields of the event
    on_idle: Callable[[str], None]  # run id
    tell_users: Callable[[str, Any], None] = lambda method, event: None  # their own listeners
    _names: dict[str, str] = field(default_factory=dict)  # by run id; idle events have no name

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        self.tell_users("onQueryStarted", event)
        self._names[event.runId().toString()] = event.name() or event.id().toString()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.tell_users("onQueryProgress", event)
        raw = json.loads(event.progress().json())
        name = progress.query_name(raw)
        data = {"progress": raw, **self.on_progress(name, progress.from_spark(raw))}
        self.events.tell(EventKind.PROGRESSED, name, data)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.tell_users("onQueryIdle", event)
        run_id = event.runId().toString()
        self.on_idle(run_id)
        self.events.tell(EventKind.IDLED, self._names.get(run_id, event.id().toString()))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.tell_users("onQueryTerminated", event)
        run_id = event.runId().toString()
        name = self._names.pop(run_id, event.id().toString())
        error = _unwrap_option(event.exception())
        error_class = _unwrap_option(event.errorClassOnException())
        error = redact(error, secrets.resolved_values()) if error else None
        data = {"error": error[:ERROR_LENGTH_MAX]} if error else {}
        if error and error_class:
            data["error_class"] = error_class
        self.events.tell(EventKind.QUERY_TERMINATED, name, data)
        self.on_terminated(run_id, error, error_class)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _unwrap_option(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
