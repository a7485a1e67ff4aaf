"""Rows and batches over all runs of a demo (a status covers only the current run), and the pace:
the input rate that the machine can keep up with. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model.status import PipelineStatus, QueryStatus

BEHIND_FILES = 60  # one file per second: a minute behind, far more than any trigger interval
SETTLE_S = 45.0  # after a start or a change of rate
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
class RunTotals:
    """The newest status of each run holds its totals, since the numbers of a run only grow."""

    runs: Mapping[str, Mapping[str, QueryStatus]] = field(default_factory=dict)

    def with_status(self, status: PipelineStatus) -> RunTotals:
        if status.run is None or not status.queries:
            return self
        mine = {**self.runs.get(status.run, {}), **{q.name: q for q in status.queries}}
        return RunTotals({**self.runs, status.run: mine})

    def totals(self) -> dict[str, Total]:
        found: dict[str, Total] = {}
        for queries in self.runs.values():
            for name, query in queries.items():
                found[name] = _plus(found.get(name, Total()), query)
        return found

    def with_rows_out(self, held: Mapping[str, int]) -> dict[str, Total]:
        """For sinks that do not report rows written, take the rows that they hold."""
        return {
            name: replace(total, rows_out=held.get(name)) if total.rows_out is None else total
            for name, total in self.totals().items()
        }

    def has_committed(self, names: frozenset[str]) -> bool:
        """Each of these queries has committed at least one batch."""
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
    """`since`: the last change of rate or start of the pipeline."""

    rate: int
    since: float
    behind: int = 0  # files, at the last look
    lowered: bool = False


def adjust_pace(pace: Pace, behind: int, now: float, *, is_running: bool) -> Pace:
    """Halve the rate if the pipeline is far behind and does not catch up.

    A pipeline that is starting may fall behind, but not by more than two minutes of input.
    """
    if not is_running and behind < 2 * BEHIND_FILES:
        return Pace(pace.rate, now, behind, pace.lowered)
    is_worse = behind >= BEHIND_FILES and behind >= pace.behind
    if is_worse and now - pace.since >= SETTLE_S and pace.rate > RATE_MIN:
        return Pace(max(RATE_MIN, pace.rate // 2), now, behind, lowered=True)
    return Pace(pace.rate, pace.since, behind, pace.lowered)
