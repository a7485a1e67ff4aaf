"""Commands that look: `status`, `why`, `wait`. Their work is in reading, tables, explain."""

from __future__ import annotations

import click

from headrace.cli.options import Options, Seconds, as_json, pass_options, shared


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-w", "--watch", is_flag=True, help="Stay and show changes until Ctrl-C.")
@as_json
@shared
@pass_options
def status(options: Options, names: tuple[str, ...], watch: bool, json_: bool) -> None:
    """What runs, how it is, and why."""
    from headrace.cli import tables
    from headrace.project import reading

    work = options.open()
    if watch:
        tables.watch(lambda: reading.overview(work, names), json_=json_)
        return
    seen = reading.overview(work, names)
    if json_:
        tables.print_json(seen.to_json())
    else:
        tables.print_overview(seen)


@click.command()
@click.argument("name", metavar="NAME")
@as_json
@shared
@pass_options
def why(options: Options, name: str, json_: bool) -> None:
    """Explain in plain words what is, and what to do.

    The state, the last failure, what Headrace does next, the end of the trace.
    """
    from headrace.cli import explain, tables
    from headrace.project.why import explain as explained

    work = options.open()
    answer = explained(work, name)
    gone = explain.gone(work, answer)
    if json_:
        tables.print_json({**answer.to_json(), "gone": gone})
    else:
        explain.print_words(answer, gone)


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--until",
    type=click.Choice(["running", "caught-up", "stopped"]),
    default="running",
    show_default=True,
    help="stopped: also finished, or waiting for a person.",
)
@click.option("--timeout", type=Seconds(), default="60s", show_default=True)
@as_json
@shared
@pass_options
def wait(options: Options, name: str, until: str, timeout: float, json_: bool) -> None:
    """Wait for a state; code 1 if it was not in time."""
    from headrace.cli import tables, waiting

    seen = waiting.wait(options.open(), name, until, timeout)
    if json_:
        tables.print_json(seen.to_json())
    else:
        click.echo(f"{seen.name} is {seen.state}: {seen.why}")


COMMANDS = (status, why, wait)
