"""`status`: what runs, its state, and why. The tables are in tables.py."""

from __future__ import annotations

import click

from headrace.cli import tables
from headrace.cli.options import Options, pass_options_and_json
from headrace.project import status as project_status


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-w", "--watch", is_flag=True, help="Show changes until Ctrl-C.")
@pass_options_and_json
def status(options: Options, names: tuple[str, ...], watch: bool, json_: bool) -> None:
    """Show what runs, its state, and why."""
    work = options.open()
    if watch:
        tables.watch(lambda: project_status.overview(work, names), json_=json_)
        return
    seen = project_status.overview(work, names)
    if json_:
        tables.print_json(seen.to_json())
    else:
        tables.print_overview(seen)
