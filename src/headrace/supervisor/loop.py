"""The supervisor's loop: serves requests, observes runs, decides and acts. Start reading at `tick`.

`decision_rules.py` decides, `pipeline_keeper.py` acts. Invariants: never two drivers of one
pipeline; a failure in a tick affects one step only, which is retried.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from headrace import config, logs, process_identity
from headrace.define import deployed_code
from headrace.errors import ControlError, Error
from headrace.model.requests import ABOUT_ALERTS, Action, Request
from headrace.model.runs import Desired, pipeline_of
from headrace.model.state_paths import StatePaths
from headrace.model.status import PipelineStatus
from headrace.state import desired, requests
from headrace.supervisor import (
    alert_requests,
    decision_rules,
    lock,
    pipeline_status,
    process,
    recovery,
    requested_changes,
    sidecars,
)
from headrace.supervisor.alert_files import AlertFileReader
from headrace.supervisor.pipeline_keeper import Keeper
from headrace.supervisor.request_inbox import Inbox
from headrace.supervisor.rule_watch import RuleWatch
from headrace.supervisor.running_driver import Shared
from headrace.supervisor.situation import PolicyLimits
from headrace.supervisor.store_writer import StoreWriter, Worked

logger = logging.getLogger(__name__)

TICK_S = 0.25
STARTING_MAX = 2  # drivers that start at a time: each uses all cores for a few seconds
STARTING_S = 60.0  # after that, others may start too
STATUS_S = 1.0
TIDY_S = 10.0
PRUNE_S = 3600.0
DRIVER_LOG_BYTES = 64 * 1024 * 1024
SUPERVISOR_LOG_BYTES = 16 * 1024 * 1024
SAME_PROBLEM_S = 60.0


def _steady() -> Callable[[], float]:
    """Seconds since the epoch that do not jump when the system clock is set."""
    base = time.time() - time.monotonic()
    return lambda: base + time.monotonic()


@dataclass(frozen=True, slots=True)
class Clock:
    """`steady` is for limits, `wall` for times that people read."""

    steady: Callable[[], float] = field(default_factory=_steady)
    wall: Callable[[], float] = time.time


class Supervisor:
    """Owns the project's lock, its store connections and one keeper per pipeline.

    `only`: the pipeline of a `headrace run`. The supervisor then controls the pipelines that
    requests name, and only observes the others.
    """

    def __init__(
        self,
        project: Path,
        profile: str = config.DEV,
        *,
        only: str | None = None,
        clock: Clock | None = None,
        driver_command: Sequence[str] = process.DRIVER,
    ) -> None:
        self.settings = config.load(project, profile)
        self.places = StatePaths(self.settings.state)
        self.clock = clock or Clock()
        self._started_at = self.clock.wall()  # before the lock: later requests are for this one
        self._only = only
        self._named: set[str] = set()  # with `only`: the pipelines that this supervisor controls
        lock.prepare_state(self.places)
        lock.take(self.places)
        self.history = StoreWriter(self.places)
        where = (self.settings.project, self.places)
        self._shared = Shared(*where, self.history, self.clock.wall, driver_command)
        self._inbox = Inbox(self.places, self.history, self._change, self._guard)
        self._sidecars = sidecars.create_sidecars(self.settings, self.places)
        self._alert_files = AlertFileReader(self.places, self.history, self.clock.wall)
        self._rules = RuleWatch(self.settings, self.places, self.history, self.clock.wall)
        self._limits: dict[tuple[str, str, str], PolicyLimits] = {}
        self.is_going_down = False
        self.keepers = recovery.recover_keepers(self._shared, self.limits_of, self.clock.steady())
        self._shown: dict[str, tuple[float, int, PipelineStatus]] = {}
        self._due = {"tidy": 0.0, "prune": 0.0}
        self._problems: dict[str, float] = {}
        count = sum(keeper.live is not None for keeper in self.keepers.values())
        logger.info("supervisor started; pipelines: %d, running: %d", len(self.keepers), count)

    def run(self, stop: threading.Event, cut: threading.Event | None = None) -> None:
        """Runs until `stop` or a request to go down; then drains all, or with `cut`, cuts all."""
        while not self.is_done:
            if stop.is_set():
                self.go_down()
            if cut is not None and cut.is_set():
                for keeper in self._list_kept():
                    keeper.wants_cut()
            self.tick(self.clock.steady())
            # While it goes down, `stop` is already set and would not wait.
            (threading.Event() if self.is_going_down else stop).wait(TICK_S)
        logger.info("supervisor stopped")

    def go_down(self) -> None:
        if not self.is_going_down:
            logger.info("going down: draining all pipelines; the next start resumes them")
            self.is_going_down = True

    @property
    def is_done(self) -> bool:
        kept = self._list_kept()
        return self.is_going_down and not any(k.live is not None or k.is_dirty for k in kept)

    def _list_kept(self) -> list[Keeper]:
        return [keeper for keeper in self.keepers.values() if self._is_kept(keeper)]

    def _is_kept(self, keeper: Keeper) -> bool:
        return self._only is None or keeper.name in self._named

    def close(self) -> None:
        now = self.clock.steady()
        with self._guard("reading the last alert rows", now):
            self._alert_files.take_last(now)
        with self._guard("restoring replaced pipelines", now):
            _restore_replaced(self.places, self._list_kept())
        for sidecar in self._sidecars:
            sidecar.end()
        self.history.close()
        lock.release(self.places)

    def tick(self, now: float) -> None:
        process.collect_children()
        with self._guard("requests", now):
            self._inbox.serve_waiting(now)
        keepers = list(self.keepers.values())
        for keeper in keepers:
            with self._guard(f"observing {keeper.name}", now):
                keeper.observe(now)
        left: dict[str, tuple[str, ...]] = {}
        with self._guard("looking for remaining processes", now):
            left = _survivors(self.places, keepers)
        for keeper in keepers:
            with self._guard(f"controlling {keeper.name}", now), logs.about(pipeline=keeper.name):
                if not keeper.is_reading:
                    self._keep(keeper, left.get(keeper.name, ()), now)
        with self._guard("reading alert rows", now):
            self._alert_files.take(_build_worked_until(self.keepers), now)
        for keeper in keepers:
            with self._guard(f"updating the status of {keeper.name}", now):
                self._show_and_judge(keeper, now)
        with self._guard("rules of the project", now):
            self._rules.watch_project(self.keepers, now)
        with self._guard("cleaning up", now):
            self._tidy(now)
        with self._guard("page and relay", now):
            for sidecar in self._sidecars:
                sidecar.tick(now)

    def _keep(self, keeper: Keeper, left: tuple[str, ...], now: float) -> None:
        situation = keeper.situation(left, self.is_going_down)
        if self._is_kept(keeper):
            decisions = decision_rules.decide(situation, now)
        else:
            decisions = decision_rules.leave_alone(situation, _why_alone(self._only), now)
        keeper.act(decisions, now, _may_launch(self.keepers.values(), now))

    def _change(self, request: Request, now: float) -> str:
        if request.what == Action.DOWN:
            if request.at < self._started_at:  # for the previous supervisor
                return "ignored: the request is older than this supervisor"
            self._only = None
            self.go_down()
            return "the supervisor is draining all pipelines and will then stop"
        if self.is_going_down:
            raise _going_down_error(request)
        if request.what in ABOUT_ALERTS:
            return alert_requests.serve(request, self.history, self.clock.wall(), now)
        keeper = self.keepers.get(request.pipeline)
        known = self._build_known(request.pipeline, keeper)
        wanted, text = requested_changes.apply_request(request, known)
        if keeper is None or wanted is not keeper.desired:
            desired.write(self.places, wanted)
            if keeper is None:
                keeper = Keeper(self._shared, wanted, self.limits_of(wanted))
                self.keepers[wanted.pipeline] = keeper
            keeper.desired, keeper.limits = wanted, self.limits_of(wanted)
            kind = f"{request.what}_requested"
            self.history.event(self.clock.wall(), wanted.pipeline, None, kind, text, now)
        self._named.add(wanted.pipeline)
        if request.what == Action.CUT and keeper is not None:
            keeper.wants_cut()
        return text

    def _build_known(self, name: str, keeper: Keeper | None) -> requested_changes.KnownPipeline:
        return requested_changes.KnownPipeline(
            current=keeper.desired if keeper else None,
            is_live=keeper is not None and keeper.live is not None,
            is_kept=keeper is not None and self._is_kept(keeper),
            is_finished=keeper is not None and keeper.is_finished,
            names=tuple(self.keepers),
            last_generation=0 if keeper else recovery.last_generation(self.places, name),
            has_version=partial(_has_version, self.places),
        )

    def limits_of(self, wanted: Desired) -> PolicyLimits:
        """From the deployed settings: a restart never deploys, not even a limit."""
        key = (wanted.version, wanted.profile, wanted.pipeline)
        if key not in self._limits:
            self._limits[key] = _read_limits(self.places, self.settings.project, wanted)
        return self._limits[key]

    def _show_and_judge(self, keeper: Keeper, now: float) -> None:
        """Rules judge the same status that is stored. While it goes down, nothing is judged: the
        next supervisor continues."""
        fresh = pipeline_status.status_of(keeper, now, self.clock.wall())
        self._show(keeper, fresh, now)
        if self._is_kept(keeper) and not keeper.is_reading and not self.is_going_down:
            with self._guard(f"rules of {keeper.name}", now):
                self._rules.watch(keeper, fresh, now)

    def _show(self, keeper: Keeper, fresh: PipelineStatus, now: float) -> None:
        shown = self._shown.get(keeper.name)
        is_news = _is_news(fresh, shown, self.history.times_opened, now)
        if is_news and self.history.status(fresh, now):
            self._shown[keeper.name] = (now, self.history.times_opened, fresh)

    def _tidy(self, now: float) -> None:
        lock.keep_record(self.places)
        if now >= self._due["tidy"]:
            self._due["tidy"] = now + TIDY_S
            self.history.report_problem(self.clock.wall(), now)
            _restore_damaged(self.places, self.keepers.values())
            _shorten_logs(self.places, self.keepers.values())
        if now >= self._due["prune"]:
            self._due["prune"] = now + PRUNE_S
            self.history.prune(self.clock.wall(), now)
            requests.prune(self.places)
            deployed_code.prune(self.places, self.clock.wall())

    @contextlib.contextmanager
    def _guard(self, step: str, now: float) -> Iterator[None]:
        """Logs a failure of one step; the others still run, and the step is retried."""
        try:
            yield
        except Exception as exc:
            key = f"{step}: {exc}"
            if now >= self._problems.get(key, 0.0) + SAME_PROBLEM_S:
                self._problems = {**dict(list(self._problems.items())[-50:]), key: now}
                logger.exception("%s failed; other steps continue", step)


def _why_alone(only: str | None) -> str:
    return f"not controlled by the supervisor of `headrace run {only}`; to start it: headrace up"


def _going_down_error(request: Request) -> ControlError:
    return ControlError(
        f"The supervisor is stopping and no longer accepts requests ({request.what}).",
        fix="Wait until it has stopped, then run `headrace up`.",
        slug="going-down",
    )


def _has_version(places: StatePaths, version: str) -> bool:
    return bool(desired.NAME.fullmatch(version)) and places.code(version).is_dir()


def _may_launch(keepers: Iterable[Keeper], now: float) -> bool:
    starting = [keeper.live for keeper in keepers if keeper.live is not None and keeper.is_starting]
    return sum(now < live.known_since + STARTING_S for live in starting) < STARTING_MAX


def _restore_replaced(places: StatePaths, keepers: Iterable[Keeper]) -> None:
    """A `headrace run` ends with the supervisor: the pipelines that it replaced run again later."""
    for keeper in keepers:
        if keeper.desired.former is not None:
            desired.write(places, requested_changes.restore_former(keeper.desired))


def _restore_damaged(places: StatePaths, keepers: Iterable[Keeper]) -> None:
    """Rewrites damaged files of the desired state, which the supervisor has in memory."""
    for keeper in keepers:
        on_disk = desired.read(places, keeper.name)
        if on_disk == desired.damaged_placeholder(keeper.name) != keeper.desired:
            logger.warning("%s was damaged and has been restored", places.desired(keeper.name))
            desired.write(places, keeper.desired)


def _shorten_logs(places: StatePaths, keepers: Iterable[Keeper]) -> None:
    logs.keep_short(places.supervisor_log, SUPERVISOR_LOG_BYTES)
    for keeper in keepers:
        if keeper.live is not None:
            logs.keep_short(places.log(keeper.live.spec.run), DRIVER_LOG_BYTES)


def _build_worked_until(keepers: Mapping[str, Keeper]) -> Worked:
    """Until when a query has worked; None if it does not run."""

    def look_up(pipeline: str, query: str) -> float | None:
        keeper = keepers.get(pipeline)
        live = keeper.live if keeper is not None else None
        return live.worked_until(query) if live is not None else None

    return look_up


def _survivors(places: StatePaths, keepers: list[Keeper]) -> dict[str, tuple[str, ...]]:
    """Runs with remaining processes, by pipeline. Scans the machine only if needed."""
    dirty = [keeper for keeper in keepers if keeper.is_dirty and keeper.live is None]
    if not dirty:
        return {}
    left: dict[str, set[str]] = {}
    for found in process_identity.find_marked(places.state):
        left.setdefault(pipeline_of(found.run), set()).add(found.run)
    for keeper in dirty:
        keeper.is_dirty = keeper.name in left
    return {name: tuple(sorted(runs)) for name, runs in left.items()}


def _is_news(
    fresh: PipelineStatus, shown: tuple[float, int, PipelineStatus] | None, opened: int, now: float
) -> bool:
    """A changed status is stored: a new state at once, numbers at most once a second; all of it if
    the store was opened again."""
    if shown is None or opened != shown[1]:
        return True
    at, _, before = shown
    return fresh != before and (now >= at + STATUS_S or not _same_state(fresh, before))


def _same_state(one: PipelineStatus, other: PipelineStatus) -> bool:
    states = [[query.state for query in status.queries] for status in (one, other)]
    is_same_run = (one.state, one.run, one.version) == (other.state, other.run, other.version)
    return is_same_run and states[0] == states[1]


def _read_limits(places: StatePaths, project: Path, wanted: Desired) -> PolicyLimits:
    toml = places.code(wanted.version) / config.FILE
    if not toml.is_file():
        return PolicyLimits()
    try:
        own = config.load(project, wanted.profile, toml).for_pipeline(wanted.pipeline)
    except Error as exc:
        logger.warning("%s: using default limits: %s", wanted.pipeline, exc.what)
        return PolicyLimits()
    return PolicyLimits(own.restart, own.watchdog, own.drain, own.health)
