"""`run`: one pipeline in the foreground, with the running supervisor or one of its own.

There is no second way to run things: this deploys a version marked dev, leaves requests like any
other command, and prints what the run's files tell.
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
from headrace.cli import definitions, links
from headrace.cli.follow import Follower, say
from headrace.cli.signals import Interrupts
from headrace.errors import ControlError, Error, SetupError
from headrace.model.requests import Request, What
from headrace.model.runs import Exit
from headrace.model.status import PipelineStatus, State
from headrace.project import asking, endings, reading, runs
from headrace.project.workspace import Target, Workspace, target
from headrace.state import desired, supervisors
from headrace.supervisor.loop import Supervisor

POLL_S = 0.1
PAGE_S = 3.0
LOCK_S = 20.0
_OVER = (State.STOPPED, State.FINISHED, State.NEEDS_ATTENTION)


def run(
    work: Workspace, name: str, args: tuple[str, ...], interrupts: Interrupts, replaces: bool
) -> int:
    """`replaces`: also what a supervisor keeps running; it comes back at the end."""
    goal = target(work, name, args)
    if interrupts.came():
        return _nothing_started()
    version = definitions.snapshot(work, goal.outside)
    if interrupts.came():
        return _nothing_started()
    with supervised(work, only=goal.pipeline) as own:
        if interrupts.came():
            return _nothing_started()
        asked = replace(asking.deployment(work, goal, version, dev=True), replaces=replaces)
        asking.ask(work, asked)
        say(f"{goal.pipeline}: deployed {version[:12]} (dev), profile {work.profile}")
        if page := links.when_listening(work, PAGE_S):
            say(f"page: {page}")
        try:
            return _Session(work, goal, asked, own, interrupts).follow()
        finally:
            put_back(work, asked, own)


def put_back(work: Workspace, asked: Request, own: OwnSupervisor | None) -> None:
    """What this run has replaced, unless somebody has deployed since. Our own supervisor does it by
    itself as it ends, so that nothing is started only to be drained."""
    item = desired.read(work.places, asked.pipeline)
    if item is None or item.former is None or item.session != asked.id:
        return
    if own is not None:
        say(f"{asked.pipeline}: version {item.former['version']} is deployed again; headrace up")
        return
    try:
        request = asking.request(work, What.RESTORE, asked.pipeline)
        say(asking.ask(work, replace(request, session=asked.id)).text)
    except Error as exc:
        say(str(exc), colour="red")


def _nothing_started() -> int:
    say("stopped before anything was started")
    return 0


class OwnSupervisor(threading.Thread):
    """The supervisor's loop for the lifetime of this command; of one pipeline, or of all."""

    def __init__(self, work: Workspace, only: str | None) -> None:
        super().__init__(name="supervisor", daemon=True)
        self._work = work
        self._only = only
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            # Made and closed here: its connections to the store belong to this thread.
            supervisor = Supervisor(self._work.project, self._work.profile, only=self._only)
            try:
                supervisor.run(self.stop)
            finally:
                supervisor.close()
        except BaseException as exc:  # handed to the main thread, which raises it at the border
            self.error = exc


@contextmanager
def supervised(work: Workspace, only: str | None) -> Iterator[OwnSupervisor | None]:
    """With the supervisor that runs (None), or with one that ends with this block.

    `only`: what else should run stays as it is, and is neither started nor drained.
    """
    if supervisors.running(work.places) is not None:
        yield None
        return
    own = OwnSupervisor(work, only)
    with _logging_to(work.places.supervisor_log):
        own.start()
        try:
            _until_locked(work, own)
            yield own
        finally:
            own.stop.set()
            own.join(work.settings.drain.timeout_s + work.settings.drain.kill_s + 10)


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """The supervisor's log goes where it always goes; the terminal is for the driver's output."""
    root = logging.getLogger()
    before = list(root.handlers)
    with path.open("a", encoding="utf-8") as file:
        logs.configure(stream=file)
        try:
            yield
        finally:
            root.handlers[:] = before


def _until_locked(work: Workspace, own: OwnSupervisor) -> None:
    deadline = time.monotonic() + LOCK_S
    while supervisors.running(work.places) is None:
        check_alive(own)
        if time.monotonic() > deadline:
            raise SetupError(
                f"The supervisor did not start within {LOCK_S:.0f} s.",
                where=str(work.places.state),
                fix="look whether the state folder's disk is full or hangs",
                slug="supervisor-start",
            )
        time.sleep(0.02)


def check_alive(own: OwnSupervisor | None) -> None:
    if own is not None and own.error is not None:
        raise own.error
    if own is not None and not own.is_alive():
        raise ControlError("The supervisor of this run ended by itself.", slug="supervisor-ended")


@dataclass
class _Session:
    """One `run`, from the deploy to its report."""

    work: Workspace
    goal: Target
    asked: Request
    own: OwnSupervisor | None
    interrupts: Interrupts
    heard: int = 0  # interrupts that were acted on
    was_waiting: bool = False  # at the first one nothing ran: it was to start again later
    stop_by: float | None = None

    def follow(self) -> int:
        pipeline = self.goal.pipeline
        item = desired.read(self.work.places, pipeline)
        generation = item.generation if item else 1
        follower = Follower(self.work.places, pipeline, generation, secrets=self.work.secrets)
        while True:
            check_alive(self.own)
            self._obey(follower)
            follower.poll()
            status = reading.status_of(self.work, pipeline)
            if status is not None:
                follower.tell_state(status)
                if self._is_over(status, follower):
                    break
            if self.stop_by is not None and time.monotonic() > self.stop_by:
                raise ControlError(
                    f'"{pipeline}" was asked to stop and has not ended.',
                    where=str(self.work.places.supervisor_log),
                    fix=f"headrace status {pipeline}",
                    slug="stop-timeout",
                )
            time.sleep(POLL_S)
        follower.poll(last=True)
        return self._report(follower, status)

    def _obey(self, follower: Follower) -> None:
        """Once: drain. Twice: cut. The supervisor does both; this only asks."""
        if self.heard == self.interrupts.count or self.heard >= 2:
            return
        limits = asking.drain_limits(self.work, self.goal.pipeline)
        self.heard += 1
        if self.heard == 1:
            self.was_waiting = self._exit(follower) is not None
            words = f"draining: waits for the running batches, up to {limits.timeout_s:g} s; "
            words += "Ctrl-C again cuts"
            say("stopping: nothing runs now" if self.was_waiting else words, colour="yellow")
            self._ask(What.STOP)
            self.stop_by = time.monotonic() + limits.timeout_s + 2 * limits.kill_s + 30
        else:
            say("cutting: does not wait for the running batches", colour="yellow")
            self._ask(What.CUT)

    def _ask(self, what: What) -> None:
        try:
            request = asking.request(self.work, what, self.goal.pipeline)
            asking.ask(self.work, replace(request, session=self.asked.id), 10.0)
        except Error as exc:
            say(str(exc), colour="red")

    def _is_over(self, status: PipelineStatus, follower: Follower) -> bool:
        """Only what is said of this deployment counts, never what was left by an earlier run."""
        if status.state not in _OVER:
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
            return _nothing_started()
        say(endings.report(self.goal.pipeline, ended), colour="red" if attention else "green")
        if attention:
            say(f"needs attention: {status.why}", colour="red")
            say(f"more: headrace why {self.goal.pipeline}")
        elif self.was_waiting:
            say("stopped while it waited to start again; its checkpoint is as that run left it")
        return endings.code_of(ended, needs_attention=attention, script=self.goal.script)

    def _exit(self, follower: Follower) -> Exit | None:
        found = runs.read(self.work.places, follower.current) if follower.current else None
        return found.exit if found else None
