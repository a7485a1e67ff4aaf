"""Times and durations as text, and times from text. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def span(seconds: float) -> str:
    """A duration in one unit: 12 s, 6 min, 3 h."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def clock(at: float | str | None) -> str:
    """2026-11-18 18:54:00Z: every time that people read has its date and its zone."""
    if at is None or isinstance(at, str):
        return at or ""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def parse_time(text: Any) -> float | None:
    """Seconds since the epoch of an ISO time, UTC if it has no zone. None if it is not a time."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        if found is None:
            return None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
