"""Commands that change what should run: `start`, `stop`, `restart`, `rollback`. See asking.

They never deploy, and need a running supervisor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.options import Options, pass_options, shared

if TYPE_CHECKING:
    from headrace.model.gaps import Gap
    from headrace.project.workspace import Workspace


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--accept-gap", is_flag=True, help="Go on without records that are gone, this once.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared
@pass_options
def start(options: Options, name: str, accept_gap: bool, yes: bool) -> None:
    """Run the deployed version of a pipeline.

    --accept-gap shows which records are gone before they were read, and asks; the audit keeps it.
    """
    from headrace.project import asking

    work = options.open()
    click.echo(asking.start(work, name, _accepted(work, name, yes=yes) if accept_gap else None))


def _accepted(work: Workspace, name: str, *, yes: bool) -> list[Gap]:
    """What is gone, once the person has agreed to go on without it."""
    from headrace.project import gaps
    from headrace.project.workspace import known_pipeline

    found = gaps.of_pipeline(work, known_pipeline(work, name))
    gaps.refuse_missing(found)
    lines = ["gone before they were read:", *(f"  {gap.in_words()}" for gap in found)]
    click.echo("\n".join(lines) if found else "No records are missing now.")
    if not yes:
        click.confirm("Go on without them?" if found else "Start all the same?", abort=True)
    return found


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--cut", is_flag=True, help="Do not wait for a batch boundary.")
@shared
@pass_options
def stop(options: Options, name: str, cut: bool) -> None:
    """Stop a pipeline at a batch boundary.

    Says at which batch, and whether it had to be cut at its deadline (code 1).
    """
    from headrace.cli import stopping

    words, code = stopping.stop(options.open(), name, cut=cut)
    click.echo(words)
    raise click.exceptions.Exit(code)


@click.command()
@click.argument("name", metavar="NAME")
@shared
@pass_options
def restart(options: Options, name: str) -> None:
    """Drain a pipeline and start it again."""
    from headrace.project import asking

    click.echo(asking.restart(options.open(), name))


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("version", metavar="[VERSION]", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@shared
@pass_options
def rollback(options: Options, name: str, version: str | None, yes: bool) -> None:
    """Go back to an earlier version.

    To the one before, or to VERSION (its first characters are enough).

    Shows what it will do and asks. Checkpoints stay as they are.
    """
    from headrace.project import asking

    work = options.open()
    plan = asking.plan_rollback(work, name, version)
    click.echo(plan.in_words())
    if not yes:
        click.confirm("Go back?", abort=True)
    click.echo(asking.rollback(work, plan))


COMMANDS = (start, stop, restart, rollback)
