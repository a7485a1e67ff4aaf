"""`metrics`: which metrics there are, and files for Prometheus and Grafana. Needs no project."""

from __future__ import annotations

import click
from rich.text import Text

from headrace.cli import output
from headrace.cli.options import as_json, shared_options
from headrace.metrics import packaged_files, table


@click.group()
@shared_options
def metrics() -> None:
    """Metrics for Prometheus, Grafana and others."""


@metrics.command("list")
@shared_options
@as_json
def list_(json_: bool) -> None:
    """List every metric with its type, labels and meaning."""
    if json_:
        body = [
            {
                "name": one.name,
                "dotted_name": f"headrace.{one.dotted_name}",
                "type": str(one.kind),
                "unit": one.unit or None,
                "labels": list(one.labels),
                "help": one.help,
            }
            for one in table.METRICS
        ]
        output.print_json({"metrics": body})
        return
    grid = output.grid("metric", "type", "labels", "meaning", wrap=["labels", "meaning"])
    for one in table.METRICS:
        grid.add_row(one.name, str(one.kind), Text(", ".join(one.labels)), Text(one.help))
    output.console().print(grid)


@metrics.command("grafana")
@shared_options
def grafana() -> None:
    """Print a dashboard for Grafana; import it there as JSON."""
    click.echo(packaged_files.read(packaged_files.DASHBOARD), nl=False)


@metrics.command("prometheus-rules")
@shared_options
def prometheus_rules() -> None:
    """Print alert rules; add the file to `rule_files` of Prometheus."""
    click.echo(packaged_files.read(packaged_files.RULES), nl=False)
