"""Which window of a live table has not ended yet: its value still grows, so it is drawn apart."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any


def current_window(xs: Iterable[Any], now: float) -> str | None:
    """The newest of the times `xs`, if a window that starts there has not ended by `now`.

    Windows are as long as the smallest distance of two of them. None where x is not a time.
    """
    starts: dict[float, str] = {}
    for x in xs:
        if (start := _seconds(x)) is not None:
            starts[start] = x
    ordered = sorted(starts)
    if len(ordered) < 2:
        return None
    length_s = min(after - before for before, after in pairwise(ordered))
    return starts[ordered[-1]] if ordered[-1] + length_s > now else None


def _seconds(x: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(x) if isinstance(x, str) and "T" in x else None
    except ValueError:
        return None
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
