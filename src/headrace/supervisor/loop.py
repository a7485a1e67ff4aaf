"""The supervisor: one loop that listens, observes, decides and acts. Read this file first.

`tick` is the whole of it. Rules are in `policy.py`, hands are in `keeper.py`. Invariants: never two
drivers of one pipeline; whatever fails in a tick costs that one step, and is tried again.
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

from headrace import config, logs, processes
from headrace.errors import ControlError, Error
from headrace.model.places import Places
from headrace.model.requests import Request, What
from headrace.model.runs import Desired, pipeline_of
from headrace.model.status import PipelineStatus
from headrace.state import desired, requests
from headrace.supervisor import attendant, change, lock, policy, process, recovery, status
from headrace.supervisor.desk import Desk
from headrace.supervisor.history import History, Worked
from headrace.supervisor.keeper import Keeper
from headrace.supervisor.live import House
from headrace.supervisor.situation import Limits
from headrace.supervisor.taking import Taking

logger = logging.getLogger(__name__)

TICK_S = 0.25
STARTING_MAX = 2  # drivers that start at one time: each takes the cores for some seconds
STARTING_S = 60.0  # after that a start counts as slow, and others may begin
STATUS_S = 1.0
TIDY_S = 10.0
PRUNE_S = 3600.0
DRIVER_LOG_BYTES = 64 * 1024 * 1024
SUPERVISOR_LOG_BYTES = 16 * 1024 * 1024
SAME_PROBLEM_S = 60.0


def _steady() -> Callable[[], float]:
    """Seconds since the epoch as of now, and from here on no jumps: clocks are set, time is not."""
    base = time.time() - time.monotonic()
    return lambda: base + time.monotonic()


@dataclass(frozen=True, slots=True)
class Clock:
    """`steady` is for limits, `wall` for what people read."""

    steady: Callable[[], float] = field(default_factory=_steady)
    wall: Callable[[], float] = time.time


class Supervisor:
    """Owns the project's lock, its store connections and one keeper a pipeline.

    `only`: the pipeline of a `headrace run`. It then keeps what requests name, looks on at all
    else, and neither starts, drains nor ends that.
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
        self.places = Places(self.settings.state)
        self.clock = clock or Clock()
        self._started_at = self.clock.wall()  # before the lock is seen: later requests are for us
        self._only = only
        self._named: set[str] = set()  # pipelines to keep, if not all
        lock.prepare_state(self.places)
        lock.take(self.places)
        self.history = History(self.places)
        where = (self.settings.project, self.places)
        self._house = House(*where, self.history, self.clock.wall, driver_command)
        self._desk = Desk(self.places, self.history, self._change, self._guarded)
        self._attendants = attendant.both(self.settings, self.places)
        self._taking = Taking(self.places, self.history, self.clock.wall)
        self._limits: dict[tuple[str, str, str], Limits] = {}
        self.is_going_down = False
        self.keepers = recovery.keepers(self._house, self.limits_of, self.clock.steady())
        self._shown: dict[str, tuple[float, int, PipelineStatus]] = {}
        self._due = {"tidy": 0.0, "prune": 0.0}
        self._problems: dict[str, float] = {}
        count = sum(keeper.live is not None for keeper in self.keepers.values())
        logger.info("supervisor starts: %d pipelines known, %d running", len(self.keepers), count)

    def run(self, stop: threading.Event, cut: threading.Event | None = None) -> None:
        """Until `stop` or a request to go down; then drains all. `cut` waits for no batch."""
        while not self.is_done:
            if stop.is_set():
                self.go_down()
            if cut is not None and cut.is_set():
                for keeper in self._kept():
                    keeper.wants_cut()
            self.tick(self.clock.steady())
            # While it goes down `stop` is set already and would not wait.
            (threading.Event() if self.is_going_down else stop).wait(TICK_S)
        logger.info("supervisor ends")

    def go_down(self) -> None:
        if not self.is_going_down:
            logger.info("going down: all pipelines are drained; what should run is kept")
            self.is_going_down = True

    @property
    def is_done(self) -> bool:
        kept = self._kept()
        return self.is_going_down and not any(k.live is not None or k.is_dirty for k in kept)

    def _kept(self) -> list[Keeper]:
        return [keeper for keeper in self.keepers.values() if self._is_kept(keeper)]

    def _is_kept(self, keeper: Keeper) -> bool:
        return self._only is None or keeper.name in self._named

    def close(self) -> None:
        now = self.clock.steady()
        with self._guarded("taking the last alert rows", now):
            self._taking.take_last(now)
        with self._guarded("putting back what a run replaced", now):
            _put_back(self.places, self._kept())
        attendant.end_all(self._attendants)
        self.history.close()
        lock.release(self.places)

    def tick(self, now: float) -> None:
        process.collect_children()
        with self._guarded("requests", now):
            self._desk.serve_waiting(now)
        keepers = list(self.keepers.values())
        for keeper in keepers:
            with self._guarded(f"observing {keeper.name}", now):
                keeper.observe(now)
        left: dict[str, tuple[str, ...]] = {}
        with self._guarded("looking for survivors", now):
            left = _survivors(self.places, keepers)
        open_alerts: frozenset[str] = frozenset()
        with self._guarded("reading alerts", now):
            open_alerts = self.history.open_keys(now)
        for keeper in keepers:
            with self._guarded(f"keeping {keeper.name}", now), logs.about(pipeline=keeper.name):
                if not keeper.is_reading:
                    self._keep(keeper, left.get(keeper.name, ()), open_alerts, now)
        with self._guarded("taking alert rows", now):
            self._taking.take(_worked_until(self.keepers), now)
        for keeper in keepers:
            with self._guarded(f"showing {keeper.name}", now):
                self._show(keeper, now)
        with self._guarded("tidying", now):
            self._tidy(now)
        with self._guarded("keeping page and relay", now):
            attendant.tick_all(self._attendants, now)

    def _keep(
        self, keeper: Keeper, left: tuple[str, ...], open_alerts: frozenset[str], now: float
    ) -> None:
        situation = keeper.situation(left, open_alerts, self.is_going_down)
        if self._is_kept(keeper):
            decisions = policy.decide(situation, now)
        else:
            why = f"the supervisor of `headrace run {self._only}` leaves it alone"
            decisions = policy.leave_alone(situation, f"{why}; headrace up starts it", now)
        keeper.act(decisions, now, _may_launch(self.keepers.values(), now))

    def _change(self, request: Request, now: float) -> str:
        if request.what == What.DOWN:
            if request.at < self._started_at:  # meant for the one before
                return "ignored: it was asked for before this supervisor started"
            self._only = None
            self.go_down()
            return "the supervisor drains all pipelines and ends"
        if self.is_going_down:
            raise ControlError(
                f"The supervisor is going down and takes no more requests ({request.what}).",
                fix="wait for its end, then: headrace up",
                slug="going-down",
            )
        keeper = self.keepers.get(request.pipeline)
        wanted, text = change.after(request, self._known(request.pipeline, keeper))
        if keeper is None or wanted is not keeper.desired:
            desired.write(self.places, wanted)
            if keeper is None:
                keeper = Keeper(self._house, wanted, self.limits_of(wanted))
                self.keepers[wanted.pipeline] = keeper
            keeper.desired, keeper.limits = wanted, self.limits_of(wanted)
            self.history.event(
                self.clock.wall(), wanted.pipeline, None, f"{request.what}_requested", text, now
            )
        self._named.add(wanted.pipeline)
        if request.what == What.CUT and keeper is not None:
            keeper.wants_cut()
        return text

    def _known(self, name: str, keeper: Keeper | None) -> change.Known:
        return change.Known(
            current=keeper.desired if keeper else None,
            is_live=keeper is not None and keeper.live is not None,
            is_kept=keeper is not None and self._is_kept(keeper),
            is_finished=keeper is not None and keeper.is_finished,
            names=tuple(self.keepers),
            last_generation=0 if keeper else recovery.last_generation(self.places, name),
            has_version=partial(_has_version, self.places),
        )

    def limits_of(self, wanted: Desired) -> Limits:
        """From the deployed copy of the settings: a restart never deploys, also not a limit."""
        key = (wanted.version, wanted.profile, wanted.pipeline)
        if key not in self._limits:
            self._limits[key] = _read_limits(self.places, self.settings.project, wanted)
        return self._limits[key]

    def _show(self, keeper: Keeper, now: float) -> None:
        """To the store when it changed; numbers at most once a second, a new state at once."""
        at, opened, before = self._shown.get(keeper.name, (0.0, 0, None))
        is_due = now >= at + STATUS_S or opened != self.history.times_opened
        fresh = status.status_of(keeper, now, self.clock.wall())
        if before is not None and not is_due and _same_state(fresh, before):
            return
        is_new = fresh != before or opened != self.history.times_opened
        if is_new and self.history.status(fresh, now):
            self._shown[keeper.name] = (now, self.history.times_opened, fresh)

    def _tidy(self, now: float) -> None:
        lock.keep_record(self.places)
        if now >= self._due["tidy"]:
            self._due["tidy"] = now + TIDY_S
            self.history.tell_of_itself(self.clock.wall(), now)
            _mend(self.places, self.keepers.values())
            logs.keep_short(self.places.supervisor_log, SUPERVISOR_LOG_BYTES)
            for keeper in self.keepers.values():
                if keeper.live is not None:
                    logs.keep_short(self.places.log(keeper.live.spec.run), DRIVER_LOG_BYTES)
        if now >= self._due["prune"]:
            self._due["prune"] = now + PRUNE_S
            self.history.prune(self.clock.wall(), now)
            requests.prune(self.places)

    @contextlib.contextmanager
    def _guarded(self, step: str, now: float) -> Iterator[None]:
        """A border: whatever goes wrong in one step, the others are done and it is tried again."""
        try:
            yield
        except Exception as exc:
            key = f"{step}: {exc}"
            if now >= self._problems.get(key, 0.0) + SAME_PROBLEM_S:
                self._problems = {**dict(list(self._problems.items())[-50:]), key: now}
                logger.exception("%s failed; all else goes on", step)


def _has_version(places: Places, version: str) -> bool:
    return bool(desired.NAME.fullmatch(version)) and places.code(version).is_dir()


def _may_launch(keepers: Iterable[Keeper], now: float) -> bool:
    starting = [keeper.live for keeper in keepers if keeper.live is not None and keeper.is_starting]
    return sum(now < live.known_since + STARTING_S for live in starting) < STARTING_MAX


def _put_back(places: Places, keepers: Iterable[Keeper]) -> None:
    """A `headrace run` ends with the supervisor: what it has replaced should run again after it."""
    for keeper in keepers:
        if keeper.desired.former is not None:
            desired.write(places, change.restored(keeper.desired))


def _mend(places: Places, keepers: Iterable[Keeper]) -> None:
    """What should run is known while the supervisor runs: damaged files are written again."""
    for keeper in keepers:
        on_disk = desired.read(places, keeper.name)
        if on_disk == desired.damaged(keeper.name) != keeper.desired:
            logger.warning("%s was damaged; it is written again", places.desired(keeper.name))
            desired.write(places, keeper.desired)


def _worked_until(keepers: Mapping[str, Keeper]) -> Worked:
    """Of a query of a live run; nobody knows it of one that does not run."""

    def ask(pipeline: str, query: str) -> float | None:
        keeper = keepers.get(pipeline)
        live = keeper.live if keeper is not None else None
        return live.worked_until(query) if live is not None else None

    return ask


def _survivors(places: Places, keepers: list[Keeper]) -> dict[str, tuple[str, ...]]:
    """Runs with processes left, by pipeline. The machine is looked through only if needed."""
    dirty = [keeper for keeper in keepers if keeper.is_dirty and keeper.live is None]
    if not dirty:
        return {}
    left: dict[str, set[str]] = {}
    for found in processes.marked(places.state):
        left.setdefault(pipeline_of(found.run), set()).add(found.run)
    for keeper in dirty:
        keeper.is_dirty = keeper.name in left
    return {name: tuple(sorted(runs)) for name, runs in left.items()}


def _same_state(one: PipelineStatus, other: PipelineStatus) -> bool:
    return (one.state, one.run, one.version) == (other.state, other.run, other.version) and [
        query.state for query in one.queries
    ] == [query.state for query in other.queries]


def _read_limits(places: Places, project: Path, wanted: Desired) -> Limits:
    toml = places.code(wanted.version) / config.FILE
    if not toml.is_file():
        return Limits()
    try:
        own = config.load(project, wanted.profile, toml).for_pipeline(wanted.pipeline)
    except Error as exc:
        logger.warning("%s: limits are the defaults: %s", wanted.pipeline, exc.what)
        return Limits()
    return Limits(own.restart, own.watchdog, own.drain, own.health)
