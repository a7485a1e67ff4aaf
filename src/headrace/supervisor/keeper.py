"""One pipeline in the supervisor's hands: what is known of it, and the doing of what was decided.

Owned by `loop.py`, which asks `policy.py` what to do and tells the keeper. Invariants: what it is
about to do is on disk before it is done; a driver is started only after a look at the machine
itself has shown that nothing of the pipeline's former runs is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace import processes
from headrace.model import health
from headrace.model.places import Places
from headrace.model.runs import Desired, Ending, Exit, Process, RunSpec
from headrace.supervisor import folders, process
from headrace.supervisor.history import History
from headrace.supervisor.situation import (
    Cut,
    Decision,
    Drain,
    DumpThreads,
    GiveUp,
    Hold,
    Kill,
    Launch,
    Limits,
    LiveRun,
    OpenAlert,
    Orders,
    PastRun,
    Reap,
    ResolveAlert,
    Situation,
    Wait,
)
from headrace.supervisor.watch import Watch

logger = logging.getLogger(__name__)

LAUNCH_AGAIN_S = 5.0  # after a start that could not even be written down: a full disk


@dataclass(frozen=True, slots=True)
class House:
    """What all keepers share."""

    project: Path
    places: Places
    history: History
    wall: Callable[[], float]
    driver_command: Sequence[str] = process.DRIVER


@dataclass(slots=True)
class Live:
    spec: RunSpec
    process: Process
    watch: Watch
    known_since: float
    orders: Orders
    exit_seen_at: float | None = None


class Keeper:
    """Knows one pipeline: desired state, the live run, the runs that were."""

    def __init__(self, house: House, desired: Desired, limits: Limits) -> None:
        self.house = house
        self.desired = desired
        self.limits = limits
        self.live: Live | None = None
        self.past: list[PastRun] = []
        self.is_dirty = True  # processes of old runs may be left
        self.verdict: tuple[Decision, ...] = ()
        self._said: set[str] = set()  # since the last run began or ended
        self._not_before = 0.0

    @property
    def name(self) -> str:
        return self.desired.pipeline

    @property
    def is_starting(self) -> bool:
        return self.live is not None and self.live.watch.view.first_heartbeat_at is None

    def adopt(self, spec: RunSpec, found: Process, now: float) -> None:
        """A driver that outlived its supervisor goes on as if nothing had happened."""
        places = self.house.places
        orders = folders.orders_of(places, spec.run, now)
        self.live = Live(spec, found, Watch(places.events(spec.run)), now, orders)
        self.house.history.run_started(spec, now)
        self._tell("adopted", f"run {spec.run} goes on (process {found.pid})", now)

    def observe(self, now: float) -> None:
        """New events, and the end if it has come."""
        live = self.live
        if live is None:
            return
        is_alive = processes.is_alive(live.process)  # asked first: then exit.json is the last word
        heard = live.watch.read(now) if is_alive else live.watch.read_to_end(now)
        self.house.history.progressed(self.name, live.spec.run, heard, now)
        if not is_alive:
            self._conclude(live, now)
        elif live.exit_seen_at is None and self.house.places.exit(live.spec.run).exists():
            live.exit_seen_at = now

    def _conclude(self, live: Live, now: float) -> None:
        places, run = self.house.places, live.spec.run
        code, at = process.code_of(live.process), self.house.wall()
        exit_ = folders.exit_of(places, run)
        if exit_ is None:
            exit_ = ended_without_a_word(live.orders, at, code, places.log(run))
        past = folders.concluded(live.spec, exit_, live.watch.view, now)
        self.live = None
        self.is_dirty = True
        self._said.clear()
        self.past.append(past)
        self._write_down(lambda: folders.write_outcome(places, past, self.house.wall()))
        self.house.history.run_ended(run, exit_, now)
        self._tell("run_ended", f"{exit_.ending}: {health.cause(exit_)}", now, run)
        kept = {self.past[-1].spec.run}
        gone = folders.prune(places, kept, [one.spec for one in self.past])
        self.past = [one for one in self.past if one.spec.run not in gone]

    def situation(
        self, survivors: tuple[str, ...], open_alerts: frozenset[str], is_going_down: bool
    ) -> Situation:
        live, seen = self.live, None
        if live is not None:
            view, since = live.watch.view, live.known_since
            seen = LiveRun(live.spec, view, since, live.orders, live.exit_seen_at)
        return Situation(
            desired=self.desired,
            live=seen,
            past=tuple(self.past),
            limits=self.limits,
            survivors=survivors,
            open_alerts=open_alerts,
            is_going_down=is_going_down,
        )

    def act(self, decisions: tuple[Decision, ...], now: float, may_launch: bool) -> None:
        self.verdict = decisions
        for decision in decisions:
            match decision:
                case Launch():
                    if may_launch and now >= self._not_before:
                        self._launch(decision, now)
                case Drain(reason):
                    self._order(drain_at=now, drain_reason=reason)
                    self._signal(process.ask_to_end)
                    self._tell("drain_started", reason, now)
                case Cut(reason):
                    self._order(cut_at=now)
                    self._signal(process.ask_to_end)
                    self._tell("cut", reason, now)
                case Kill(reason, by_watchdog):
                    self._kill(reason, by_watchdog, now)
                case Reap(runs):
                    count = process.end_runs(runs, self.house.places.state)
                    self._tell_once("reaped", f"{count} processes left of {', '.join(runs)}", now)
                case DumpThreads(reason):
                    self._dump(reason, now)
                case OpenAlert() | ResolveAlert():
                    self._alert(decision, now)
                case GiveUp(reason):
                    self._tell_once("gave_up", f"needs attention: {reason}", now)
                case Wait(until, reason, attempt) if attempt is not None and self.past:
                    words = f"starts again in {health.span(until - now)}, attempt {attempt}"
                    self._tell_once("restart_scheduled", f"{words}, because {reason}", now)
                case Hold("finished"):
                    self._tell_once("finished", "all queries have read what there was", now)

    def wants_cut(self) -> None:
        if self.live is not None and not self.live.orders.wants_cut:
            self._order(wants_cut=True)

    def _launch(self, decision: Launch, now: float) -> None:
        places = self.house.places
        left = [m for m in processes.marked(places.state) if pipeline_of(m.run) == self.name]
        if left:
            self.is_dirty = True
            return
        self._not_before = now + LAUNCH_AGAIN_S
        spec = folders.new_spec(self.desired, self.house.project, places, self.house.wall())
        spec = replace(spec, attempt=decision.attempt, restarts=decision.restarts)
        folders.write_spec(places, spec)
        try:
            started = process.spawn_driver(spec, places, self.house.driver_command)
        except OSError as exc:
            self._could_not_start(spec, exc, now)
            return
        self._not_before = 0.0
        self._said.clear()
        self.live = Live(spec, started, Watch(places.events(spec.run)), now, Orders())
        self.house.history.run_started(spec, now)
        attempt = f", attempt {spec.attempt}" if spec.attempt > 1 else ""
        words = f"version {spec.version}, process {started.pid}{attempt}"
        self._tell("run_launched", words, now)

    def _could_not_start(self, spec: RunSpec, exc: OSError, now: float) -> None:
        error = {"slug": "spawn", "what": f"The driver could not be started: {exc}"}
        at = self.house.wall()
        exit_ = Exit(Ending.REFUSED, code=3, at=at, error=error, kind="retry", failure="spawn")
        past = PastRun(spec, exit_, ended_at=now)
        self.past.append(past)
        self._write_down(lambda: folders.write_outcome(self.house.places, past, at))
        self._tell("run_ended", error["what"], now, spec.run)

    def _kill(self, reason: str, by_watchdog: bool, now: float) -> None:
        if self.live is None:
            return
        self._order(kill_at=now, kill_reason=reason, by_watchdog=by_watchdog)
        self._signal(process.end_now)
        process.end_runs((self.live.spec.run,), self.house.places.state)
        self._tell("killed", reason, now)

    def _dump(self, reason: str, now: float) -> None:
        if self.live is None:
            return
        self._order(dumped_at=now)
        jvm, run = self.live.watch.view.jvm_pid, self.live.spec.run
        is_dumped = jvm is not None and process.dump_threads(jvm, run, self.house.places.state)
        words = f"threads are in {self.house.places.log(run)}" if is_dumped else "no thread dump"
        self._tell("stalled", f"{reason}; {words}", now)

    def _alert(self, decision: OpenAlert | ResolveAlert, now: float) -> None:
        history, at = self.house.history, self.house.wall()
        if isinstance(decision, OpenAlert):
            if history.open_alert(self.name, decision, at, now):
                self._tell("alert_opened", decision.title, now)
        elif history.resolve_alert(decision.key, at, now):
            self._tell("alert_resolved", decision.key, now)

    def _order(self, **changes: object) -> None:
        """On disk first: what is then done, or not, can be told from it."""
        if self.live is None:
            return
        run, orders = self.live.spec.run, replace(self.live.orders, **changes)  # type: ignore[arg-type]
        self._write_down(lambda: folders.write_orders(self.house.places, run, orders))
        self.live.orders = orders

    def _write_down(self, write: Callable[[], None]) -> None:
        """A full disk makes us forgetful, not helpless: stopping works all the same."""
        try:
            write()
        except OSError as exc:
            logger.error("could not be written down: %s", exc, extra={"pipeline": self.name})

    def _signal(self, send: Callable[[Process], bool]) -> None:
        if self.live is not None:
            send(self.live.process)

    def _tell_once(self, kind: str, text: str, now: float) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._tell(kind, text, now)

    def _tell(self, kind: str, text: str, now: float, run: str | None = None) -> None:
        run = run or (self.live.spec.run if self.live else None)
        level = _LEVELS.get(kind, logging.INFO)
        logger.log(level, "%s: %s", kind, text, extra={"pipeline": self.name, "run": run})
        self.house.history.event(self.house.wall(), self.name, run, kind, text, now)


_LEVELS = {
    "gave_up": logging.ERROR,
    "restart_scheduled": logging.WARNING,
    "killed": logging.WARNING,
    "reaped": logging.WARNING,
    "stalled": logging.WARNING,
}


def pipeline_of(run: str) -> str:
    return run.rsplit("-", 2)[0]


def ended_without_a_word(
    orders: Orders, at: float, code: int | None = None, log: Path | None = None
) -> Exit:
    """The end of a driver that wrote no exit.json: what was ordered says which end it was."""
    if orders.kill_at is not None and orders.by_watchdog:
        ending, what = Ending.STALLED, f"The driver hung and was killed: {orders.kill_reason}."
    elif orders.drain_at is not None:
        why = orders.kill_reason or "it ended in the middle of it"
        ending, what = Ending.CUT, f"The driver was asked to stop ({orders.drain_reason}): {why}."
    elif (
        code is not None and code >= 0
    ):  # by itself, and without a word: the three-times rule holds
        what = f"The driver ended with code {code} before it could say why."
        last = (process.tail_of(log).strip().splitlines() or [""])[-1] if log else ""
        where = str(log) if log else None
        error = {"slug": "driver-died", "what": what, "why": last or None, "where": where}
        found = f"driver-died {code} {last[:200]}"
        return Exit(Ending.FAILED, code or 1, at, error, kind="unknown", fingerprint=found)
    else:
        ending = Ending.VANISHED
        what = "The driver vanished: it was killed, or the machine went down."
    error = {"slug": f"driver-{ending.value}", "what": what}
    return Exit(ending.value, code=-1, at=at, error=error)
