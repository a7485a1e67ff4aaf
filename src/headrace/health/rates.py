"""The input rate, from batch to batch. Pure.

Spark divides by the time since it last read the source's offsets, which may be a few milliseconds:
of 10 rows a second it then makes 909.
"""

from __future__ import annotations

EMPTY_S_MIN = 1.0  # a rate over less than that, after a silence, is noise


def incoming(
    rows: int, began_at: float, before_at: float | None, idle_at: float | None
) -> float | None:
    """Rows a second since the batch before began, or since the source was last empty. None for the
    first batch of a run."""
    if before_at is None:
        return None
    empty_at = min(idle_at or 0.0, began_at - EMPTY_S_MIN)
    over_s = began_at - max(before_at, empty_at)
    return rows / over_s if over_s > 0 else None
