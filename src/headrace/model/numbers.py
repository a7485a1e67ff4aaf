"""Numbers from files that may hold anything: valid ones, or None. The only place that decides."""

from __future__ import annotations

from typing import Any

WHOLE_MAX = 2**63 - 1  # the largest integer in SQLite
REAL_MAX = 1e18  # sums of these stay finite


def real(value: Any) -> float | None:
    """A finite number. Spark writes NaN and Infinity where it has no rate."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and -REAL_MAX <= value <= REAL_MAX else None


def whole(value: Any) -> int | None:
    """An integer that SQLite can store; 2.5 becomes 2."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and -WHOLE_MAX <= value <= WHOLE_MAX else None


def count(value: Any) -> int:
    """A whole number that is not negative; 0 if it is anything else."""
    return max(0, whole(value) or 0)
