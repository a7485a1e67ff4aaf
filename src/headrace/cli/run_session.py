"""`run`: one pipeline in the foreground, under the running supervisor or one in this process.

It uses the same path as `up`: it deploys a version marked dev, sends requests to the supervisor,
and prints what the files of the run say.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace import logs
from headrace.cli import pipeline_definitions, token
from headrace.cli.follow import Follower, say
from headrace.cli.signals import Interrupts
from headrace.errors import ControlError, Error, SetupError
from headrace.model.requests import Action, Request
from headrace.model.runs import Exit
from headrace.model.status import OVER, PipelineStatus, State
from headrace.project import control, run_end_text, runs
from headrace.project import status as project_status
from headrace.project.workspace import Target, Workspace, target
from headrace.state import desired, supervisor_lookup
from headrace.supervisor.loop import Supervisor

POLL_S = 0.1
PAGE_S = 3.0
LOCK_S = 20.0


def run(
    work: Workspace, name: str, args: tuple[str, ...], interrupts: Interrupts, replaces: bool
) -> int:
    """`replaces`: allows a pipeline that the supervisor already runs; it is restored at the end."""
    goal = target(work, name, args)
    if interrupts.is_set():
        return _report_nothing_started()
    version = pipeline_definitions.snapshot(work, goal.outside)
    if interrupts.is_set():
        return _report_nothing_started()
    with ensure_supervisor(work, only=goal.pipeline) as own:
        if interrupts.is_set():
            return _report_nothing_started()
        with deploy(work, goal, version, own, replaces=replaces) as asked:
            say(f"{goal.pipeline}: deployed {version[:12]} (dev), profile {work.profile}")
            if page := token.when_listening(work, PAGE_S):
                say(f"page: {page}")
            return _ForegroundRun(work, goal, asked, own, interrupts).follow()


@contextmanager
def deploy(
    work: Workspace, goal: Target, version: str, own: OwnSupervisor | None, *, replaces: bool
) -> Iterator[Request]:
    """Deploy a dev version, and restore the previous one at the end."""
    asked = replace(control.deployment(work, goal, version, dev=True), replaces=replaces)
    control.ask(work, asked)
    try:
        yield asked
    finally:
        _restore_previous(work, asked, own)


def _restore_previous(work: Workspace, asked: Request, own: OwnSupervisor | None) -> None:
    """Restore the version that this run replaced, unless another one was deployed since.

    A supervisor in this process does it when it ends, so nothing is started only to be drained."""
    item = desired.read(work.places, asked.pipeline)
    if item is None or item.former is None or item.session != asked.id:
        return
    if own is not None:
        say(
            f"{asked.pipeline}: restored version {item.former['version']}; "
            "to start it: headrace up --foreground"
        )
        return
    try:
        request = control.request(work, Action.RESTORE, asked.pipeline)
        say(control.ask(work, replace(request, session=asked.id)).text)
    except Error as exc:
        say(str(exc), colour="red")


def _report_nothing_started() -> int:
    say("stopped before anything had started")
    return 0


class OwnSupervisor(threading.Thread):
    """A supervisor that lives as long as this command, for one pipeline or for all."""

    def __init__(self, work: Workspace, only: str | None) -> None:
        super().__init__(name="supervisor", daemon=True)
        self._work = work
        self._only = only
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            # Created and closed here: SQLite connections belong to one thread.
            supervisor = Supervisor(self._work.project, self._work.profile, only=self._only)
            try:
                supervisor.run(self.stop)
            finally:
                supervisor.close()
        except BaseException as exc:  # the main thread raises it
            self.error = exc


@contextmanager
def ensure_supervisor(work: Workspace, only: str | None) -> Iterator[OwnSupervisor | None]:
    """Yield None if a supervisor runs, else a new one that ends with this block.

    `only`: other pipelines are neither started nor drained.
    """
    if supervisor_lookup.running(work.places) is not None:
        yield None
        return
    own = OwnSupervisor(work, only)
    with _logging_to(work.places.supervisor_log):
        own.start()
        try:
            _wait_until_locked(work, own)
            yield own
        finally:
            own.stop.set()
            own.join(work.settings.drain.timeout_s + work.settings.drain.kill_s + 10)


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Log to the supervisor's usual file; the terminal shows the driver's output."""
    root = logging.getLogger()
    before = list(root.handlers)
    with path.open("a", encoding="utf-8") as file:
        logs.configure(stream=file)
        try:
            yield
        finally:
            root.handlers[:] = before


def _wait_until_locked(work: Workspace, own: OwnSupervisor) -> None:
    deadline = time.monotonic() + LOCK_S
    while supervisor_lookup.running(work.places) is None:
        check_alive(own)
        if time.monotonic() > deadline:
            raise SetupError(
                f"The supervisor did not start within {LOCK_S:.0f} s.",
                where=str(work.places.state),
                fix="Check whether the disk that holds the state folder is full or not responding.",
                slug="supervisor-start",
            )
        time.sleep(0.02)


def check_alive(own: OwnSupervisor | None) -> None:
    if own is not None and own.error is not None:
        raise own.error
    if own is not None and not own.is_alive():
        raise ControlError(
            "This run's supervisor exited unexpectedly.",
            fix="Run the command again.",
            slug="supervisor-ended",
        )


@dataclass
class _ForegroundRun:
    """One `run`, from the deployment to the final report."""

    work: Workspace
    goal: Target
    asked: Request
    own: OwnSupervisor | None
    interrupts: Interrupts
    heard: int = 0  # interrupts handled so far
    was_waiting: bool = False  # the first interrupt came between two attempts
    stop_by: float | None = None

    def follow(self) -> int:
        pipeline = self.goal.pipeline
        item = desired.read(self.work.places, pipeline)
        generation = item.generation if item else 1
        follower = Follower(self.work, pipeline, generation)
        while True:
            check_alive(self.own)
            self._handle_interrupts(follower)
            follower.poll()
            status = project_status.status_of(self.work, pipeline)
            if status is not None:
                follower.print_state(status)
                if self._is_over(status, follower):
                    break
            if self.stop_by is not None and time.monotonic() > self.stop_by:
                raise ControlError(
                    f'"{pipeline}" was asked to stop but is still running.',
                    where=str(self.work.places.supervisor_log),
                    fix=f"headrace status {pipeline}",
                    slug="stop-timeout",
                )
            time.sleep(POLL_S)
        follower.poll(last=True)
        return self._report(follower, status)

    def _handle_interrupts(self, follower: Follower) -> None:
        """Ask the supervisor to drain on the first interrupt, to cut on the second."""
        if self.heard == self.interrupts.count or self.heard >= 2:
            return
        limits = control.drain_limits(self.work, self.goal.pipeline)
        self.heard += 1
        if self.heard == 1:
            self.was_waiting = self._exit(follower) is not None
            text = f"draining: waiting for the running batches, up to {limits.timeout_s:g} s; "
            text += "press Ctrl-C again to stop at once"
            say("stopping: nothing is running" if self.was_waiting else text, colour="yellow")
            self._ask(Action.STOP)
            self.stop_by = time.monotonic() + limits.timeout_s + 2 * limits.kill_s + 30
        else:
            say("cutting: not waiting for the running batches", colour="yellow")
            self._ask(Action.CUT)

    def _ask(self, what: Action) -> None:
        try:
            request = control.request(self.work, what, self.goal.pipeline)
            control.ask(self.work, replace(request, session=self.asked.id), 10.0)
        except Error as exc:
            say(str(exc), colour="red")

    def _is_over(self, status: PipelineStatus, follower: Follower) -> bool:
        """Ignores the state of earlier deployments."""
        if status.state not in OVER:
            return False
        newest = follower.current
        if newest is None:
            return self.heard > 0 and status.state == State.STOPPED
        found = runs.read(self.work.places, newest)
        has_ended = found is None or found.exit is not None or status.pid is None
        return has_ended and status.run in (None, newest)

    def _report(self, follower: Follower, status: PipelineStatus) -> int:
        ended = self._exit(follower)
        attention = status.state == State.NEEDS_ATTENTION
        if ended is None and self.heard:
            return _report_nothing_started()
        say(run_end_text.report(self.goal.pipeline, ended), colour="red" if attention else "green")
        if attention:
            say(f"needs attention: {status.why}", colour="red")
            say(f"details: headrace why {self.goal.pipeline}")
        elif self.was_waiting:
            say("stopped while waiting for the next attempt; the checkpoint is unchanged")
        return run_end_text.code_of(ended, needs_attention=attention, script=self.goal.script)

    def _exit(self, follower: Follower) -> Exit | None:
        found = runs.read(self.work.places, follower.current) if follower.current else None
        return found.exit if found else None
