"""Commands that change what should run: `start`, `stop`, `restart`, `rollback`.

They never deploy, and need a running supervisor.
"""

from __future__ import annotations

import click

from headrace.cli import spinner
from headrace.cli.options import Options, pass_options
from headrace.errors import ControlError
from headrace.model.gaps import Gap
from headrace.model.requests import Action
from headrace.model.runs import Ending
from headrace.project import control, gaps, run_end_text, runs
from headrace.project.workspace import Workspace, resolve_pipeline


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--accept-gap",
    is_flag=True,
    help="Skip the records that the broker has deleted, for this start only.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_options
def start(options: Options, name: str, accept_gap: bool, yes: bool) -> None:
    """Start the deployed version of a pipeline.

    --accept-gap lists the records that were deleted before they were read, and asks for
    confirmation; the audit log records your answer.
    """
    work = options.open()
    accepted = _confirm_gaps(work, name, yes=yes) if accept_gap else None
    click.echo(control.start(work, name, gaps=accepted))


def _confirm_gaps(work: Workspace, name: str, *, yes: bool) -> list[Gap]:
    """The missing records, once the user has agreed to continue without them."""
    found = gaps.find(work, resolve_pipeline(work, name))
    gaps.refuse_missing(found)
    lines = ["deleted before they were read:", *(f"  {gap.in_words()}" for gap in found)]
    click.echo("\n".join(lines) if found else "No records are missing now.")
    if not yes:
        click.confirm("Continue without them?" if found else "Start anyway?", abort=True)
    return found


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--cut", is_flag=True, help="Do not wait for a batch boundary.")
@pass_options
def stop(options: Options, name: str, cut: bool) -> None:
    """Stop a pipeline at a batch boundary.

    Reports each query's last batch, and whether the query was cut at the deadline (exit code 1).
    """
    text, code = _stop(options.open(), name, cut=cut)
    click.echo(text)
    raise click.exceptions.Exit(code)


def _stop(work: Workspace, name: str, *, cut: bool) -> tuple[str, int]:
    """Request the stop, wait for the end of the run, and return a text and an exit code."""
    control.require_supervisor(work)
    pipeline = resolve_pipeline(work, name)
    before = runs.newest(work.places, pipeline)
    was_open = before is not None and runs.is_open(before)
    reply = control.ask(work, control.request(work, Action.CUT if cut else Action.STOP, pipeline))
    if before is None or not was_open:
        return reply.text or f"{pipeline} is stopped; it was not running.", 0
    limits = control.drain_limits(work, pipeline)
    waits = f"waiting for the running batches, up to {limits.timeout_s:g} s"
    with spinner.show(f"{pipeline}: {waits}"):
        ended = control.await_end(work, before, limits.timeout_s + 2 * limits.kill_s + 10)
    if ended is None:
        raise ControlError(
            f'"{pipeline}" was asked to stop but is still running.',
            where=str(work.places.log(before.name)),
            fix=f"Check its state: headrace status {pipeline}. To stop it without waiting: "
            f"headrace stop {pipeline} --cut",
            slug="stop-timeout",
        )
    is_requested_cut = cut and ended.ending == Ending.CUT
    return run_end_text.report(pipeline, ended), 0 if is_requested_cut else run_end_text.stop_code(
        ended
    )


@click.command()
@click.argument("name", metavar="NAME")
@pass_options
def restart(options: Options, name: str) -> None:
    """Drain a pipeline and start it again."""
    click.echo(control.start(options.open(), name, Action.RESTART))


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("version", metavar="[VERSION]", required=False)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_options
def rollback(options: Options, name: str, version: str | None, yes: bool) -> None:
    """Go back to an earlier version.

    The default is the previous version. VERSION may be abbreviated to its first characters.

    Shows what will change and asks for confirmation. Checkpoints do not change.
    """
    work = options.open()
    plan = control.plan_rollback(work, name, version)
    click.echo(plan.in_words())
    if not yes:
        click.confirm("Roll back?", abort=True)
    click.echo(control.rollback(work, plan))
