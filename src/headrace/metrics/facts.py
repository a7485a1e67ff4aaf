"""The facts that metrics are read from, as they are at one moment. Pure.

Collected by `relay/metric_facts.py`. A fact that is unknown is None: its metric is then absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.lag import QueryLag
from headrace.model.progress_exports import Export
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.store.totals import DurationCount, QueryTotals


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """The newest heartbeat of a live driver with its costs."""

    heap_used: int | None = None
    heap_max: int | None = None
    memory: int | None = None  # resident, of the driver and all its children
    cpu_s: float | None = None
    disk_free: int | None = None


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """`status` is known while its pipeline runs, `lag` if it reads a broker."""

    name: str
    status: QueryStatus | None = None
    totals: QueryTotals | None = None
    durations: Sequence[DurationCount] = ()
    lag: QueryLag | None = None  # a measurement that is not too old


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    status: PipelineStatus
    queries: Sequence[QueryFacts] = ()
    restarts: int | None = None
    failures: Mapping[str, int] | None = None  # by kind
    driver: DriverFacts = field(default_factory=DriverFacts)


@dataclass(frozen=True, slots=True)
class Facts:
    at: float
    version: str
    project: str
    profile: str
    is_supervised: bool
    pipelines: Sequence[PipelineFacts] = ()
    alerts: Mapping[tuple[str, str], int] | None = None  # open ones by pipeline and severity
    exports: Sequence[Export] = ()
