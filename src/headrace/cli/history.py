"""Commands that read the past: `progress`, `logs`, `events`, `versions`."""

from __future__ import annotations

import click

from headrace.cli import output
from headrace.cli.options import Options, pass_options_and_json
from headrace.project import history


@click.command()
@click.argument("name", metavar="NAME")
@click.option("-n", "count", default=1, show_default=True, help="Number of batches per query.")
@pass_options_and_json
def progress(options: Options, name: str, count: int, json_: bool) -> None:
    """Show the progress of each query, as Spark reports it."""
    found = history.progress(options.open(), name, count)
    if json_:
        output.print_json({"progress": found})
    else:
        output.print_progress(found)


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "-f", "--follow", is_flag=True, help="Keep printing new lines, including those of new runs."
)
@click.option("-n", "lines", default=100, show_default=True, help="Number of lines.")
@click.option("--run", "run_", metavar="RUN", help="Show this run; the default is the latest.")
@pass_options_and_json
def logs(
    options: Options, name: str, follow: bool, lines: int, run_: str | None, json_: bool
) -> None:
    """Show the output of a pipeline's driver."""
    for line in history.log_lines(options.open(), name, run=run_, count=lines, follow=follow):
        output.print_line({"run": line.run, "line": line.text} if json_ else line.text)


@click.command()
@click.argument("name", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events.")
@click.option("-n", "count", default=50, show_default=True, help="Number of events.")
@click.option("--all", "all_", is_flag=True, help="Also show progress, idle and heartbeat events.")
@pass_options_and_json
def events(options: Options, name: str, follow: bool, count: int, all_: bool, json_: bool) -> None:
    """Show what happened: starts, stops and failures.

    --json prints one object per line.
    """
    for event in history.events(options.open(), name, count=count, every=all_, follow=follow):
        output.print_line(event.to_json() if json_ else event.in_words())


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@pass_options_and_json
def versions(options: Options, name: str | None, json_: bool) -> None:
    """List deployed versions.

    `headrace rollback` goes back to one of them.
    """
    found = history.versions(options.open(), name)
    if json_:
        output.print_json({"versions": found})
    else:
        output.print_versions(found)
