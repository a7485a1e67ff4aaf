"""Parses durations: "10 seconds", "500ms". Pure."""

from __future__ import annotations

import re

from headrace.errors import ConfigError

UNITS = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
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
        if parts and end == len(value) and all(unit in UNITS for _, unit in parts):
            return sum(amount * UNITS[unit] for amount, unit in parts)
    raise ConfigError(
        f"Invalid duration: {value!r}.",
        why="A duration is a number of seconds, or numbers with units: ms, seconds, minutes, "
        "hours, days.",
        fix='Write, for example, "10 seconds", "500ms", "1 minute" or 2.5.',
        slug="bad-duration",
    )


def optional_duration(value: object) -> float | None:
    return None if value is None else parse_duration(value)
