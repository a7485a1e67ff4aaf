"""Resolves references to secrets: `${env:X}` and `${file:PATH}`.

Resolved values are remembered, so that they can be removed from every text before it is stored or
shown. Invariant: only a driver, the relay and `check --connect` use a value, and none keeps it in a
file; others use `values` only to redact what they show.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import ConfigError

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")
_resolved: set[str] = set()


def resolve(text: str) -> str:
    """The text with each reference replaced. Raises ConfigError if a secret is missing."""
    return _REFERENCE.sub(lambda match: remember(_value(match[1], match[2])), text)


def is_in(text: object) -> bool:
    return isinstance(text, str) and _REFERENCE.search(text) is not None


def resolved_values() -> frozenset[str]:
    """All values that this process has resolved."""
    return frozenset(_resolved)


def values(settings: object, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The values of all references in the settings; missing ones are skipped."""
    if isinstance(settings, Mapping):
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        return frozenset().union(*(values(item, environment) for item in settings))
    found = set()
    for match in _REFERENCE.finditer(settings) if isinstance(settings, str) else ():
        with contextlib.suppress(ConfigError, UnicodeDecodeError):
            found.add(_value(match[1], match[2], environment))
    return frozenset(found)


def remember(value: str) -> str:
    """Return the value, which is redacted from now on."""
    if value:
        _resolved.add(value)
    return value


def _value(how: str, name: str, environment: Mapping[str, str] = os.environ) -> str:
    if how == "env":
        if name in environment:
            return environment[name]
        problem, fix = f"The environment variable {name} is not set.", f"export {name}=…"
    else:
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\n")
        except OSError as exc:
            problem = f"{exc.strerror}: {name}."
            fix = f"Store the secret in {name}, readable only by the user that runs Headrace."
    what = f"The secret ${{{how}:{name}}} is missing."
    raise ConfigError(what, why=problem, fix=fix, slug="missing-secret")
