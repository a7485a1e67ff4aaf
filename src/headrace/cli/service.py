"""`service print`: the systemd unit that keeps the supervisor running."""

from __future__ import annotations

from importlib import resources

import click


@click.group()
def service() -> None:
    """Run the supervisor under systemd."""


@service.command("print")
def print_() -> None:
    """Print a systemd unit for a project.

    Change the account and the folders in the unit. docs/guides/deploy.md explains each line.
    """
    click.echo(unit(), nl=False)


def unit() -> str:
    return (resources.files("headrace.cli") / "headrace.service").read_text(encoding="utf-8")
