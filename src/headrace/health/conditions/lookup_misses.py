"""A join with a lookup table drops rows: the table is empty, or no longer has the stream's keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.health.conditions import shares
from headrace.health.conditions.shares import NEARLY_ALL, REPROCESS, Shift
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding, Severity
from headrace.model.limits import HealthLimits
from headrace.model.times import clock

USUAL_MAX = 0.9  # a join that always drops more is a filter
HIGHEST_MAX = 0.97
SOME = 0.1  # a join that drops less is not a filter, however short its past
PAST_WINDOWS = 5
JUMP = 0.3


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    for key, about in query.counted.items():
        kind, _, name = key.partition(".")
        if kind != "lookup":
            continue
        empty = _empty_since(query, key)
        if empty is not None:
            yield _empty(name, about, empty)
            continue
        shift = shares.full_or_shift(query.series, f"{key}.lost", f"{key}.in", limits)
        if shift is not None and (severity := _severity(shift, limits)) is not None:
            yield _unmatched_finding(name, about, shift, severity)


def _severity(shift: Shift, limits: HealthLimits) -> Severity | None:
    if shift.before is None or shift.before_max is None:
        return None
    has_past = shift.before_s >= PAST_WINDOWS * limits.window_s
    if not has_past and shift.before_max > SOME:
        return None
    is_all = shift.share >= NEARLY_ALL
    if is_all and shift.before <= USUAL_MAX and shift.before_max <= HIGHEST_MAX:
        return Severity.PROBLEM
    has_halved = 1.0 - shift.share <= (1.0 - shift.before) / 2
    return Severity.WARNING if has_halved and shift.is_jump(JUMP, times=1.0) else None


def _empty_since(query: QueryView, key: str) -> float | None:
    """Reported for any number of rows: an empty table is certain."""
    since = None
    for bucket in reversed(query.series.buckets):
        came = bucket.sums.get(f"{key}.in", 0.0)
        if came and bucket.sums.get(f"{key}.empty", 0.0) < came:
            break
        since = bucket.begin if came else since
    return since


def _empty(name: str, about: Mapping[str, str], since: float) -> Finding:
    return Finding(
        slug="lookup-empty",
        what=f"The lookup table {name} is empty: the join with it has dropped every row since "
        f"{clock(since)}.",
        cause=f"The source of {name} had no rows when the query started (for example, a load "
        "failed or a path is wrong), or its rows were deleted later.",
        fix=f"Load rows into {name}. If the query reads the table only once, when it starts, "
        f"restart the pipeline. To keep rows without a match, use a left join. {REPROCESS}",
        since=since,
        where=about.get("place"),
    )


def _unmatched_finding(
    name: str, about: Mapping[str, str], shift: Shift, severity: Severity
) -> Finding:
    return Finding(
        slug="lookup-unmatched",
        what=f"The join with {name} has dropped {shift.rows_in_words} since "
        f"{clock(shift.since)} ({shift.part:,.0f} of {shift.whole:,.0f} rows, "
        f"compared with {shares.percent(shift.before or 0.0)} before).",
        cause=f"Rows in the stream have keys that are missing from {name}: the table lost rows or "
        "is out of date, or the keys changed (a different format, nulls).",
        fix=f"Compare the stream's keys with {name} (`headrace sql`), and load the missing rows or "
        f"correct the keys. To keep rows without a match, use a left join. {REPROCESS}",
        severity=severity.value,
        since=shift.since,
        where=about.get("place"),
    )
