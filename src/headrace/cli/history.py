"""Commands that read what was: `progress`, `logs`, `events`, `versions`. See records."""

from __future__ import annotations

import click

from headrace.cli.options import Options, as_json, pass_options, shared


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "-n", "count", default=1, show_default=True, help="How many of the newest of each query."
)
@as_json
@shared
@pass_options
def progress(options: Options, name: str, count: int, json_: bool) -> None:
    """Spark's own progress of each query."""
    from headrace.cli import tables
    from headrace.project import records

    found = records.progress(options.open(), name, count)
    if json_:
        tables.print_json({"progress": found})
    else:
        tables.print_progress(found)


@click.command()
@click.argument("name", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Stay and print new lines, also of new runs.")
@click.option("-n", "lines", default=100, show_default=True, help="How many of the last lines.")
@click.option("--run", "run_", metavar="RUN", help="Of this run; by default the newest.")
@as_json
@shared
@pass_options
def logs(
    options: Options, name: str, follow: bool, lines: int, run_: str | None, json_: bool
) -> None:
    """The output of a pipeline's driver."""
    from headrace.cli import tables
    from headrace.project import records

    for line in records.log_lines(options.open(), name, run=run_, count=lines, follow=follow):
        tables.print_line({"run": line.run, "line": line.text} if json_ else line.text)


@click.command()
@click.argument("name", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Stay and print new events.")
@click.option("-n", "count", default=50, show_default=True, help="How many of the last events.")
@click.option("--all", "all_", is_flag=True, help="Also progress, idle and heartbeat events.")
@as_json
@shared
@pass_options
def events(options: Options, name: str, follow: bool, count: int, all_: bool, json_: bool) -> None:
    """What happened: starts, ends, failures.

    With --json one object a line.
    """
    from headrace.cli import tables
    from headrace.project import records

    for event in records.events(options.open(), name, count=count, every=all_, follow=follow):
        tables.print_line(event.to_json() if json_ else event.in_words())


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@as_json
@shared
@pass_options
def versions(options: Options, name: str | None, json_: bool) -> None:
    """Deployed versions; `rollback` goes back to one."""
    from headrace.cli import tables
    from headrace.project import records

    found = records.versions(options.open(), name)
    if json_:
        tables.print_json({"versions": found})
    else:
        tables.print_versions(found)


COMMANDS = (progress, logs, events, versions)
