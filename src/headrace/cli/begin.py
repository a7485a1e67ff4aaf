"""Commands to begin with: `init`, `check`, `run`. See scaffold, definitions, foreground."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.options import Options, as_json, pass_options, shared


@click.command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(file_okay=False))
@shared
@pass_options
def init(options: Options, directory: str) -> None:
    """Write a small project that runs.

    It has settings, one pipeline and sample input.

    Files that exist are never overwritten: if one would be, nothing is written.
    """
    from headrace.cli import scaffold

    folder = Path(options.project or ".") / directory
    for path in scaffold.write(folder):
        click.echo(f"  wrote {path}")
    click.echo(scaffold.next_steps(folder))


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--connect", is_flag=True, help="Also connect to every broker that they name.")
@as_json
@shared
@pass_options
def check(options: Options, names: tuple[str, ...], connect: bool, json_: bool) -> None:
    """Find every problem without starting a query.

    NAME is a pipeline or the path of its file; all pipelines of the project by default.
    """
    from headrace.cli import connecting, definitions, tables

    work = options.open()
    found = definitions.define(work, names, quiet=json_)
    reached = connecting.reached(work.settings, found) if connect else []
    if json_:
        body = {"pipelines": [definition.to_json() for definition in found]}
        tables.print_json({**body, "connected": reached} if connect else body)
        return
    tables.print_definitions(found)
    for one in reached:
        click.echo(f"  {one['name']}  {one['kind']} {one['found']}")
    if connect and not reached:
        click.echo("Nothing to connect to: every source and sink is on this machine.")


@click.command()
@click.argument("name", metavar="NAME|FILE")
@click.argument("args", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--replace", is_flag=True, help="Drain it if it is kept running; put it back after.")
@shared
@pass_options
def run(options: Options, name: str, args: tuple[str, ...], replace: bool) -> None:
    """Run one pipeline or script here; Ctrl-C drains.

    The working tree is deployed as a version marked dev. Restarts inside this run use that copy.
    A pipeline that the supervisor keeps running is refused without --replace; with it, its version,
    profile and state come back when this run ends.
    A file without Headrace definitions is a script: it runs unchanged, with ARGS as its arguments.
    """
    from headrace.cli.signals import Interrupts

    with Interrupts() as interrupts:  # before the imports below: they take a second or more
        from headrace.cli import foreground

        work = options.open()
        raise click.exceptions.Exit(foreground.run(work, name, args, interrupts, replace))


COMMANDS = (init, check, run)
