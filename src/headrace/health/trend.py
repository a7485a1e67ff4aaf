"""Whether a query gains on its source or falls behind it, from its series. Pure.

Spark's input rate is what a batch read, which a rate limit may have reduced. The lag and its growth
are the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.progress import Phase
from headrace.model.series import Bucket, Series, total

LAG = "lag"
WORK_MS = f"ms.{Phase.WHOLE}"


@dataclass(frozen=True, slots=True)
class Trend:
    """Over a time range. Lags are in rows, at its beginning, middle and end."""

    begin: float
    end: float
    rows: float
    busy: float  # share of the time in which a batch ran
    lag_then: float | None
    lag: float | None
    lag_between: float | None = None  # in the middle of it

    @property
    def length_s(self) -> float:
        return max(1.0, self.end - self.begin)

    @property
    def done_rate(self) -> float:
        return self.rows / self.length_s

    @property
    def gain_rate(self) -> float | None:
        """Rows per second by which it catches up; negative if it falls behind; None if unknown."""
        if self.lag is None or self.lag_then is None:
            return None
        return (self.lag_then - self.lag) / self.length_s

    @property
    def arrival_rate(self) -> float | None:
        gain = self.gain_rate
        return None if gain is None else max(0.0, self.done_rate - gain)


def over(series: Series, length_s: float) -> Trend | None:
    """Over the newest range of at least that length; None while the series is shorter."""
    known = series.since(series.end - length_s)
    before = [b for b in series.buckets if b.end <= series.end - length_s and LAG in b.last]
    if not known or series.buckets[0].begin > series.end - length_s:
        return None
    busy = total(known, WORK_MS) / 1000 / max(1.0, known[-1].end - known[0].begin)
    return Trend(
        begin=known[0].begin,
        end=known[-1].end,
        rows=total(known, "rows"),
        busy=min(1.0, busy),
        lag_then=before[-1].last[LAG] if before else None,
        lag=_newest(known),
        lag_between=_newest([b for b in known if b.end <= (known[0].begin + known[-1].end) / 2]),
    )


def _newest(buckets: Sequence[Bucket]) -> float | None:
    return next((b.last[LAG] for b in reversed(buckets) if LAG in b.last), None)
