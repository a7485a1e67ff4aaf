"""Links to the page, for `token` and for commands that say where it is."""

from __future__ import annotations

import time

from headrace.errors import ConfigError, ControlError
from headrace.project.asking import who
from headrace.project.workspace import Workspace
from headrace.state import keys, page
from headrace.state.keys import Kind, Role
from headrace.supervisor import lock

WAIT_S = 15.0  # the page's process reads its libraries first


def link(work: Workspace, role: str, now: float) -> str:
    found = page.listening(work.places)
    if found is None:
        is_off = not work.settings.web.enabled
        raise ControlError(
            "The page is switched off." if is_off else "The page does not run.",
            why="[web] enabled is false, or HEADRACE_WEB is off."
            if is_off
            else "The supervisor starts it; headrace up starts both.",
            where=str(work.places.web_log),
            fix="set [web] enabled = true" if is_off else "headrace up",
            slug="no-page",
        )
    secret = keys.make(work.places, Kind.LOGIN, who(), Role(role), now, keys.LOGIN_S)
    return f"{found.url}/?token={secret}"


def program_key(work: Workspace, name: str, role: str) -> str:
    if not name.isprintable() or not 0 < len(name) <= 100:
        raise ConfigError(
            "A program's name is up to 100 characters that can be printed.", slug="bad-value"
        )
    lock.prepare_state(work.places)
    return keys.make(work.places, Kind.PROGRAM, f"program {name}", Role(role), time.time(), None)


def when_listening(work: Workspace, timeout_s: float = WAIT_S) -> str | None:
    """A link as soon as there is a page; None if there is none in time, or none is wanted."""
    if not work.settings.web.enabled:
        return None
    deadline = time.monotonic() + timeout_s
    while page.listening(work.places) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.1)
    return link(work, Role.OPERATE, time.time())
