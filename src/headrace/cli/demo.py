"""`demo`: a complete application in one command. The implementation is in demo_session.py.

Imports little: signals have to be handled before Python imports the rest.
"""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.options import Options, Seconds, pass_options_and_json
from headrace.cli.signals import Interrupts

RATE = 300  # lines a second; two cores keep up with ease


@click.command()
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Folder of the demo, by default headrace-demo; an existing demo is resumed.",
)
@click.option(
    "--for",
    "for_s",
    metavar="TIME",
    type=Seconds(),
    help="End this long after the first batch of every query; without it, Ctrl-C ends the demo.",
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
    help="Use a Kafka broker, which the demo starts: results in milliseconds.",
)
@pass_options_and_json
def demo(
    options: Options,
    directory: str | None,
    for_s: float | None,
    rate: int,
    kafka: bool,
    json_: bool,
) -> None:
    """See a streaming application at work, on files or on Kafka.

    Writes a project that you can keep, generates logs, runs the pipeline and shows six results
    live. At the end it counts lost and doubled rows; the exit code is 0 if both counts are 0.
    """
    with Interrupts() as interrupts:
        from headrace.cli import demo_session

        name = directory or f"headrace-demo{'-kafka' * kafka}"
        folder = Path(options.project or ".") / name
        profile = "kafka" if kafka else options.profile
        chosen = demo_session.DemoOptions(folder, profile, for_s, rate, json_, profile == "kafka")
        raise click.exceptions.Exit(demo_session.run(chosen, interrupts))
