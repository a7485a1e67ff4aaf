"""`why` in words. What it says is gathered in `project/why.py`."""

from __future__ import annotations

import time

import click

from headrace.cli.errors import in_words
from headrace.model.health import clock
from headrace.project import endings
from headrace.project.why import Answer, fresh_words


def print_words(answer: Answer) -> None:
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
            click.echo(click.style("broken promise: ", bold=True, fg="red") + broken)
    click.echo(click.style("next: ", bold=True) + answer.next)
    if failure is None:
        click.echo("No run of it has failed.")
        return
    click.echo(f"\nThe last failure, {clock(failure.at)}, run {answer.run}:")
    place = f" (query {failure.query}" if failure.query else ""
    batch = f", batch {failure.batch}" if failure.batch is not None else ""
    click.echo(f"  {endings.headline(status.name, failure)}{place}{batch}{')' if place else ''}")
    for problem in failure.problems or ([failure.error] if failure.error else []):
        click.echo(in_words(problem))
    for line in endings.query_lines(failure):
        click.echo(f"  {line}")
    if answer.trace_lines:
        click.echo(
            "\n".join(["", "The end of its trace:", *(f"  {x}" for x in answer.trace_lines)])
        )
    for label, path in (("full trace", answer.trace), ("output", answer.log)):
        click.echo(f"{label}: {path}" if path else "", nl=bool(path))
