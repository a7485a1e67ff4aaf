"""`quarantine list`: records that could not be parsed. Works without a supervisor."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from headrace.cli import tables
from headrace.cli.options import Options, pass_options_and_json, shared_options
from headrace.explore.quarantine import Quarantine
from headrace.model.times import clock
from headrace.project import quarantine as project_quarantine


@click.group()
@shared_options
def quarantine() -> None:
    """Records that could not be parsed, kept with the reason."""


@quarantine.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "-n",
    "newest",
    type=click.IntRange(min=0, max=1000),
    default=10,
    show_default=True,
    help="How many of the newest records to show.",
)
@pass_options_and_json
def list_(options: Options, name: str | None, newest: int, json_: bool) -> None:
    """Count the records by reason, and show the newest.

    NAME is a pipeline or a view; the default is all.
    """
    seen = project_quarantine.find(options.open(), name, newest)
    if json_:
        tables.print_json({"quarantines": [found.to_json() for found in seen]})
    else:
        print_all(seen)


def print_all(seen: list[Quarantine]) -> None:
    if not seen:
        click.echo("No quarantine: no deployed pipeline uses hr.parse_json.")
        return
    for found in seen:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        counted = "1 record" if found.rows == 1 else f"{found.rows:,} records"
        click.echo(
            f"{project_quarantine.full(found)}: {counted}{f' ({reasons})' if reasons else ''}"
        )
        if not found.newest:
            continue
        table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
        for column in ("at", "reason"):
            table.add_column(column, no_wrap=True)
        for column in ("detail", "from", "record"):
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for r in found.newest:
            detail, source = Text(r.detail or ""), Text((r.source or "").rsplit("/", 1)[-1])
            table.add_row(clock(_seconds(r.at)), r.reason, detail, source, Text(r.text[:80]))
        tables.console().print(table)


def _seconds(at: datetime) -> float:
    """DuckDB returns a moment without a zone; it is UTC."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
