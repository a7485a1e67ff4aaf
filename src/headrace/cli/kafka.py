"""`kafka`: a real broker to develop with."""

from __future__ import annotations

import click

from headrace.cli.options import Options, as_json, pass_options, shared


@click.group()
def kafka() -> None:
    """A real Kafka broker for development, on this machine only."""


@kafka.command()
@click.option("--port", type=click.IntRange(1, 65535), help="By default 9092 or the next free one.")
@as_json
@shared
@pass_options
def up(options: Options, port: int | None, json_: bool) -> None:
    """Start it; its data stays in .headrace/kafka."""
    from headrace.cli import broker, spinner, tables

    work = options.open()
    with spinner.shown("the broker starts", quiet=json_):
        found = broker.up(work.places, port)
    if json_:
        tables.print_json({"servers": found.servers, "pid": found.process.pid})
    else:
        click.echo(f"Kafka listens: {found.servers} (process {found.process.pid})")


@kafka.command()
@click.option("--delete", is_flag=True, help="Also delete all its topics.")
@as_json
@shared
@pass_options
def down(options: Options, delete: bool, json_: bool) -> None:
    """End it."""
    from headrace.cli import broker, tables

    work = options.open()
    was_up = broker.down(work.places)
    if delete:
        broker.delete(work.places)
    words = ("Kafka has ended" if was_up else "Kafka did not run") + (
        "; its data is deleted" if delete else ""
    )
    if json_:
        tables.print_json({"ended": was_up, "deleted": delete})
    else:
        click.echo(words)


COMMANDS = (kafka,)
