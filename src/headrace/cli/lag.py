"""`lag`: how far behind each query is in the topics that it reads."""

from __future__ import annotations

import click

from headrace.cli.options import Options, as_json, pass_options, shared


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--partitions", is_flag=True, help="Also each partition.")
@as_json
@shared
@pass_options
def lag(options: Options, name: str | None, partitions: bool, json_: bool) -> None:
    """How far behind queries are in Kafka, also while they are down.

    Records and seconds behind, when they will have caught up at this rate, and how long until the
    broker deletes what was not read. Looked up every 5 seconds while the supervisor runs.
    """
    import time

    from headrace.cli import tables
    from headrace.project.workspace import known_pipeline
    from headrace.state import lags

    work = options.open()
    wanted = known_pipeline(work, name) if name else None
    now = time.time()
    looks = [one.as_of(now) for one in lags.read(work.places).values()]
    found = [one for one in looks if wanted in (None, one.pipeline)]
    if json_:
        tables.print_json({"queries": [one.to_json() for one in found]})
    elif found:
        tables.print_lag(found, now, partitions=partitions)
    else:
        click.echo("Nothing that reads a broker has run yet, or no supervisor has run since.")


COMMANDS = (lag,)
