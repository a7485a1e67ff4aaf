"""`why`: explain the state of a pipeline in plain words. Facts come from `project/why.py`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from headrace.cli import output
from headrace.cli.errors import in_words
from headrace.cli.options import Options, pass_options_and_json
from headrace.errors import Error
from headrace.model.runs import Exit
from headrace.model.times import clock
from headrace.project import run_end_text
from headrace.project.troubles import Trouble
from headrace.project.why import Explanation, explain, fresh_words
from headrace.project.workspace import Workspace

WHAT_TO_DO = "what to do"  # as in notices
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


def print_words(answer: Explanation, gone: Sequence[str] = ()) -> None:
    """The cause of the state first: a failure, or what else is wrong."""
    status = answer.status
    click.echo(click.style(status.name, bold=True) + f" is {status.state}: {status.why}")
    if answer.notice:
        click.secho(answer.notice, fg="yellow")
    for query in status.queries:
        words = [query.state, query.note, *fresh_words(query, time.time())]
        click.echo(f"  {query.name}: {', '.join(word for word in words if word)}")
    if not answer.is_current:
        for trouble in answer.troubles:
            print_trouble(trouble)
    click.echo(click.style("Headrace: ", bold=True) + answer.next)
    if answer.failure is None:
        click.echo("No run has failed.")
        return
    print_failure(answer, answer.failure, gone)
    if answer.is_current and answer.troubles:
        click.echo("\nAlso:")
        for trouble in answer.troubles:
            print_trouble(trouble)
    if answer.trace_lines:
        lines = ["", "End of the stack trace:", *(f"  {x}" for x in answer.trace_lines)]
        click.echo("\n".join(lines))
    for label, path in (("full stack trace", answer.trace), ("output", answer.log)):
        click.echo(f"{label}: {path}" if path else "", nl=bool(path))


def print_trouble(found: Trouble) -> None:
    colour = {"problem": "red", "warning": "yellow"}.get(found.severity)
    what = f"{found.query}: {found.what}" if found.query else found.what
    click.echo(click.style(f"{found.severity}: ", bold=True, fg=colour) + what)
    since = clock(found.since) if found.since else None
    words = (
        ("since", since),
        ("cause", found.cause),
        ("where", found.where),
        ("Headrace", found.headrace),
        (WHAT_TO_DO, found.fix),
    )
    for label, text in words:
        if text:
            click.echo(click.style(f"  {label}: ", bold=True) + text)


def print_failure(answer: Explanation, failure: Exit, gone: Sequence[str]) -> None:
    click.echo(f"\nLast failure: {clock(failure.at)}, run {answer.run}")
    place = f" (query {failure.query}" if failure.query else ""
    batch = f", batch {failure.batch}" if failure.batch is not None else ""
    headline = run_end_text.headline(answer.status.name, failure)
    click.echo(f"  {headline}{place}{batch}{')' if place else ''}")
    for problem in failure.all_problems:
        click.echo(in_words(problem, fix_label=WHAT_TO_DO))
    if failure.kind:
        click.echo(click.style("  kind: ", bold=True) + failure.kind)
    if answer.seen:
        click.echo(click.style("  seen: ", bold=True) + answer.seen.in_words())
    for gap in gone:
        click.echo(f"  gone: {gap}")
    for line in run_end_text.query_lines(failure):
        click.echo(f"  {line}")
