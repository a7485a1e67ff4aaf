"""The nouns of a decision: what the policy sees of one pipeline, and what it may answer.

Made by `loop.py`, judged by `policy.py`, carried out by `loop.py`. Plain data, no behaviour.
Times are seconds of the supervisor's steady clock: it never jumps, so neither do decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.limits import DrainLimits, HealthLimits, RestartLimits, WatchdogLimits
from headrace.model.outcomes import PastRun
from headrace.model.runs import Desired, Orders, RunSpec
from headrace.model.runview import RunView


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose driver process lives."""

    spec: RunSpec
    view: RunView
    known_since: float  # launched or adopted
    orders: Orders = field(default_factory=Orders)
    exit_seen_at: float | None = None  # exit.json is there, the process still is too
    is_unsignalled: bool = False  # a drain was ordered by a former supervisor, and nothing shows it
    has_passed_gaps: bool = False  # it leaves out what is gone, and there is nothing left to leave


@dataclass(frozen=True, slots=True)
class Limits:
    restart: RestartLimits = field(default_factory=RestartLimits)
    watchdog: WatchdogLimits = field(default_factory=WatchdogLimits)
    drain: DrainLimits = field(default_factory=DrainLimits)
    health: HealthLimits = field(default_factory=HealthLimits)


@dataclass(frozen=True, slots=True)
class Situation:
    """One pipeline. `past` is oldest first. `survivors` are runs of which processes are left."""

    desired: Desired
    live: LiveRun | None = None
    past: tuple[PastRun, ...] = ()
    limits: Limits = field(default_factory=Limits)
    survivors: tuple[str, ...] = ()
    open_alerts: frozenset[str] = frozenset()
    is_going_down: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    attempt: int
    restarts: int


@dataclass(frozen=True, slots=True)
class Drain:
    reason: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The second SIGTERM: do not wait for a batch boundary."""

    reason: str


@dataclass(frozen=True, slots=True)
class Kill:
    reason: str
    by_watchdog: bool = False


@dataclass(frozen=True, slots=True)
class Reap:
    """End what is left of these runs; nothing is launched before it is gone."""

    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing to do, and nothing will be until a person says so."""

    reason: str
    is_aside: bool = False  # not for this supervisor to keep: it only looks on


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Needs attention: starting again would not help."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    until: float
    reason: str
    next_attempt: int | None = None  # of a launch that is waited for


@dataclass(frozen=True, slots=True)
class DumpThreads:
    reason: str


@dataclass(frozen=True, slots=True)
class OpenAlert:
    key: str
    rule: str
    title: str
    severity: str = "warning"
    query: str | None = None


@dataclass(frozen=True, slots=True)
class ResolveAlert:
    key: str


Decision = (
    Launch
    | Drain
    | Cut
    | Kill
    | Reap
    | Hold
    | GiveUp
    | Wait
    | DumpThreads
    | OpenAlert
    | ResolveAlert
)
