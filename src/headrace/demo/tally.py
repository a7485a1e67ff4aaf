"""Rows and batches over all runs of a demo: a status tells only of the current run. Pure.

And the pace: whether a machine falls behind its input, and the rate that it may keep up with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model.status import PipelineStatus, QueryStatus

BEHIND_FILES = 60  # a file a second: a minute behind; far more than any trigger waits
SETTLE_S = 45.0  # after a start or a change, until its effect can be seen
RATE_MIN = 20


@dataclass(frozen=True, slots=True)
class Total:
    """One query, all runs together."""

    rows_in: int = 0
    rows_out: int | None = None
    batches: int = 0
    fresh_p50_ms: float | None = None
    fresh_p99_ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        fresh = None if self.fresh_p50_ms is None else round(self.fresh_p50_ms)
        return {
            "rows_in": self.rows_in,
            "rows_out": self.rows_out or 0,
            "batches": self.batches,
            "fresh_p50_ms": fresh,
        }


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of a run only rise, so the last that was heard of each is its sum."""

    runs: Mapping[str, Mapping[str, QueryStatus]] = field(default_factory=dict)

    def heard(self, status: PipelineStatus) -> Tally:
        if status.run is None or not status.queries:
            return self
        mine = {**self.runs.get(status.run, {}), **{q.name: q for q in status.queries}}
        return Tally({**self.runs, status.run: mine})

    def totals(self) -> dict[str, Total]:
        found: dict[str, Total] = {}
        for queries in self.runs.values():
            for name, query in queries.items():
                found[name] = _plus(found.get(name, Total()), query)
        return found

    def with_rows_out(self, held: Mapping[str, int]) -> dict[str, Total]:
        """Of sinks that do not tell how many rows they took: how many they hold."""
        return {
            name: replace(one, rows_out=held.get(name)) if one.rows_out is None else one
            for name, one in self.totals().items()
        }

    def has_committed(self, names: frozenset[str]) -> bool:
        """Every one of these queries at least once since the demo began."""
        totals = self.totals()
        return bool(names) and all(name in totals and totals[name].batches for name in names)


def _plus(total: Total, query: QueryStatus) -> Total:
    fresh = (query.fresh_p50_ms, query.fresh_p99_ms)
    if query.fresh_p50_ms is None:
        fresh = (total.fresh_p50_ms, total.fresh_p99_ms)
    out = total.rows_out
    if query.rows_out is not None:
        out = (out or 0) + query.rows_out
    return Total(total.rows_in + query.rows_in, out, total.batches + query.batches, *fresh)


@dataclass(frozen=True, slots=True)
class Pace:
    """`since`: when the rate was set, or the pipeline started, last."""

    rate: int
    since: float
    behind: int = 0  # files, at the look before
    lowered: bool = False


def paced(pace: Pace, behind: int, now: float, *, is_running: bool) -> Pace:
    """The pace after another look. Half the rate once it is far behind and does not get better.

    A start takes a while and is no reason; one that still has not come to an end with two minutes
    of input waiting is.
    """
    if not is_running and behind < 2 * BEHIND_FILES:
        return Pace(pace.rate, now, behind, pace.lowered)
    is_worse = behind >= BEHIND_FILES and behind >= pace.behind
    if is_worse and now - pace.since >= SETTLE_S and pace.rate > RATE_MIN:
        return Pace(max(RATE_MIN, pace.rate // 2), now, behind, lowered=True)
    return Pace(pace.rate, pace.since, behind, pace.lowered)
