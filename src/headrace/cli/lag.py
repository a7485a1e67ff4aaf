"""`lag`: how far behind each query is in the topics that it reads."""

from __future__ import annotations

import time

import click

from headrace.cli import tables
from headrace.cli.options import Options, pass_options_and_json
from headrace.project.workspace import resolve_pipeline
from headrace.state import lag as state_lag


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--partitions", is_flag=True, help="Also show each partition.")
@pass_options_and_json
def lag(options: Options, name: str | None, partitions: bool, json_: bool) -> None:
    """Show how far queries are behind in Kafka.

    Also for queries that do not run. Shows records and seconds behind, the time to catch up at the
    current rate, and the time until the broker deletes unread records. Updated every 5 seconds
    while the supervisor runs.
    """
    work = options.open()
    wanted = resolve_pipeline(work, name) if name else None
    now = time.time()
    measured = [lag.as_of(now) for lag in state_lag.read(work.places).values()]
    found = [lag for lag in measured if wanted in (None, lag.pipeline)]
    if json_:
        tables.print_json({"queries": [lag.to_json() for lag in found]})
    elif found:
        tables.print_lag(found, now, partitions=partitions)
    else:
        click.echo("No lag known: no query that reads a broker has run under a supervisor yet.")
