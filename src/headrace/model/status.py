"""The status of pipelines and their queries, as `status --json` prints it and the page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from headrace.model.findings import Finding
from headrace.model.runs import Jsonable


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"  # it runs, but its results are wrong, missing or late
    CATCHING_UP = "catching-up"
    STALLED = "stalled"
    WAITING = "waiting"  # backing off before the next start
    NEEDS_ATTENTION = "needs-attention"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"


WORKING = (State.RUNNING, State.DEGRADED, State.CATCHING_UP)  # it is up and commits batches
OVER = (State.STOPPED, State.FINISHED, State.NEEDS_ATTENTION)  # it does not run until asked to


@dataclass(frozen=True, slots=True)
class QueryStatus(Jsonable):
    name: str
    state: str
    guarantee: str | None = None
    note: str | None = None  # e.g. why it has no checkpoint
    rows_in: int = 0
    rows_out: int | None = None
    batches: int = 0
    batch: int | None = None  # the last committed one
    input_rate: float | None = None
    processing_rate: float | None = None
    lag_rows: int | None = None
    lag_seconds: float | None = None
    is_lag_unknown: bool = False  # its source has a lag, but does not answer
    fresh_p50_ms: float | None = None
    fresh_p99_ms: float | None = None
    fresh_basis: str | None = None  # arrival | event | trigger
    fresh_within_s: float | None = None  # the freshness target
    broken_promise: str | None = None  # as text
    newest_at: float | None = None  # when the newest processed record arrived
    late_rows: int = 0  # dropped, since they came after the watermark
    message: str | None = None
    data_available: bool | None = None
    trigger_active: bool | None = None
    last_progress_at: float | None = None
    findings: tuple[Finding, ...] = ()

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        found = [Finding.from_json(one) for one in body.get("findings", ())]
        return super(QueryStatus, cls).from_json({**body, "findings": found})


@dataclass(frozen=True, slots=True)
class PipelineStatus(Jsonable):
    name: str
    state: str
    why: str
    run: str | None = None
    version: str | None = None
    edited: bool = False  # set by readers: the working tree differs from it
    dev: bool = False
    profile: str | None = None
    pid: int | None = None
    jvm_pid: int | None = None
    since: float | None = None
    restarts: int = 0
    next_start_at: float | None = None
    cpu_s_per_million_rows: float | None = None  # of this run, over the rows of all its queries
    heap_used_bytes: int | None = None  # after the JVM's last garbage collection
    heap_max_bytes: int | None = None
    rss_bytes: int | None = None  # of all processes of the run
    queries: tuple[QueryStatus, ...] = ()
    findings: tuple[Finding, ...] = ()  # about the definition, set by readers

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        queries = [QueryStatus.from_json(query) for query in body.get("queries", ())]
        return super(PipelineStatus, cls).from_json({**body, "queries": queries})

    def all_findings(self) -> tuple[Finding, ...]:
        """Those of its queries first."""
        return (*(one for query in self.queries for one in query.findings), *self.findings)
