"""`quarantine list`: records that did not fit, with the reason. Works without a supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import Options, as_json, pass_options, shared

if TYPE_CHECKING:
    from headrace.cli.workspace import Workspace
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

    seen = found(options.open(), name, newest)
    if json_:
        tables.print_json({"quarantines": [as_body(one) for one in seen]})
    else:
        print_all(seen)


def found(work: Workspace, name: str | None, newest: int) -> list[Quarantine]:
    from headrace.cli import answers
    from headrace.config import near
    from headrace.errors import ConfigError
    from headrace.explore.quarantines import quarantines

    seen = quarantines(answers.known_names(work), newest)
    if name is None:
        return seen
    by_name = {n for one in seen for n in (one.pipeline, one.of, one.query, _full(one))}
    if name not in by_name:
        meant = near(name, by_name)
        raise ConfigError(
            f"There is no quarantine of {name!r}.",
            why=f"There is: {', '.join(sorted(map(_full, seen))) or 'none yet'}.",
            fix=f"Did you mean {meant!r}?" if meant else "headrace quarantine list shows all",
            slug="unknown-quarantine",
        )
    return [one for one in seen if name in (one.pipeline, one.of, one.query, _full(one))]


def _full(one: Quarantine) -> str:
    return f"{one.pipeline}/{one.query}"


def as_body(one: Quarantine) -> dict[str, Any]:
    from headrace.explore.answer import plain

    return {
        "pipeline": one.pipeline,
        "query": one.query,
        "of": one.of,
        "path": one.path,
        "rows": one.rows,
        "reasons": one.reasons,
        "newest": [
            {
                "at": plain(r.at),
                "reason": r.reason,
                "detail": r.detail,
                "source": r.source,
                "partition": r.partition,
                "offset": r.offset,
                "bytes": r.size,
                "version": r.version,
                "text": r.text,
                "raw": plain(r.raw),
            }
            for r in one.newest
        ],
    }


def print_all(seen: list[Quarantine]) -> None:
    from rich.table import Table
    from rich.text import Text

    from headrace.cli import tables

    if not seen:
        click.echo("Nothing is kept in quarantine: no deployed pipeline uses hr.parse_json.")
        return
    for one in seen:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in one.reasons.items())
        counted = "1 record" if one.rows == 1 else f"{one.rows:,} records"
        click.echo(f"{_full(one)}: {counted}{f' ({reasons})' if reasons else ''}")
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
