"""`why`: explain the state of a pipeline in plain words. Facts come from `project/why.py`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from headrace.cli import output
from headrace.cli.errors import in_words
from headrace.cli.options import Options, pass_options_and_json
from headrace.errors import Error
from headrace.model.findings import Finding
from headrace.model.times import clock
from headrace.project import run_end_text
from headrace.project.why import Explanation, explain, fresh_words
from headrace.project.workspace import Workspace

LOST = ("kafka-data-lost", "topic-went-back", "topic-missing")


@click.command()
@click.argument("name", metavar="NAME")
@pass_options_and_json
def why(options: Options, name: str, json_: bool) -> None:
    """Explain a pipeline's state and what to do about it.

    Shows the state, the last failure, what Headrace does next, and the end of the stack trace.
    """
    work = options.open()
    explanation = explain(work, name)
    gone = describe_gaps(work, explanation)
    if json_:
        output.print_json({**explanation.to_json(), "gone": gone})
    else:
        print_words(explanation, gone)


def describe_gaps(work: Workspace, answer: Explanation) -> list[str]:
    """After data loss: which records are gone, from the broker."""
    if answer.failure is None or answer.failure.failure not in LOST:
        return []
    from headrace.project import gaps  # connects to brokers: only here

    try:
        return [gap.in_words() for gap in gaps.find(work, answer.status.name)]
    except Error as exc:
        return [f"an unknown number of records: {exc.what}"]


def print_finding(found: Finding) -> None:
    colour = "red" if found.is_problem else "yellow"
    what = f"{found.query}: {found.what}" if found.query else found.what
    click.echo(click.style(f"{found.severity}: ", bold=True, fg=colour) + what)
    for label, text in (("cause", found.cause), ("where", found.where), ("fix", found.fix)):
        if text:
            click.echo(click.style(f"  {label}: ", bold=True) + text)


def print_words(answer: Explanation, gone: Sequence[str] = ()) -> None:
    status, failure = answer.status, answer.failure
    click.echo(click.style(status.name, bold=True) + f" is {status.state}: {status.why}")
    if answer.notice:
        click.secho(answer.notice, fg="yellow")
    for query in status.queries:
        words = [query.state, query.note, *fresh_words(query, time.time())]
        click.echo(f"  {query.name}: {', '.join(word for word in words if word)}")
    for query in status.queries:
        if query.broken_promise:
            broken = f"{query.name}: {query.broken_promise}"
            click.echo(click.style("missed freshness target: ", bold=True, fg="red") + broken)
    for found in status.all_findings():
        print_finding(found)
    click.echo(click.style("next: ", bold=True) + answer.next)
    if failure is None:
        click.echo("No run has failed.")
        return
    click.echo(f"\nLast failure: {clock(failure.at)}, run {answer.run}")
    place = f" (query {failure.query}" if failure.query else ""
    batch = f", batch {failure.batch}" if failure.batch is not None else ""
    click.echo(
        f"  {run_end_text.headline(status.name, failure)}{place}{batch}{')' if place else ''}"
    )
    for problem in failure.all_problems:
        click.echo(in_words(problem))
    for gap in gone:
        click.echo(f"  gone: {gap}")
    for line in run_end_text.query_lines(failure):
        click.echo(f"  {line}")
    if answer.trace_lines:
        lines = ["", "End of the stack trace:", *(f"  {x}" for x in answer.trace_lines)]
        click.echo("\n".join(lines))
    for label, path in (("full stack trace", answer.trace), ("output", answer.log)):
        click.echo(f"{label}: {path}" if path else "", nl=bool(path))
