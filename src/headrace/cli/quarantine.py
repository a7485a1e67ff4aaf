"""`quarantine list`: records that could not be parsed. Works without a supervisor."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from rich.text import Text

from headrace.cli import output as printing
from headrace.cli.options import Options, pass_options_and_json, shared_options
from headrace.errors import ConfigError
from headrace.explore.quarantine import Quarantine, quarantines
from headrace.model.times import clock
from headrace.project import tables
from headrace.project.workspace import Workspace
from headrace.spelling import closest


@click.group()
@shared_options
def quarantine() -> None:
    """Records that could not be parsed, each with the reason."""


@quarantine.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "-n",
    "newest",
    type=click.IntRange(min=0, max=1000),
    default=10,
    show_default=True,
    help="Number of records to show, newest first.",
)
@pass_options_and_json
def list_(options: Options, name: str | None, newest: int, json_: bool) -> None:
    """Count records by reason and show the latest ones.

    NAME is a pipeline or a view; the default is all.
    """
    seen = find(options.open(), name, newest)
    if json_:
        printing.print_json({"quarantines": [found.to_json() for found in seen]})
    else:
        print_all(seen)


def find(work: Workspace, name: str | None, newest: int) -> list[Quarantine]:
    seen = quarantines(tables.known_names(work), newest)
    chosen = [quarantine for quarantine in seen if name is None or name in _names(quarantine)]
    if name is not None and not chosen:
        meant = closest(name, {each for quarantine in seen for each in _names(quarantine)})
        raise ConfigError(
            f"Unknown quarantine {name!r}.",
            why=f"Known: {', '.join(sorted(map(_full_name, seen))) or 'none yet'}.",
            fix=f"Did you mean {meant!r}?"
            if meant
            else "List all quarantines: headrace quarantine list",
            slug="unknown-quarantine",
        )
    return chosen


def _names(quarantine: Quarantine) -> tuple[str, ...]:
    return (quarantine.pipeline, quarantine.origin, quarantine.query, _full_name(quarantine))


def _full_name(quarantine: Quarantine) -> str:
    return f"{quarantine.pipeline}/{quarantine.query}"


def print_all(seen: list[Quarantine]) -> None:
    if not seen:
        click.echo("There is no quarantine: no deployed pipeline uses hr.parse_json.")
        return
    for found in seen:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        counted = "1 record" if found.rows == 1 else f"{found.rows:,} records"
        click.echo(f"{_full_name(found)}: {counted}{f' ({reasons})' if reasons else ''}")
        if not found.newest:
            continue
        table = printing.grid("at", "reason", "detail", "from", "record", indent=2)
        for r in found.newest:
            detail, source = Text(r.detail or ""), Text((r.source or "").rsplit("/", 1)[-1])
            table.add_row(clock(_seconds(r.at)), r.reason, detail, source, Text(r.text[:80]))
        printing.console().print(table)


def _seconds(at: datetime) -> float:
    """DuckDB returns a moment without a zone; it is UTC."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
