"""State that only grows: no row is ever removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding, Severity
from headrace.model.limits import HealthLimits
from headrace.model.series import Bucket, total
from headrace.model.times import clock, span

ROWS_MIN = 1_000  # less is not reported
STILL_GROWS = 0.25  # share of the growth in the second half: it does not level off
REMOVED = 0.01  # share of the growth; less counts as nothing
SOON_S = 86_400.0
_WHY = {
    "stateStoreSave": (
        "an aggregation",
        "The grouping keys include no event time with a watermark, so no group is ever complete.",
        "Use withWatermark and group by a window over the event time, or group by columns with "
        "fewer values.",
    ),
    "dedupe": (
        "dropDuplicates",
        "The columns include no event time with a watermark, so no key is ever removed.",
        "Use withWatermark and dropDuplicatesWithinWatermark.",
    ),
    "symmetricHashJoin": (
        "a join of two streams",
        "The join has no time limit after which a row can be removed.",
        "Use withWatermark on both sides, and add a time range to the join condition.",
    ),
}
_OWN = (
    "your own function",
    "The function sets no timeout or TTL, or never clears its state.",
    "Set a timeout or a TTL, or clear the state when a key is no longer needed.",
)


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    for place, operator in enumerate(query.operators):
        yield from _operator(view, query, place, operator, limits)


def _operator(
    view: RunView, query: QueryView, place: int, operator: str, limits: HealthLimits
) -> Iterator[Finding]:
    rows = f"state.{place}.rows"
    end = query.series.end
    known = [b for b in query.series.buckets if rows in b.last]
    window = [b for b in known if b.end > end - limits.state_s]
    if not window or known[0].begin > end - limits.state_s or _is_too_early(window, limits):
        return
    first, last = window[0].last[rows], window[-1].last[rows]
    middle = [b for b in window if b.end <= end - limits.state_s / 2][-1:] or window[:1]
    grown, removed = last - first, total(window[1:], f"state.{place}.removed")
    is_steady = last - middle[0].last[rows] >= STILL_GROWS * grown
    if last < ROWS_MIN or grown < last * 0.01 or removed > REMOVED * grown or not is_steady:
        return
    name, cause, fix = _WHY.get(operator, _OWN)
    left_s = _time_left_s(view, window, f"state.{place}.bytes")
    runs_out = "" if left_s is None else f" At this rate, the disk will be full in {span(left_s)}."
    is_soon = left_s is not None and left_s < SOON_S
    yield Finding(
        slug="state-grows",
        what=f"The state of {name} ({operator}) keeps growing: {grown:,.0f} more rows since "
        f"{clock(window[0].begin)}, {removed:,.0f} removed, {last:,.0f} in total.{runs_out}",
        cause=cause,
        fix=f"{fix} Changing the grouping keys requires a new checkpoint (and a new folder for a "
        "file sink).",
        severity=(Severity.PROBLEM if is_soon else Severity.WARNING).value,
        since=window[0].begin,
        where=query.place,
    )


def _is_too_early(window: Sequence[Bucket], limits: HealthLimits) -> bool:
    """Until the watermark has passed this, nothing can be removed."""
    watermark = window[-1].last.get("event.watermark") or window[-1].end
    return window[-1].end - watermark > limits.state_s / 2


def _time_left_s(view: RunView, window: Sequence[Bucket], name: str) -> float | None:
    """Until the disk is full, at the current growth."""
    took_s = window[-1].end - window[0].begin
    grown = window[-1].last.get(name, 0.0) - window[0].last.get(name, 0.0)
    if view.disk_free is None or grown <= 0 or took_s <= 0:
        return None
    return view.disk_free / (grown / took_s)
