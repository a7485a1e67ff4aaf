"""`token`: a link to the page that works once, or a program's key; and taking all of them back."""

from __future__ import annotations

import time

import click

from headrace.cli.options import Options, as_json, pass_options, shared


@click.command()
@click.option(
    "--role",
    type=click.Choice(["view", "operate"]),
    default="operate",
    show_default=True,
    help="view: look only. operate: also start, stop, restart, roll back.",
)
@click.option("--program", metavar="NAME", help="A key for a program, until it is taken back.")
@click.option("--revoke-all", is_flag=True, help="End every link, session and program's key.")
@as_json
@shared
@pass_options
def token(options: Options, role: str, program: str | None, revoke_all: bool, json_: bool) -> None:
    """A link to the page: it works once, within an hour."""
    from headrace.cli import links, tables
    from headrace.state import keys

    work = options.open()
    body: dict[str, str | int]
    if revoke_all:
        count = keys.revoke_all(work.places)
        body = {"revoked": count}
        words = f"{count} keys are taken back; everybody has to log in again: headrace token"
    elif program:
        body = {"key": links.program_key(work, program, role)}
        words = (
            f"The key of {program}, shown this once. Send it as a header:\n"
            f"  Authorization: Bearer {body['key']}"
        )
    else:
        body = {"url": links.link(work, role, time.time())}
        words = f"Open this link; it works once, within an hour:\n  {body['url']}"
    if json_:
        tables.print_json(body)
    else:
        click.echo(words)


COMMANDS = (token,)
