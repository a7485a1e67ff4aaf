"""`token`: a link to the page, an API key for a program, or the revocation of all of them."""

from __future__ import annotations

import time

import click

from headrace.cli.options import Options, pass_options_and_json
from headrace.errors import ConfigError, ControlError
from headrace.project.control import who
from headrace.project.workspace import Workspace
from headrace.state import api_keys, page
from headrace.state.api_keys import KeyKind, Role
from headrace.supervisor import lock

WAIT_S = 15.0  # the page's process imports its libraries first


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
    """Print a link to the web page.

    The link works once, within an hour.
    """
    from headrace.cli import output  # imports rich, which other users of this module do not need

    work = options.open()
    body: dict[str, str | int]
    if revoke_all:
        count = api_keys.revoke_all(work.places)
        body = {"revoked": count}
        words = f"{count} keys revoked; everyone must log in again: headrace token"
    elif program:
        body = {"key": program_key(work, program, role)}
        words = (
            f"API key for {program}; it will not be shown again. Send it as a header:\n"
            f"  Authorization: Bearer {body['key']}"
        )
    else:
        body = {"url": link(work, role)}
        words = f"Open this link; it works once, within an hour:\n  {body['url']}"
    output.print_either(words, body, json_=json_)


def link(work: Workspace, role: str) -> str:
    found = page.listening(work.places)
    if found is None:
        what = "The page is not running."
        why, fix = "The supervisor starts the page.", "headrace up"
        if not work.settings.web.enabled:
            what = "The page is switched off."
            why = "[web] enabled is false, or HEADRACE_WEB is off."
            fix = "Set [web] enabled = true, and unset HEADRACE_WEB."
        raise ControlError(what, why=why, where=str(work.places.web_log), fix=fix, slug="no-page")
    made_at, valid_s = time.time(), api_keys.LOGIN_S
    secret = api_keys.make(work.places, KeyKind.LOGIN, who(), Role(role), made_at, valid_s)
    return f"{found.url}/?token={secret}"


def program_key(work: Workspace, name: str, role: str) -> str:
    if not name.isprintable() or not 0 < len(name) <= 100:
        raise ConfigError(
            f"Invalid program name: {name!r}.",
            why="A program name must be 1 to 100 printable characters long.",
            fix="Choose another name: headrace token --program NAME",
            slug="bad-value",
        )
    lock.prepare_state(work.places)
    return api_keys.make(
        work.places, KeyKind.PROGRAM, f"program {name}", Role(role), time.time(), None
    )


def when_listening(work: Workspace, timeout_s: float = WAIT_S) -> str | None:
    """Wait for the page and return a link; None after the timeout, or if the page is off."""
    if not work.settings.web.enabled:
        return None
    deadline = time.monotonic() + timeout_s
    while page.listening(work.places) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.1)
    return link(work, Role.OPERATE)
