"""Input and output of the policy: the situation of one pipeline, and the possible decisions.

Plain data. Times are seconds of the supervisor's steady clock, which never jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.health.run_view import RunView
from headrace.model.limits import DrainLimits, HealthLimits, RestartLimits, WatchdogLimits
from headrace.model.runs import Desired, Orders, PastRun, RunSpec


@dataclass(frozen=True, slots=True)
class LiveRun:
    spec: RunSpec
    view: RunView
    known_since: float  # launched or adopted
    orders: Orders = field(default_factory=Orders)
    exit_seen_at: float | None = None  # exit.json exists, but the process still lives
    is_unsignalled: bool = False  # an earlier supervisor ordered a drain, but may not have sent it
    has_passed_gaps: bool = False  # it is past all accepted gaps


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    restart: RestartLimits = field(default_factory=RestartLimits)
    watchdog: WatchdogLimits = field(default_factory=WatchdogLimits)
    drain: DrainLimits = field(default_factory=DrainLimits)
    health: HealthLimits = field(default_factory=HealthLimits)


@dataclass(frozen=True, slots=True)
class Situation:
    """One pipeline. `past` is oldest first. `survivors` are runs with remaining processes."""

    desired: Desired
    live: LiveRun | None = None
    past: tuple[PastRun, ...] = ()
    limits: PolicyLimits = field(default_factory=PolicyLimits)
    survivors: tuple[str, ...] = ()
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
    """Kill the remaining processes of these runs before the next launch."""

    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing to do until a person acts."""

    reason: str
    is_aside: bool = False  # this supervisor only observes it


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Needs attention: a restart would not help."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    until: float
    reason: str
    next_attempt: int | None = None  # if it waits for a launch


@dataclass(frozen=True, slots=True)
class DumpThreads:
    reason: str


RunDecision = Drain | Cut | Kill | DumpThreads  # about a live run
Decision = RunDecision | Launch | Reap | Hold | GiveUp | Wait
