"""`quarantine list`: records that did not fit, with the reason. Works without a supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.options import Options, as_json, pass_options, shared

if TYPE_CHECKING:
    from headrace.explore.quarantines import Quarantine


@click.group()
@shared
def quarantine() -> None:
    """Records that could not be used: kept aside with the reason, never lost."""


@quarantine.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "-n",
    "newest",
    type=click.IntRange(min=0, max=1000),
    default=10,
    show_default=True,
    help="Show so many of the newest records.",
)
@as_json
@shared
@pass_options
def list_(options: Options, name: str | None, newest: int, json_: bool) -> None:
    """How many records for which reason, and the newest; of one pipeline or view, if given."""
    from headrace.cli import tables
    from headrace.project import quarantined

    seen = quarantined.found(options.open(), name, newest)
    if json_:
        tables.print_json({"quarantines": [one.to_json() for one in seen]})
    else:
        print_all(seen)


def print_all(seen: list[Quarantine]) -> None:
    from rich.table import Table
    from rich.text import Text

    from headrace.cli import tables
    from headrace.project import quarantined

    if not seen:
        click.echo("Nothing is kept in quarantine: no deployed pipeline uses hr.parse_json.")
        return
    for one in seen:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in one.reasons.items())
        counted = "1 record" if one.rows == 1 else f"{one.rows:,} records"
        click.echo(f"{quarantined.full(one)}: {counted}{f' ({reasons})' if reasons else ''}")
        if not one.newest:
            continue
        table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
        for column in ("at", "reason"):
            table.add_column(column, no_wrap=True)
        for column in ("detail", "from", "record"):
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for r in one.newest:
            at = r.at.strftime("%Y-%m-%d %H:%M:%S")
            detail, source = Text(r.detail or ""), Text((r.source or "").rsplit("/", 1)[-1])
            table.add_row(at, r.reason, detail, source, Text(r.text[:80]))
        tables.console().print(table)


COMMANDS = (quarantine,)
