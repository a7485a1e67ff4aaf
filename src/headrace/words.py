"""What people write and mean: lengths of time, misspelt names, text for a terminal. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from headrace.errors import ConfigError

_UNITS = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
# Colours, cursor moves and window titles; then every other control character except tab and line
# end, and the marks that turn the rest of a line around.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|\x1b[]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def parse_duration(value: object) -> float:
    """Seconds of "10 seconds", "30s", "1 minute 30 seconds", "500ms", or of a number of seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if isinstance(value, str):
        parts, end = [], 0
        while match := _PART.match(value, end):
            parts.append((float(match[1]), match[2].lower()))
            end = match.end()
        if parts and end == len(value) and all(unit in _UNITS for _, unit in parts):
            return sum(amount * _UNITS[unit] for amount, unit in parts)
    raise ConfigError(
        f"{value!r} is not a length of time.",
        why="It has to be a number of seconds, or numbers with units: ms, seconds, minutes, hours, "
        "days.",
        fix='Write it like "10 seconds", "500ms", "1 minute" or 2.5.',
        slug="bad-duration",
    )


def seconds(value: object) -> float | None:
    """The same of what may be left out."""
    return None if value is None else parse_duration(value)


def harmless(text: str) -> str:
    """The same without anything that a terminal obeys: it could rewrite what a person has read."""
    return _CONTROL.sub("\ufffd", _ESCAPE.sub("", text))


def near(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that was probably meant."""
    by_lower = {a.lower(): a for a in allowed}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
