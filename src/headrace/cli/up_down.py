"""`up` and `down`: deploy and keep running under a detached supervisor; drain all and stop it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial

import click

from headrace.cli import output, pipeline_definitions, spinner, token
from headrace.cli.errors import in_words
from headrace.cli.options import Options, Seconds, pass_options, shared_options
from headrace.cli.run_session import ensure_supervisor
from headrace.errors import ControlError
from headrace.model.requests import Action
from headrace.model.runs import Process, Run
from headrace.model.status import WORKING, PipelineStatus, State
from headrace.process_identity import is_alive
from headrace.project import control, run_end_text, runs
from headrace.project import status as project_status
from headrace.project.workspace import Target, Workspace, targets
from headrace.state import definitions as deployed
from headrace.state import desired, requests, supervisor_lookup
from headrace.supervisor import process

POLL_S = 0.2
PAGE_S = 5.0  # the page starts together with the pipelines
_STARTED = (*WORKING, State.FINISHED)
_FAILED = (State.NEEDS_ATTENTION, State.WAITING, State.STOPPED)
_ARGUMENTS = "headrace.arguments"


class _WithArguments(click.Command):
    """Keeps what follows `--` for the script; click alone would mix it with the names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_ARGUMENTS] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=_WithArguments)
@click.argument("names", metavar="[NAME|FILE]... [-- ARGS]", nargs=-1)
@click.option("--foreground", is_flag=True, help="Run the supervisor in this process (systemd).")
@shared_options
@click.pass_context
def up(ctx: click.Context, names: tuple[str, ...], foreground: bool) -> None:
    """Deploy pipelines and keep them running.

    Deploys the working folder: the named pipelines, or all pipelines in the project. Starts the
    supervisor if none is running. Drains running pipelines whose version changes, and starts the
    new version. `headrace up script.py -- ARGS` keeps a script running.

    --foreground is for systemd and containers. Without names, it starts the versions that are
    already deployed, so restarting the service does not deploy new code. (If nothing has ever been
    deployed, it deploys the whole project.) To deploy, run `headrace up` in another terminal.
    """
    work = ctx.ensure_object(Options).open()
    begin = _up_in_foreground if foreground else _up
    raise click.exceptions.Exit(begin(work, names, ctx.meta[_ARGUMENTS]))


@click.command()
@click.option(
    "--timeout", type=Seconds(), default="5 minutes", show_default=True, help="How long to wait."
)
@pass_options
def down(options: Options, timeout: float) -> None:
    """Drain all pipelines and stop the supervisor.

    Headrace remembers which pipelines should run: `headrace up --foreground` starts the deployed
    versions again, and `headrace up` deploys the working folder.
    """
    raise click.exceptions.Exit(_down(options.open(), timeout))


def _up(work: Workspace, names: Sequence[str], args: tuple[str, ...]) -> int:
    goals = _prepare(work, names, args)
    if supervisor_lookup.running(work.places) is None:
        with spinner.show("starting the supervisor"):
            found = process.start_supervisor(work.project, work.profile)
        click.echo(f"supervisor started, pid {found.pid}")
    for goal, version in goals:
        control.ask(work, control.deployment(work, goal, version))
    worst = 0
    for goal, version in goals:
        status = _await_start(work, goal)
        worst = max(worst, _report_start(work, goal, version, status))
    if page := token.when_listening(work, PAGE_S):
        click.echo(f"page: {page}")
    click.echo("status: headrace status; stop all: headrace down")
    return worst


def _up_in_foreground(work: Workspace, names: Sequence[str], args: tuple[str, ...]) -> int:
    from headrace.supervisor import main as supervisor

    running = supervisor_lookup.running(work.places)
    if running is not None:
        raise ControlError(
            f"A supervisor is already running for {work.project}: process {running.pid}.",
            why="A project can have only one supervisor at a time.",
            where=str(work.places.supervisor_lock),
            fix="Run headrace down, then run this command again.",
            slug="supervisor-running",
        )
    if names or not desired.read_all(work.places):
        for goal, version in _prepare(work, names, args):
            requests.leave(work.places, control.deployment(work, goal, version))
    return supervisor.main([str(work.project), "--profile", work.profile])


def _prepare(
    work: Workspace, names: Sequence[str], args: tuple[str, ...]
) -> list[tuple[Target, str]]:
    """Copy and define the targets; return them with their versions. Raises before any deploy."""
    goals = targets(work, names, args)
    version = pipeline_definitions.snapshot(work)
    read = partial(deployed.read, work.places, version, work.profile)
    # Content that was checked before is not checked again: Spark would have to start for it.
    new = [goal for goal in goals if not goal.script and read(goal.pipeline) is None]
    if new:
        pipeline_definitions.define_version(work, version, new)
    output.print_warnings([found for goal in goals if (found := read(goal.pipeline))])
    return [
        (goal, pipeline_definitions.snapshot(work, goal.outside) if goal.outside else version)
        for goal in goals
    ]


def _await_start(work: Workspace, goal: Target) -> PipelineStatus | None:
    """Wait until it has started or failed, at most as long as its settings allow for both."""
    settings = work.settings.for_pipeline(goal.pipeline)
    drain = control.drain_limits(work, goal.pipeline)  # of the version that still runs
    limit = settings.watchdog.start_s + drain.timeout_s + drain.kill_s
    deadline = time.monotonic() + limit
    status = None
    with spinner.show(f"{goal.pipeline}: starting") as update:
        while time.monotonic() < deadline:
            status = project_status.status_of(work, goal.pipeline)
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


def _report_start(
    work: Workspace, goal: Target, version: str, status: PipelineStatus | None
) -> int:
    name = goal.pipeline
    if status is None or status.state == State.STARTING:
        why = status.why if status else "the supervisor has not reported anything yet"
        click.secho(f"{name}: deployed {version[:12]}, still starting: {why}", fg="yellow")
        return 0
    words = f"{name}: deployed {version[:12]}, {status.state}: {status.why}"
    if status.state in _STARTED:
        click.echo(words)
        return 0
    click.secho(words, fg="red", err=True)
    last = runs.last_ended(work.places, name)
    if last is not None and last.exit is not None:
        for problem in last.exit.all_problems:
            click.echo(in_words(problem), err=True)
    if status.state != State.NEEDS_ATTENTION:
        return 1
    return run_end_text.code_of(
        last.exit if last else None, needs_attention=True, script=goal.script
    )


def _down(work: Workspace, timeout_s: float) -> int:
    """Also drains drivers that lost their supervisor, and reports how each run ended."""
    live = _live_runs(work)
    if supervisor_lookup.running(work.places) is None:
        if not live:
            click.echo(f"Nothing to do: no supervisor or driver is running for {work.project}.")
            return 0
        names = ", ".join(run.spec.pipeline for run in live)
        click.echo(f"No supervisor is running, but these drivers are: {names}. Draining them.")
    with ensure_supervisor(work, only=None):
        return _drain_all(work, live, timeout_s)


def _drain_all(work: Workspace, live: Sequence[Run], timeout_s: float) -> int:
    supervisor = supervisor_lookup.running(work.places)
    asked = control.request(work, Action.DOWN)
    requests.leave(work.places, asked)
    try:
        return _await_down(work, supervisor, live, timeout_s)
    finally:
        if supervisor_lookup.running(work.places) is None:  # the next supervisor must not find it
            requests.withdraw(work.places, asked.id)


def _await_down(
    work: Workspace, supervisor: Process | None, live: Sequence[Run], timeout_s: float
) -> int:
    deadline = time.monotonic() + timeout_s
    names = ", ".join(run.spec.pipeline for run in live) or "the supervisor"
    with spinner.show(f"draining {names}"):
        while _live_runs(work) or _is_up(work, supervisor):
            if time.monotonic() > deadline:
                raise ControlError(
                    f"Some processes were still running after {timeout_s:g} s.",
                    where=str(work.places.supervisor_log),
                    fix="To see which ones, run headrace status. To wait longer, run headrace "
                    "down again.",
                    slug="down-timeout",
                )
            time.sleep(POLL_S)
    code = 0
    for run in live:
        ended = runs.read(work.places, run.name)
        click.echo(run_end_text.report(run.spec.pipeline, ended.exit if ended else None))
        code = max(code, run_end_text.stop_code(ended.exit if ended else None))
    click.echo(
        "The supervisor has stopped. To deploy the working folder and start again: headrace up"
    )
    return code


def _is_up(work: Workspace, supervisor: Process | None) -> bool:
    """A supervisor inside this process counts as ended once it has released its lock."""
    if supervisor_lookup.running(work.places) is not None:
        return True
    return supervisor is not None and supervisor.pid != os.getpid() and is_alive(supervisor)


def _live_runs(work: Workspace) -> list[Run]:
    """The newest run of each pipeline whose driver is alive, with or without a supervisor."""
    found = [runs.newest(work.places, item.pipeline) for item in desired.read_all(work.places)]
    return [run for run in found if run and runs.is_live(run)]
