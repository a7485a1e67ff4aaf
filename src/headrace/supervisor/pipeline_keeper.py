"""The supervisor's record of one pipeline; carries out the decisions of `decision_rules.py`.

Invariants: an action is on disk before it is carried out; a driver starts only after a scan of the
machine's processes shows that no process of an earlier run is left.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from headrace import process_identity
from headrace.checkpoints import positions
from headrace.health import judgement
from headrace.model import times
from headrace.model.runs import Desired, Ending, PastRun, Process, RunSpec, pipeline_of
from headrace.state import run_folders
from headrace.supervisor import process, restarts, run_outcome
from headrace.supervisor.running_driver import RunningDriver, Shared
from headrace.supervisor.situation import (
    Cut,
    Decision,
    Drain,
    DumpThreads,
    GiveUp,
    Hold,
    Kill,
    Launch,
    PolicyLimits,
    Reap,
    RunDecision,
    Situation,
    Wait,
)

logger = logging.getLogger(__name__)


class Keeper:
    """Desired state, the live run, and past runs of one pipeline."""

    def __init__(self, shared: Shared, desired: Desired, limits: PolicyLimits) -> None:
        self.shared = shared
        self.desired = desired
        self.limits = limits
        self.live: RunningDriver | None = None
        self.unread: list[RunningDriver] = []  # ended while no supervisor ran; read first
        self.past: list[PastRun] = []
        self.is_dirty = True  # processes of earlier runs may be left
        self.verdict: tuple[Decision, ...] = ()
        self._recorded: set[str] = set()  # kinds of events since the last run began or ended

    @property
    def name(self) -> str:
        return self.desired.pipeline

    @property
    def is_starting(self) -> bool:
        return self.live is not None and self.live.view.first_heartbeat_at is None

    @property
    def is_finished(self) -> bool:
        """It has read all its input and is not restarted."""
        if self.live is not None or not self.past:
            return False
        last = self.past[-1]
        is_current = last.spec.generation == self.desired.generation
        return is_current and last.exit.ending == Ending.FINISHED

    @property
    def is_reading(self) -> bool:
        """A run has ended, but its last events are not read yet, so no decision is possible."""
        return self.live.is_over if self.live is not None else bool(self.unread)

    def adopt(self, spec: RunSpec, found: Process, now: float) -> None:
        """Takes over a driver that outlived its supervisor."""
        self.live = RunningDriver.adopt(self.shared, spec, found, now, self.past)
        self.shared.history.record_run_start(spec, now)
        self._record("adopted", f"run {spec.run} continues (process {found.pid})", now)

    def observe(self, now: float) -> None:
        """Reads new events and detects the end. Bounded: a long file takes several ticks."""
        if self.unread and self.unread[0].read(now):
            self._conclude(self.unread.pop(0), now)
        if self.live is not None:
            is_read = self.live.read(now)
            if self.live.is_over and is_read:
                over, self.live = self.live, None
                self._conclude(over, now)

    def _conclude(self, over: RunningDriver, now: float) -> None:
        places, run, view = self.shared.places, over.spec.run, over.view
        at = (view.last_line_at or over.spec.at) if over.was_found_over else self.shared.wall()
        exit_ = run_folders.exit_of(places, run)
        if exit_ is None:
            code = process.code_of(over.process)
            exit_ = run_outcome.infer_exit(
                over.orders, at, code, places.log(run), had_queries=bool(view.queries)
            )
        exit_ = replace(exit_, asked=over.orders.drain_reason)
        ended_at = min(exit_.at, now) if over.was_found_over else now
        run_outcome.keep_series(places, run, view)
        text = f"{exit_.ending}: {judgement.cause(exit_)}"
        if over.was_found_over:
            self.shared.history.record_run_start(over.spec, now)
            text += ", while no supervisor was running"
        self.shared.history.record_run_end(run, exit_, now)
        self._record("run_ended", text, now, run)
        past = run_outcome.build_past_run(over.spec, exit_, view, ended_at)
        self._remember(past, ended_at if over.was_found_over else self.shared.wall())

    def _remember(self, past: PastRun, noticed_at: float) -> bool:
        """False if it could not be written, as on a full disk; it is then kept in memory only."""
        self.is_dirty = True
        self._recorded.clear()
        self.past.append(past)
        self.past.sort(key=lambda run: (run.spec.at, run.spec.run))
        run_folders.forget_secrets(self.shared.places, past.spec.run)
        try:
            run_folders.write_outcome(self.shared.places, past, noticed_at)
        except OSError as exc:
            about = {"pipeline": self.name}
            logger.error("the outcome of the run could not be written: %s", exc, extra=about)
            return False
        finally:
            self.prune()
        return True

    def prune(self) -> None:
        pruned = run_folders.prune(self.shared.places, [run.spec for run in self.past])
        self.past = [run for run in self.past if run.spec.run not in pruned]

    def situation(self, survivors: tuple[str, ...], is_going_down: bool) -> Situation:
        return Situation(
            desired=self.desired,
            live=self.live.snapshot() if self.live is not None else None,
            past=tuple(self.past),
            limits=self.limits,
            survivors=survivors,
            is_going_down=is_going_down,
        )

    def act(self, decisions: tuple[Decision, ...], now: float, may_launch: bool) -> None:
        self.verdict = decisions
        for decision in decisions:
            if isinstance(decision, RunDecision):
                self._act_on_live(decision, now)
                continue
            match decision:
                case Launch():
                    if may_launch:
                        self._launch(decision, now)
                case Reap(runs):
                    count = process.end_runs(runs, self.shared.places.state)
                    text = f"killed {count} remaining processes of {', '.join(runs)}"
                    self._record_once("reaped", text, now)
                case GiveUp(reason):
                    self._record_once("gave_up", f"needs attention: {reason}", now)
                case Wait(until, reason, attempt) if attempt is not None and self.past:
                    text = f"starts again in {times.span(until - now)}, attempt {attempt}"
                    self._record_once("restart_scheduled", f"{text}, because {reason}", now)
                case Hold("finished"):
                    self._record_once("finished", "all queries have read all their input", now)

    def _act_on_live(self, decision: RunDecision, now: float) -> None:
        live = self.live
        if live is None:
            return
        match decision:
            case Drain(reason):
                live.drain(reason, now)
                self._record("drain_started", reason, now)
            case Cut(reason):
                live.cut(now)
                self._record("cut", reason, now)
            case Kill(reason, by_watchdog):
                live.end_now(reason, by_watchdog, now)
                self._record("killed", reason, now)
            case DumpThreads(reason):
                self._record("stalled", f"{reason}; {live.dump_threads(now)}", now)

    def wants_cut(self) -> None:
        if self.live is not None and not self.live.orders.wants_cut:
            self.live.order(wants_cut=True)

    def _launch(self, decision: Launch, now: float) -> None:
        places = self.shared.places
        if any(pipeline_of(m.run) == self.name for m in process_identity.find_marked(places.state)):
            self.is_dirty = True
            return
        spec = run_folders.new_spec(self.desired, self.shared.project, places, self.shared.wall())
        gaps = restarts.gaps_left(self.desired, self.past, positions.are_behind)
        spec = replace(spec, attempt=decision.attempt, restarts=decision.restarts)
        spec = replace(spec, accepted_gaps=gaps)
        try:
            run_folders.write_spec(places, spec)
            started = process.spawn_driver(spec, places, self.shared.driver_command)
        except OSError as exc:
            self._could_not_start(spec, exc, now)
            return
        self._recorded.clear()
        self.live = RunningDriver(self.shared, spec, started, now, self.past)
        self.shared.history.record_run_start(spec, now)
        attempt = f", attempt {spec.attempt}" if spec.attempt > 1 else ""
        self._record("run_launched", f"version {spec.version}, process {started.pid}{attempt}", now)

    def _could_not_start(self, spec: RunSpec, exc: OSError, now: float) -> None:
        """Counts as a failed run: it is recorded, and retried after a delay."""
        at = self.shared.wall()
        exit_ = run_outcome.could_not_start(exc, at)
        self._record("run_ended", f"{exit_.ending}: {judgement.cause(exit_)}", now, spec.run)
        if not self._remember(PastRun(spec, exit_, ended_at=now), at):
            run_folders.remove(self.shared.places, spec.run)  # or each attempt would leave a folder

    def _record_once(self, kind: str, text: str, now: float) -> None:
        if kind not in self._recorded:
            self._recorded.add(kind)
            self._record(kind, text, now)

    def _record(self, kind: str, text: str, now: float, run: str | None = None) -> None:
        run = run or (self.live.spec.run if self.live else None)
        level = _LEVELS.get(kind, logging.INFO)
        logger.log(level, "%s: %s", kind, text, extra={"pipeline": self.name, "run": run})
        self.shared.history.event(self.shared.wall(), self.name, run, kind, text, now)


_WARNINGS = ("restart_scheduled", "killed", "reaped", "stalled")
_LEVELS = {"gave_up": logging.ERROR, **dict.fromkeys(_WARNINGS, logging.WARNING)}
