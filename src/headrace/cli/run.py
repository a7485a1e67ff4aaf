"""`run`: one pipeline or script in the foreground. The implementation is in foreground.py.

Imports little: signals have to be handled before Python imports the rest, which takes a second.
"""

from __future__ import annotations

import click

from headrace.cli.options import Options, pass_options
from headrace.cli.signals import Interrupts


@click.command()
@click.argument("name", metavar="NAME|FILE")
@click.argument("args", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--replace", is_flag=True, help="Drain the deployed version first; start it again afterwards."
)
@pass_options
def run(options: Options, name: str, args: tuple[str, ...], replace: bool) -> None:
    """Run one pipeline or script here; Ctrl-C drains.

    Deploys the working folder as a version marked dev. Restarts within this run use that copy.
    Refuses a pipeline that the supervisor keeps running, unless --replace is given; its version,
    profile and state are then restored when this run ends.
    A file without Headrace definitions is a script: it runs unchanged, with ARGS as its arguments.
    """
    with Interrupts() as interrupts:
        from headrace.cli import foreground

        work = options.open()
        raise click.exceptions.Exit(foreground.run(work, name, args, interrupts, replace))
