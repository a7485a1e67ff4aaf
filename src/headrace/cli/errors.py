"""Prints errors: what, why, where, fix in red on stderr, or one JSON object on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from headrace.errors import Error, Problems, each_of

UNEXPECTED = "This is a bug in Headrace. Run the command again with --debug for the traceback."


def show_error(error: Error, json_: bool = False) -> None:
    """Several problems are printed one after the other."""
    many = each_of(error)
    if json_:
        body: dict[str, Any] = dict(error.as_dict())
        if isinstance(error, Problems):
            body["problems"] = [problem.as_dict() for problem in many]
        click.echo(json.dumps({"error": body}, indent=2))
        return
    for problem in many:
        click.echo(in_words(problem.as_dict()), err=True)
    if len(many) > 1:
        click.secho(error.what, fg="red", err=True)


def in_words(body: Mapping[str, Any], colour: str = "red", fix_label: str = "fix") -> str:
    """Format the result of `Error.as_dict()` for people."""
    lines = [click.style(str(body.get("what") or "Unknown error (no message)."), fg=colour)]
    for name in ("why", "where", "fix"):
        if body.get(name):
            text = str(body[name]).rstrip().replace("\n", "\n" + " " * 9)
            label = fix_label if name == "fix" else name
            lines.append(click.style(f"  {label + ':':6} ", bold=True) + text)
    return "\n".join(lines)


def usage_error(exc: click.ClickException, json_: bool) -> int:
    """click's own message; it names the option and the closest match."""
    if json_:
        show_error(Error(exc.format_message(), slug="usage"), json_=True)
    else:
        exc.show()
    return exc.exit_code


def show_interrupt() -> int:
    click.secho("Interrupted.", fg="yellow", err=True)
    return 1
