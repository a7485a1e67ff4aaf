"""`demo`: a living application in one command. Its work is in demo_session and in the room demo."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.options import Options, Seconds, as_json, pass_options, shared

RATE = 300  # lines a second: two cores keep up with it and have room left


@click.command()
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The demo's folder, headrace-demo if not said; one that it wrote is resumed.",
)
@click.option(
    "--for",
    "for_s",
    metavar="TIME",
    type=Seconds(),
    help="End by itself so long after every query's first batch; without it, Ctrl-C ends it.",
)
@click.option(
    "--rate",
    metavar="N",
    type=click.IntRange(10, 100_000),
    default=RATE,
    show_default=True,
    help="Log lines a second.",
)
@click.option(
    "--kafka",
    is_flag=True,
    help="The same on a real broker, which it starts: results in milliseconds.",
)
@as_json
@shared
@pass_options
def demo(
    options: Options,
    directory: str | None,
    for_s: float | None,
    rate: int,
    kafka: bool,
    json_: bool,
) -> None:
    """See a streaming application at work, on files or on Kafka.

    Writes a project that you keep, generates logs, runs the pipeline, shows six results live, and
    at the end counts what was lost or doubled: code 0 if nothing was.
    """
    from headrace.cli.signals import Interrupts

    with Interrupts() as interrupts:
        from headrace.cli import demo_session

        name = directory or f"headrace-demo{'-kafka' * kafka}"
        folder = Path(options.project or ".") / name
        profile = "kafka" if kafka else options.profile
        wish = demo_session.Wish(folder, profile, for_s, rate, json_, profile == "kafka")
        raise click.exceptions.Exit(demo_session.run(wish, interrupts))


COMMANDS = (demo,)
