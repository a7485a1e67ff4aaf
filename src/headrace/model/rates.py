"""How fast rows come in, from batch to batch. Pure.

Spark counts from its last look at the source, which may be some milliseconds ago: of 10 rows a
second it then says 909.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

EMPTY_S_MIN = 1.0  # a rate over less than that, after a silence, is noise


def incoming(
    rows: int, began_at: float, before_at: float | None, idle_at: float | None
) -> float | None:
    """Rows a second since the batch before it began, or since the source was last found empty. Of a
    run's first batch nobody knows since when its rows have come: None."""
    if before_at is None:
        return None
    empty_at = min(idle_at or 0.0, began_at - EMPTY_S_MIN)
    over_s = began_at - max(before_at, empty_at)
    return rows / over_s if over_s > 0 else None


def moment(text: Any) -> float | None:
    """A time as Spark writes it, in seconds since the epoch."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None
