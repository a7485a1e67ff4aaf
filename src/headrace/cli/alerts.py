"""`alerts list`: open and resolved alerts. Reads only; works without a supervisor."""

from __future__ import annotations

import time

import click
from rich.text import Text

from headrace.cli import tables
from headrace.cli.options import Options, pass_options_and_json, shared_options
from headrace.model.times import span
from headrace.project import alerts as project_alerts
from headrace.store.alerts import StoredAlert

_COLOURS = {"critical": "bold red", "error": "red", "warning": "yellow"}


@click.group()
@shared_options
def alerts() -> None:
    """Alerts of pipelines, and of rows sent to hr.alert."""


@alerts.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--all", "all_", is_flag=True, help="Also show resolved alerts.")
@pass_options_and_json
def list_(options: Options, name: str | None, all_: bool, json_: bool) -> None:
    """List open alerts, newest first.

    NAME is a pipeline or a query; the default is all.
    """
    seen = project_alerts.find(options.open(), name, is_all=all_)
    if json_:
        tables.print_json({"alerts": [alert.to_json() for alert in seen]})
    else:
        print_alerts(seen, is_all=all_)


def print_alerts(seen: list[StoredAlert], *, is_all: bool) -> None:
    if not seen:
        click.echo("No alerts." if is_all else "No open alerts.")
        return
    names = ("state", "severity", "title", "of", "opened", "updated", "count")
    table = tables.grid(*names, right=["count"], wrap=["title", "count"])
    now = time.time()
    for alert in seen:
        table.add_row(
            "open" if alert.resolved_at is None else "resolved",
            Text(alert.severity, style=_COLOURS.get(alert.severity, "")),
            Text(alert.title),
            "/".join(part for part in (alert.pipeline, alert.query) if part),
            *(f"{span(max(0.0, now - at))} ago" for at in (alert.opened_at, alert.updated_at)),
            f"{alert.count:,}",
        )
    tables.console().print(table)
    if len(seen) == project_alerts.SHOWN_MAX:
        click.echo(f"Showing the newest {project_alerts.SHOWN_MAX:,}.")
