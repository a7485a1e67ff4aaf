"""`alerts list`: what people should know of, open or resolved. Works without a supervisor.

Invariant: reads only. No alerts.db yet means no alerts.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import Options, as_json, pass_options, shared

if TYPE_CHECKING:
    from headrace.cli.workspace import Workspace
    from headrace.store.alerts import Alert

SHOWN_MAX = 1_000
_COLOURS = {"critical": "bold red", "error": "red", "warning": "yellow"}


@click.group()
@shared
def alerts() -> None:
    """Alerts: of pipelines in trouble, and of rows that hr.alert was given."""


@alerts.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--all", "all_", is_flag=True, help="Also those that are resolved.")
@as_json
@shared
@pass_options
def list_(options: Options, name: str | None, all_: bool, json_: bool) -> None:
    """Open alerts, the newest first; of one pipeline or query, if given."""
    from headrace.cli import tables

    seen = found(options.open(), name, is_all=all_)
    if json_:
        tables.print_json({"alerts": [as_body(alert) for alert in seen]})
    else:
        print_alerts(seen, is_all=all_)


def found(work: Workspace, name: str | None, *, is_all: bool) -> list[Alert]:
    from headrace.cli import reading
    from headrace.cli.workspace import known_query
    from headrace.store import alerts as stored
    from headrace.store import db

    pipeline, query = known_query(work, name, reading.queries(work)) if name else (None, None)
    if not work.places.alerts.exists():
        return []
    with contextlib.closing(db.open_readonly(work.places.alerts)) as conn:
        of = {"pipeline": pipeline, "query": query}
        return stored.listed(conn, "all" if is_all else "open", SHOWN_MAX, **of)


def as_body(alert: Alert) -> dict[str, Any]:
    names = (
        "id", "key", "pipeline", "query", "rule", "title", "severity",
        "opened_at", "updated_at", "resolved_at", "resolve_at", "count", "reopened", "data",
    )  # fmt: skip
    return {name: getattr(alert, name) for name in names}


def print_alerts(seen: list[Alert], *, is_all: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from headrace.cli import tables
    from headrace.model import health

    if not seen:
        click.echo("No alerts." if is_all else "No open alerts.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("state", "severity"):
        table.add_column(name, no_wrap=True)
    table.add_column("title")
    for name in ("of", "opened", "updated"):
        table.add_column(name, no_wrap=True)
    table.add_column("count", justify="right")
    now = time.time()
    for alert in seen:
        table.add_row(
            "open" if alert.resolved_at is None else "resolved",
            Text(alert.severity, style=_COLOURS.get(alert.severity, "")),
            Text(alert.title),
            "/".join(part for part in (alert.pipeline, alert.query) if part),
            *(
                f"{health.span(max(0.0, now - at))} ago"
                for at in (alert.opened_at, alert.updated_at)
            ),
            f"{alert.count:,}",
        )
    tables.console().print(table)
    if len(seen) == SHOWN_MAX:
        click.echo(f"Only the newest {SHOWN_MAX:,} are shown.")


COMMANDS = (alerts,)
