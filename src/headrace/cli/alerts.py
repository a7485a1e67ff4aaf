"""`alerts list`: what people should know of, open or resolved. Works without a supervisor.

Invariant: reads only. No alerts.db yet means no alerts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from headrace.cli.options import Options, as_json, pass_options, shared

if TYPE_CHECKING:
    from headrace.store.alerts import Alert

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
    from headrace.project import alerting

    seen = alerting.found(options.open(), name, is_all=all_)
    if json_:
        tables.print_json({"alerts": [alerting.as_body(alert) for alert in seen]})
    else:
        print_alerts(seen, is_all=all_)


def print_alerts(seen: list[Alert], *, is_all: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from headrace.cli import tables
    from headrace.model import health
    from headrace.project import alerting

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
    if len(seen) == alerting.SHOWN_MAX:
        click.echo(f"Only the newest {alerting.SHOWN_MAX:,} are shown.")


COMMANDS = (alerts,)
