"""`why` in words. What it says is gathered in `project/why.py`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from headrace.cli.errors import in_words
from headrace.errors import Error
from headrace.model.findings import Finding
from headrace.model.health import clock
from headrace.project import endings
from headrace.project.why import Answer, fresh_words
from headrace.project.workspace import Workspace

LOST = ("kafka-data-lost", "topic-went-back", "topic-missing")


def gone(work: Workspace, answer: Answer) -> list[str]:
    """After a failure for records that were lost: which, by asking the broker."""
    if answer.failure is None or answer.failure.failure not in LOST:
        return []
    from headrace.project import gaps

    try:
        return [gap.in_words() for gap in gaps.of_pipeline(work, answer.status.name)]
    except Error as exc:
        return [f"how many cannot be said now: {exc.what}"]


def print_finding(found: Finding) -> None:
    colour = "red" if found.is_problem else "yellow"
    what = f"{found.query}: {found.what}" if found.query else found.what
    click.echo(click.style(f"{found.severity}: ", bold=True, fg=colour) + what)
    for label, text in (("cause", found.cause), ("where", found.where), ("fix", found.fix)):
        if text:
            click.echo(click.style(f"  {label}: ", bold=True) + text)


def print_words(answer: Answer, gone: Sequence[str] = ()) -> None:
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
    for found in status.all_findings():
        print_finding(found)
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
    for one in gone:
        click.echo(f"  gone: {one}")
    for line in endings.query_lines(failure):
        click.echo(f"  {line}")
    if answer.trace_lines:
        click.echo(
            "\n".join(["", "The end of its trace:", *(f"  {x}" for x in answer.trace_lines)])
        )
    for label, path in (("full trace", answer.trace), ("output", answer.log)):
        click.echo(f"{label}: {path}" if path else "", nl=bool(path))
