"""`token`: a link to the page, an API key for a program, or the revocation of all of them."""

from __future__ import annotations

import time

import click

from headrace.cli import links, tables
from headrace.cli.options import Options, pass_options_and_json
from headrace.state import api_keys


@click.command()
@click.option(
    "--role",
    type=click.Choice(["view", "operate"]),
    default="operate",
    show_default=True,
    help="view: read only. operate: also start, stop, restart, roll back.",
)
@click.option(
    "--program", metavar="NAME", help="Print an API key for a program; valid until revoked."
)
@click.option("--revoke-all", is_flag=True, help="Revoke every link, session and API key.")
@pass_options_and_json
def token(options: Options, role: str, program: str | None, revoke_all: bool, json_: bool) -> None:
    """Print a link to the page.

    The link works once, within an hour.
    """
    work = options.open()
    body: dict[str, str | int]
    if revoke_all:
        count = api_keys.revoke_all(work.places)
        body = {"revoked": count}
        words = f"{count} keys revoked; everyone has to log in again: headrace token"
    elif program:
        body = {"key": links.program_key(work, program, role)}
        words = (
            f"API key of {program}; it is not shown again. Send it as a header:\n"
            f"  Authorization: Bearer {body['key']}"
        )
    else:
        body = {"url": links.link(work, role, time.time())}
        words = f"Open this link; it works once, within an hour:\n  {body['url']}"
    tables.print_either(words, body, json_=json_)
