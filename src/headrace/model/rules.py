"""Rules: conditions under which Headrace opens an alert, and the facts that they judge.

`alerts/rules/` has the conditions, `alerts/engine.py` decides what to open and resolve, and
`supervisor/rule_watch.py` gathers the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.model.lag import QueryLag
from headrace.model.runs import Jsonable
from headrace.model.status import QueryStatus


@dataclass(frozen=True, slots=True)
class FailedRun:
    """The newest run, if it failed. `cause` is the end of a sentence; `at` is wall time."""

    run: str
    cause: str
    at: float
    fix: str | None = None
    is_urgent: bool = False  # worth an alert at the first failure


@dataclass(frozen=True, slots=True)
class Stuck:
    """A query at work that does not advance. At the age of `kill_s` the run is killed."""

    query: str
    what: str  # one sentence without a full stop
    for_s: float
    kill_s: float


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the supervisor knows about the runs of one pipeline."""

    attention: str | None = None  # why a person is needed
    is_limit_used_up: bool = False  # of restart.retries: that is why
    is_retrying: bool = False  # nothing runs, and it is about to start again
    is_well: bool = False  # it has worked for long enough to call it recovered
    has_worked: bool = False  # every query of the live run has committed or was idle
    failed: FailedRun | None = None
    failures: int = 0  # in a row
    failures_per_hour: int = 0
    relapses_per_hour: int = 0  # of these, runs that had worked before they failed
    stuck: tuple[Stuck, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """One query. None: unknown."""

    status: QueryStatus
    trigger_s: float | None = None  # the interval of its trigger
    batch_ms: tuple[float, ...] = ()  # of its newest batches, oldest first
    rows_at: float | None = None  # its last batch with rows
    begun_at: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)  # from its newest batches

    @property
    def name(self) -> str:
        return self.status.name


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """One pipeline at `at`, by the wall clock.

    `is_over`: a person stopped it, or it has finished. `is_live`: its queries run, so that what
    they report is current. `outputs` are by query what its sink and later queries write.
    """

    name: str
    at: float
    state: str
    is_live: bool
    is_over: bool = False
    run: RunFacts = field(default_factory=RunFacts)
    queries: tuple[QueryFacts, ...] = ()
    lags: Mapping[str, QueryLag] = field(default_factory=dict)  # by query, measured by the relay
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)  # of the driver
    windows: Windows | None = None

    def query(self, name: str) -> QueryFacts | None:
        return next((one for one in self.queries if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Disk:
    path: str
    free: int
    size: int
    full_in_s: float | None = None  # at the rate of the last hour


@dataclass(frozen=True, slots=True)
class SqlResult(Jsonable):
    """The last evaluation of a rule's SQL: how many rows it returned, and the first of them."""

    rule: str
    at: float
    rows: int = 0
    is_cut: bool = False  # there are more rows than were counted
    first: str = ""
    since: float | None = None  # from when on it has returned rows
    every_s: float = 30.0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What all pipelines share. `own_bytes`: the files in the state folder."""

    at: float
    disks: tuple[Disk, ...] = ()
    own_bytes: int | None = None
    own_parts: Mapping[str, int] = field(default_factory=dict)  # by file or folder
    sql: Mapping[str, SqlResult] = field(default_factory=dict)
    windows: Windows | None = None


Facts = PipelineFacts | ProjectFacts


@dataclass(frozen=True, slots=True)
class Windows:
    """`read(metric, query, function, seconds)`: over the last seconds; None: too short a time."""

    read: Callable[[str, str | None, str, float], float | None]


@dataclass(frozen=True, slots=True)
class Hit:
    """A condition that holds. `words` are for the person who gets the alert, by heading."""

    title: str
    query: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    severity: str | None = None  # None: that of the rule
    since: float | None = None
    part: str = ""  # tells apart several hits of one query


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is not known whether the condition holds: for one query, or for all."""

    query: str | None = None


class About(StrEnum):
    PIPELINE = "pipeline"
    QUERY = "query"
    PROJECT = "project"


class LimitKind(StrEnum):
    DURATION = "duration"
    BYTES = "size"
    SHARE = "share"
    COUNT = "number"


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold that `[rules.NAME]` can set."""

    kind: LimitKind
    default: float | None
    help: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`evaluate` is pure. `needs_run`: nothing is known while its queries do not run."""

    name: str
    help: str
    about: About
    severity: str
    evaluate: Callable[[Any, Mapping[str, float]], Iterable[Hit | Unknown]]  # of its facts
    for_s: float = 0.0
    keep_firing_for_s: float = 0.0
    enabled: bool = True
    needs_run: bool = True
    limits: Mapping[str, Limit] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)  # of the limits, as set
    is_severity_set: bool = False  # by the user: it wins over that of a hit
    pipelines: tuple[str, ...] = ()  # globs; empty: all
    queries: tuple[str, ...] = ()
    windows: tuple[tuple[str, float], ...] = ()  # metrics that it averages, over seconds
    when: str = ""  # of a user's rule: its condition, or its SQL

    def settings(self) -> dict[str, float]:
        """The limits that have a value."""
        known = {n: one.default for n, one in self.limits.items() if one.default is not None}
        return {**known, **self.values}
