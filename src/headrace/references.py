"""Secrets by reference: `${env:X}` and `${file:PATH}` stay as they are until a driver needs them.

What was resolved is remembered, so that it can be taken out of every text by its value before
anything is stored or shown. Invariant: only a driver, the relay and `check --connect` use a value,
and none keeps one in a file; others ask for `values` only to take them out of what they show.
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
    """The text with each reference replaced. Raises ConfigError where one leads nowhere."""
    return _REFERENCE.sub(lambda match: remembered(_value(match[1], match[2])), text)


def is_in(text: object) -> bool:
    return isinstance(text, str) and _REFERENCE.search(text) is not None


def resolved() -> frozenset[str]:
    """Every value that this process has resolved."""
    return frozenset(_resolved)


def values(settings: object, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """What all references in there stand for, as far as they lead anywhere."""
    if isinstance(settings, Mapping):
        return frozenset().union(*(values(one, environment) for one in settings.values()))
    if isinstance(settings, list | tuple):
        return frozenset().union(*(values(one, environment) for one in settings))
    found = set()
    for match in _REFERENCE.finditer(settings) if isinstance(settings, str) else ():
        with contextlib.suppress(ConfigError, UnicodeDecodeError):
            found.add(_value(match[1], match[2], environment))
    return frozenset(found)


def remembered(value: str) -> str:
    """The same; from now on it is taken out of every text."""
    if value:
        _resolved.add(value)
    return value


def _value(how: str, name: str, environment: Mapping[str, str] = os.environ) -> str:
    if how == "env":
        if name in environment:
            return environment[name]
        problem, fix = "The environment has no such variable.", f"export {name}=…"
    else:
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\n")
        except OSError as exc:
            problem, fix = f"{exc.strerror}: {name}.", f"Write the secret into {name} (mode 600)."
    what = f"The secret ${{{how}:{name}}} is not there."
    raise ConfigError(what, why=problem, fix=fix, slug="missing-secret")
