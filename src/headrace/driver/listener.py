"""Spark's own events, one line each in the events file.

Callbacks arrive on Spark's listener bus through py4j: they take the text that Spark already has and
write it; they never ask Spark for more. Invariant: no callback raises, and none of them waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace import references
from headrace.driver.events import EventsFile
from headrace.failures.redact import redact
from headrace.model.events import Kind

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQueryListener

ERROR_LENGTH_MAX = 4000


def make(
    events: EventsFile, on_terminated: Callable[[str, str | None, str | None], None]
) -> StreamingQueryListener:
    """`on_terminated(run_id, error, error_class)` runs on the bus: it must only take a note."""
    from pyspark.sql.streaming import StreamingQueryListener

    names: dict[str, str] = {}  # run id -> query name; idle events carry only the id

    class _Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
            names[str(event.runId)] = event.name or str(event.id)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            progress = json.loads(event.progress.json)
            name = progress.get("name") or progress["id"]
            events.tell(Kind.PROGRESSED, name, {"progress": progress})

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            events.tell(Kind.IDLED, names.get(str(event.runId), str(event.id)))

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            run_id, error = str(event.runId), event.exception
            name = names.pop(run_id, str(event.id))
            error = redact(error, references.resolved()) if error else None
            data = {"error": error[:ERROR_LENGTH_MAX]} if error else {}
            if error and event.errorClassOnException:
                data["error_class"] = event.errorClassOnException
            events.tell(Kind.QUERY_TERMINATED, name, data)
            on_terminated(run_id, error, event.errorClassOnException)

    return _Listener()
