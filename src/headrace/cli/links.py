"""Links to the page, and API keys."""

from __future__ import annotations

import time

from headrace.errors import ConfigError, ControlError
from headrace.project.control import who
from headrace.project.workspace import Workspace
from headrace.state import api_keys, page
from headrace.state.api_keys import KeyKind, Role
from headrace.supervisor import lock

WAIT_S = 15.0  # the page's process imports its libraries first


def link(work: Workspace, role: str, now: float) -> str:
    found = page.listening(work.places)
    if found is None:
        is_off = not work.settings.web.enabled
        raise ControlError(
            "The page is switched off." if is_off else "The page is not running.",
            why="[web] enabled is false, or HEADRACE_WEB is off."
            if is_off
            else "The supervisor starts it; headrace up starts both.",
            where=str(work.places.web_log),
            fix="set [web] enabled = true" if is_off else "headrace up",
            slug="no-page",
        )
    secret = api_keys.make(work.places, KeyKind.LOGIN, who(), Role(role), now, api_keys.LOGIN_S)
    return f"{found.url}/?token={secret}"


def program_key(work: Workspace, name: str, role: str) -> str:
    if not name.isprintable() or not 0 < len(name) <= 100:
        raise ConfigError("A program's name has 1 to 100 printable characters.", slug="bad-value")
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
    return link(work, Role.OPERATE, time.time())
