"""One pipeline in the supervisor's hands: what is known of it, and the doing of what was decided.

Owned by `loop.py`, which asks `policy.py` what to do and tells the keeper. Invariants: what it is
about to do is on disk before it is done; a driver is started only after a look at the machine
itself has shown that nothing of the pipeline's former runs is left.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from headrace import processes
from headrace.checkpoints import positions
from headrace.model import health
from headrace.model.outcomes import PastRun
from headrace.model.runs import Desired, Ending, Process, RunSpec, pipeline_of
from headrace.state import folders
from headrace.supervisor import conclusions, process, restarts
from headrace.supervisor.live import House, Live
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
    OpenAlert,
    Reap,
    ResolveAlert,
    Situation,
    Wait,
)

logger = logging.getLogger(__name__)


class Keeper:
    """Knows one pipeline: desired state, the live run, the runs that were.

    `unread` are runs that ended while no supervisor ran: they are read before anything is decided.
    """

    def __init__(self, house: House, desired: Desired, limits: Limits) -> None:
        self.house = house
        self.desired = desired
        self.limits = limits
        self.live: Live | None = None
        self.unread: list[Live] = []
        self.past: list[PastRun] = []
        self.is_dirty = True  # processes of old runs may be left
        self.verdict: tuple[Decision, ...] = ()
        self._said: set[str] = set()  # since the last run began or ended

    @property
    def name(self) -> str:
        return self.desired.pipeline

    @property
    def is_starting(self) -> bool:
        return self.live is not None and self.live.watch.view.first_heartbeat_at is None

    @property
    def is_finished(self) -> bool:
        """All that it was to read is read: nothing starts it again."""
        last = self.past[-1] if self.past and self.live is None else None
        is_of_now = last is not None and last.spec.generation == self.desired.generation
        return last is not None and is_of_now and last.exit.ending == Ending.FINISHED

    @property
    def is_reading(self) -> bool:
        """A run is over and its last lines are not read yet: there is nothing to decide by."""
        return self.live.is_over if self.live is not None else bool(self.unread)

    def adopt(self, spec: RunSpec, found: Process, now: float) -> None:
        """A driver that outlived its supervisor goes on as if nothing had happened."""
        self.live = Live.adopted(self.house, spec, found, now, self.past)
        self.house.history.run_started(spec, now)
        self._tell("adopted", f"run {spec.run} goes on (process {found.pid})", now)

    def observe(self, now: float) -> None:
        """New events, and the end if it has come. Bounded: a long file takes several ticks."""
        if self.unread and self.unread[0].read(now):
            self._conclude(self.unread.pop(0), now)
        if self.live is not None:
            is_read = self.live.read(now)
            if self.live.is_over and is_read:
                over, self.live = self.live, None
                self._conclude(over, now)

    def _conclude(self, over: Live, now: float) -> None:
        places, run, view = self.house.places, over.spec.run, over.watch.view
        at = (view.last_line_at or over.spec.at) if over.was_found_over else self.house.wall()
        exit_ = folders.exit_of(places, run)
        if exit_ is None:
            code = process.code_of(over.process)
            exit_ = conclusions.ended_without_a_word(
                over.orders, at, code, places.log(run), had_queries=bool(view.queries)
            )
        exit_ = replace(exit_, asked=over.orders.drain_reason)
        ended_at = min(exit_.at, now) if over.was_found_over else now
        conclusions.keep_series(places, run, view)
        words = f"{exit_.ending}: {health.cause(exit_)}"
        if over.was_found_over:
            self.house.history.run_started(over.spec, now)
            words += ", while no supervisor ran"
        self.house.history.run_ended(run, exit_, now)
        self._tell("run_ended", words, now, run)
        past = conclusions.concluded(over.spec, exit_, view, ended_at)
        self._remember(past, ended_at if over.was_found_over else self.house.wall())

    def _remember(self, past: PastRun, noticed_at: float) -> bool:
        """True if it is on disk; on a full one it is remembered for this supervisor's life."""
        self.is_dirty = True
        self._said.clear()
        self.past.append(past)
        self.past.sort(key=lambda one: (one.spec.at, one.spec.run))
        folders.forget_secrets(self.house.places, past.spec.run)
        try:
            folders.write_outcome(self.house.places, past, noticed_at)
        except OSError as exc:
            logger.error("could not be written down: %s", exc, extra={"pipeline": self.name})
            return False
        finally:
            self.prune()
        return True

    def prune(self) -> None:
        kept = {self.past[-1].spec.run} if self.past else set()
        gone = folders.prune(self.house.places, kept, [one.spec for one in self.past])
        self.past = [one for one in self.past if one.spec.run not in gone]

    def situation(
        self, survivors: tuple[str, ...], open_alerts: frozenset[str], is_going_down: bool
    ) -> Situation:
        return Situation(
            desired=self.desired,
            live=self.live.seen() if self.live is not None else None,
            past=tuple(self.past),
            limits=self.limits,
            survivors=survivors,
            open_alerts=open_alerts,
            is_going_down=is_going_down,
        )

    def act(self, decisions: tuple[Decision, ...], now: float, may_launch: bool) -> None:
        self.verdict = decisions
        for decision in decisions:
            if isinstance(decision, Drain | Cut | Kill | DumpThreads):
                self._act_on_live(decision, now)
                continue
            match decision:
                case Launch():
                    if may_launch:
                        self._launch(decision, now)
                case Reap(runs):
                    count = process.end_runs(runs, self.house.places.state)
                    self._tell_once("reaped", f"{count} processes left of {', '.join(runs)}", now)
                case OpenAlert() | ResolveAlert():
                    self._alert(decision, now)
                case GiveUp(reason):
                    self._tell_once("gave_up", f"needs attention: {reason}", now)
                case Wait(until, reason, attempt) if attempt is not None and self.past:
                    words = f"starts again in {health.span(until - now)}, attempt {attempt}"
                    self._tell_once("restart_scheduled", f"{words}, because {reason}", now)
                case Hold("finished"):
                    self._tell_once("finished", "all queries have read what there was", now)

    def _act_on_live(self, decision: Drain | Cut | Kill | DumpThreads, now: float) -> None:
        live = self.live
        if live is None:
            return
        match decision:
            case Drain(reason):
                live.drain(reason, now)
                self._tell("drain_started", reason, now)
            case Cut(reason):
                live.cut(now)
                self._tell("cut", reason, now)
            case Kill(reason, by_watchdog):
                live.end_now(reason, by_watchdog, now)
                self._tell("killed", reason, now)
            case DumpThreads(reason):
                self._tell("stalled", f"{reason}; {live.dump_threads(now)}", now)

    def wants_cut(self) -> None:
        if self.live is not None and not self.live.orders.wants_cut:
            self.live.order(wants_cut=True)

    def _launch(self, decision: Launch, now: float) -> None:
        places = self.house.places
        left = [m for m in processes.marked(places.state) if pipeline_of(m.run) == self.name]
        if left:
            self.is_dirty = True
            return
        spec = folders.new_spec(self.desired, self.house.project, places, self.house.wall())
        spec = replace(spec, attempt=decision.attempt, restarts=decision.restarts)
        gaps = restarts.gaps_left(self.desired, self.past, positions.are_behind)
        spec = replace(spec, accepted_gaps=gaps)
        try:
            folders.write_spec(places, spec)
            started = process.spawn_driver(spec, places, self.house.driver_command)
        except OSError as exc:
            self._could_not_start(spec, exc, now)
            return
        self._said.clear()
        self.live = Live(self.house, spec, started, now, self.past)
        self.house.history.run_started(spec, now)
        attempt = f", attempt {spec.attempt}" if spec.attempt > 1 else ""
        self._tell("run_launched", f"version {spec.version}, process {started.pid}{attempt}", now)

    def _could_not_start(self, spec: RunSpec, exc: OSError, now: float) -> None:
        """A failed start like any other: it waits, people are told, and it is tried again."""
        at = self.house.wall()
        exit_ = conclusions.could_not_start(exc, at)
        self._tell("run_ended", f"{exit_.ending}: {health.cause(exit_)}", now, spec.run)
        if not self._remember(PastRun(spec, exit_, ended_at=now), at):
            folders.remove(self.house.places, spec.run)  # else a full disk fills with empty folders

    def _alert(self, decision: OpenAlert | ResolveAlert, now: float) -> None:
        history, at = self.house.history, self.house.wall()
        if isinstance(decision, OpenAlert):
            if history.open_alert(self.name, decision, at, now):
                self._tell("alert_opened", decision.title, now)
        elif history.resolve_alert(decision.key, at, now):
            self._tell("alert_resolved", decision.key, now)

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
