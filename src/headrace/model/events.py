"""Events of a run: one JSON object per line of its events file.

Written by `driver/events.py`, read through `state/event_file.py`. Users' programs may read the file
too: docs/reference/events.md documents the kinds and their fields, and no field is ever removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from headrace.model.progress import Progress, from_spark


class EventKind(StrEnum):
    """Past tense: an event has happened."""

    RUN_STARTED = "run_started"  # pid, jvm_pid, spark_version, master, version, profile
    DEFINED = "defined"  # queries: [names in order]
    QUERY_STARTED = "query_started"  # id, run_id, checkpoint, epoch, guarantee, note, place, …
    PROGRESSED = "progressed"  # progress: Spark's own object; fresh: how old its rows were
    IDLED = "idled"  # the trigger fired, there was nothing to do
    OUTAGE_BEGAN = "outage_began"  # error, addresses, source, since
    OUTAGE_ENDED = "outage_ended"  # for_s, is_answered
    INPUTS_CHANGED = "inputs_changed"  # files that vanished or were rewritten before being read
    QUERY_TERMINATED = "query_terminated"  # error_class, error (first lines), or neither
    SCRIPT_ENDED = "script_ended"  # queries: names of those that run on
    SAMPLED = "sampled"  # queries: {name: status}; now and then memory, heap_…, cpu_s
    DRAIN_STARTED = "drain_started"  # deadline_s, reason
    QUERY_STOPPED = "query_stopped"  # batch, how: "clean" | "cut" | "failed" | "ended"
    THINNED = "thinned"  # skipped: progress lines left out since the file is full
    EXITED = "exited"  # the content of exit.json


@dataclass(frozen=True)
class Event:
    """`query` is the query's name within its pipeline, if the event is about one."""

    at: float  # seconds since the epoch, UTC
    kind: EventKind
    query: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def progress(self) -> Progress | None:
        """The progress of a `progressed` event. Parsed once for all its readers."""
        raw = self.data.get("progress") if self.kind is EventKind.PROGRESSED else None
        return from_spark(raw) if isinstance(raw, Mapping) else None

    def to_line(self) -> str:
        body = {"at": round(self.at, 3), "event": self.kind.value}
        if self.query is not None:
            body["query"] = self.query
        return json.dumps({**body, **self.data}, separators=(",", ":"), default=str)

    @classmethod
    def from_line(cls, line: str) -> Event:
        """Raises ValueError on a torn line (the writer was killed in the middle of it)."""
        body = json.loads(line)
        if not isinstance(body, dict) or "event" not in body or "at" not in body:
            raise ValueError(f"not an event: {line[:80]!r}")
        at, kind, query = body.pop("at"), EventKind(body.pop("event")), body.pop("query", None)
        return cls(at=float(at), kind=kind, query=query, data=body)
