"""`up` and `down`: deploy and keep running under a detached supervisor; drain all and end it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click

from headrace.cli import definitions, links, spinner, tables
from headrace.cli.errors import in_words
from headrace.cli.foreground import supervised
from headrace.errors import ControlError
from headrace.model.requests import What
from headrace.model.runs import Process
from headrace.model.status import WORKING, PipelineStatus, State
from headrace.processes import is_alive
from headrace.project import asking, endings, reading, runs
from headrace.project import definitions as deployed
from headrace.project.workspace import Target, Workspace, targets
from headrace.state import desired, requests, supervisors
from headrace.supervisor import process

POLL_S = 0.2
PAGE_S = 5.0  # the pipelines have started by now, and the page with them
_STARTED = (*WORKING, State.FINISHED)
_FAILED = (State.NEEDS_ATTENTION, State.WAITING, State.STOPPED)


def up(work: Workspace, names: Sequence[str], args: tuple[str, ...]) -> int:
    goals = _prepare(work, names, args)
    if supervisors.running(work.places) is None:
        with spinner.shown("starting the supervisor"):
            found = process.start_supervisor(work.project, work.profile)
        click.echo(f"supervisor started, pid {found.pid}")
    for goal, version in goals:
        asking.ask(work, asking.deployment(work, goal, version))
    worst = 0
    for goal, version in goals:
        status = _await_start(work, goal)
        worst = max(worst, _tell_start(work, goal, version, status))
    if page := links.when_listening(work, PAGE_S):
        click.echo(f"page: {page}")
    click.echo("look: headrace status; stop all: headrace down")
    return worst


def up_in_foreground(work: Workspace, names: Sequence[str], args: tuple[str, ...]) -> int:
    """The supervisor in this process, for systemd and containers.

    Without names it brings back what should run and deploys nothing, so that a restart of the
    service is no deploy; only a project where nothing was ever deployed is deployed whole.
    """
    from headrace.supervisor import main as supervisor

    running = supervisors.running(work.places)
    if running is not None:
        raise ControlError(
            f"A supervisor already runs for {work.project}: process {running.pid}.",
            why="There is one per project, held by a lock.",
            where=str(work.places.supervisor_lock),
            fix="headrace down, then the same again",
            slug="supervisor-running",
        )
    if names or not desired.listed(work.places):
        for goal, version in _prepare(work, names, args):
            requests.leave(work.places, asking.deployment(work, goal, version))
    return supervisor.main([str(work.project), "--profile", work.profile])


def _prepare(
    work: Workspace, names: Sequence[str], args: tuple[str, ...]
) -> list[tuple[Target, str]]:
    """Targets with their versions: copied and defined. Raises before anything is deployed."""
    goals = targets(work, names, args)
    version = definitions.snapshot(work)
    new = [goal for goal in goals if not goal.script and not _is_defined(work, version, goal)]
    if new:
        definitions.define_version(work, version, new)
    known = [deployed.stored(work, version, work.profile, goal.pipeline) for goal in goals]
    tables.print_warnings([definition for definition in known if definition])
    elsewhere = [goal for goal in goals if goal.outside]
    own = {goal: definitions.snapshot(work, goal.outside) for goal in elsewhere}
    return [(goal, own.get(goal, version)) for goal in goals]


def _is_defined(work: Workspace, version: str, goal: Target) -> bool:
    """The same content was checked before: no need to start Spark for it again."""
    return deployed.stored(work, version, work.profile, goal.pipeline) is not None


def _await_start(work: Workspace, goal: Target) -> PipelineStatus | None:
    """Until it has started, or failed to; bounded by the limits it has for both."""
    settings = work.settings.for_pipeline(goal.pipeline)
    drain = asking.drain_limits(work, goal.pipeline)  # of what runs and is to give way
    limit = settings.watchdog.start_s + drain.timeout_s + drain.kill_s
    deadline = time.monotonic() + limit
    status = None
    with spinner.shown(f"{goal.pipeline}: starting") as update:
        while time.monotonic() < deadline:
            status = reading.status_of(work, goal.pipeline)
            if status is not None and _is_of_this_deploy(work, status):
                if status.state in _STARTED or status.state in _FAILED:
                    return status
                update(f"{goal.pipeline}: {status.state}, {status.why}")
            time.sleep(POLL_S)
    return status


def _is_of_this_deploy(work: Workspace, status: PipelineStatus) -> bool:
    item = desired.read(work.places, status.name)
    run = runs.read(work.places, status.run) if status.run else None
    return item is not None and run is not None and run.spec.generation == item.generation


def _tell_start(work: Workspace, goal: Target, version: str, status: PipelineStatus | None) -> int:
    name = goal.pipeline
    if status is None or status.state == State.STARTING:
        words = status.why if status else "the supervisor has not said anything"
        click.secho(f"{name}: deployed {version[:12]}, still starting: {words}", fg="yellow")
        return 0
    if status.state in _STARTED:
        click.echo(f"{name}: deployed {version[:12]}, {status.state}: {status.why}")
        return 0
    click.secho(
        f"{name}: deployed {version[:12]}, {status.state}: {status.why}", fg="red", err=True
    )
    last = runs.last_ended(work.places, name)
    if last is not None and last.exit is not None:
        for problem in last.exit.problems or ([last.exit.error] if last.exit.error else []):
            click.echo(in_words(problem), err=True)
    if status.state != State.NEEDS_ATTENTION:
        return 1
    return endings.code_of(last.exit if last else None, needs_attention=True, script=goal.script)


def down(work: Workspace, timeout_s: float) -> int:
    """Drains everything, also drivers that lost their supervisor, and says how each ended."""
    live = _living(work)
    if supervisors.running(work.places) is None:
        if not live:
            click.echo(
                f"No supervisor runs for {work.project}, and nothing else does; nothing to do."
            )
            return 0
        names = ", ".join(run.spec.pipeline for run in live)
        click.echo(f"No supervisor runs, but drivers do: {names}. They are adopted and drained.")
        with supervised(work, only=None):
            return _down(work, live, timeout_s)
    return _down(work, live, timeout_s)


def _down(work: Workspace, live: Sequence[runs.Run], timeout_s: float) -> int:
    supervisor = supervisors.running(work.places)
    asked = asking.request(work, What.DOWN)
    requests.leave(work.places, asked)
    try:
        return _await_down(work, supervisor, live, timeout_s)
    finally:
        if supervisors.running(work.places) is None:  # the next one must not find it
            requests.withdraw(work.places, asked.id)


def _await_down(
    work: Workspace, supervisor: Process | None, live: Sequence[runs.Run], timeout_s: float
) -> int:
    deadline = time.monotonic() + timeout_s
    names = ", ".join(run.spec.pipeline for run in live) or "the supervisor"
    with spinner.shown(f"draining {names}"):
        while _living(work) or _is_up(work, supervisor):
            if time.monotonic() > deadline:
                raise ControlError(
                    f"Not everything had ended after {timeout_s:g} s.",
                    where=str(work.places.supervisor_log),
                    fix="headrace status shows what still runs; headrace down waits again",
                    slug="down-timeout",
                )
            time.sleep(POLL_S)
    code = 0
    for run in live:
        ended = runs.read(work.places, run.name)
        click.echo(endings.report(run.spec.pipeline, ended.exit if ended else None))
        code = max(code, endings.stop_code(ended.exit if ended else None))
    click.echo("The supervisor has ended; headrace up brings the same back.")
    return code


def _is_up(work: Workspace, supervisor: Process | None) -> bool:
    """Its process lives, also after it has said goodbye; one inside this process only says it."""
    if supervisors.running(work.places) is not None:
        return True
    return supervisor is not None and supervisor.pid != os.getpid() and is_alive(supervisor)


def _living(work: Workspace) -> list[runs.Run]:
    """The newest run of each pipeline whose driver lives, with or without a supervisor."""
    found = [runs.newest(work.places, item.pipeline) for item in desired.listed(work.places)]
    return [run for run in found if run and runs.is_live(run)]
