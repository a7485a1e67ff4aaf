"""`run` and `demo`: a pipeline in the foreground. See run_session.py and demo_session.py.

Imports little: signals have to be handled before Python imports the rest, which takes a second.
"""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.options import Options, Seconds, pass_options, pass_options_and_json
from headrace.cli.signals import Interrupts

DEMO_RATE = 300  # lines per second; two cores keep up easily


@click.command()
@click.argument("name", metavar="NAME|FILE")
@click.argument("args", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--replace", is_flag=True, help="Drain the deployed version first; start it again afterwards."
)
@pass_options
def run(options: Options, name: str, args: tuple[str, ...], replace: bool) -> None:
    """Run a pipeline or script in the foreground.

    Ctrl-C drains it: every query stops at a batch boundary. Press Ctrl-C again to stop at once.
    Deploys the working folder as a version marked dev; restarts during this run use that copy.
    If the supervisor is already running the pipeline, this command fails. With --replace, it
    drains the pipeline first, and restores its version, profile and state when this run ends.
    A file without Headrace definitions is a script: it runs unchanged, with ARGS as its arguments.
    """
    with Interrupts() as interrupts:
        from headrace.cli import run_session

        work = options.open()
        raise click.exceptions.Exit(run_session.run(work, name, args, interrupts, replace))


@click.command()
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Folder for the demo; default: headrace-demo. An existing demo is resumed.",
)
@click.option(
    "--for",
    "for_s",
    metavar="TIME",
    type=Seconds(),
    help="How long to run once every query has committed a batch; default: until Ctrl-C.",
)
@click.option(
    "--rate",
    metavar="N",
    type=click.IntRange(10, 100_000),
    default=DEMO_RATE,
    show_default=True,
    help="Log lines per second.",
)
@click.option(
    "--kafka",
    is_flag=True,
    help="Use Kafka instead of files, for results within milliseconds. Starts a broker if needed.",
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
    """See a streaming application at work, with files or Kafka.

    Writes a project that you can keep, generates logs, runs the pipeline and shows six results
    live. At the end it counts lost and duplicated rows; the exit code is 0 if both counts are 0.
    """
    with Interrupts() as interrupts:
        from headrace.cli import demo_session

        name = directory or f"headrace-demo{'-kafka' * kafka}"
        folder = Path(options.project or ".") / name
        profile = "kafka" if kafka else options.profile
        chosen = demo_session.DemoOptions(folder, profile, for_s, rate, json_, profile == "kafka")
        raise click.exceptions.Exit(demo_session.run(chosen, interrupts))
