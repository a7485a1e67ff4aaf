"""More arrives than the query processes: it falls behind, and nothing but a change helps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headrace.model import trend
from headrace.model.findings import Finding
from headrace.model.health import moment, span
from headrace.model.limits import HealthLimits
from headrace.model.runview import QueryView, RunView
from headrace.model.series import Series, total

BUSY = 0.9  # share of the time: there is no room left
BATCHES = 6
GROWTH = 1.5  # the newest of them took so many times as long as the first, and none was shorter
LAG_GROWTH = 1.05
_LIMITS = {
    "addBatch": "the query itself",
    "latestOffset": "looking for new input",
    "getBatch": "looking for new input",
    "queryPlanning": "planning",
    "walCommit": "writing the checkpoint",
    "commitOffsets": "writing the checkpoint",
}


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    now = trend.over(query.series, limits.behind_s)
    if now is None or query.batch_length_s is not None or not _is_behind(query, now, limits):
        return
    since = _since(query.series, now)
    what = f"It falls behind since {moment(since, query.series.end)}: "
    arrives = now.arrival_rate
    if arrives is not None and now.lag is not None:
        what += (
            f"{arrives:,.0f} rows/s arrive and it processes {now.done_rate:,.0f} rows/s; "
            f"{now.lag:,.0f} rows wait, and they get more."
        )
    else:
        longest = max(query.batch_ms[-3:], default=0.0) / 1000
        what += f"its batches get longer and longer, the newest took {span(longest)}."
    cause, fix = _limit(query.series, now)
    yield Finding(
        slug="falling-behind", what=what, cause=cause, fix=fix, since=since, where=query.place
    )


def _is_behind(query: QueryView, now: trend.Trend, limits: HealthLimits) -> bool:
    if now.lag is not None:
        # Twice more than before: a burst that is being worked off grew only once.
        steps = (now.lag_then, now.lag_between, now.lag)
        grows = (a is not None and b is not None and b > a * LAG_GROWTH for a, b in pairwise(steps))
        return all(grows) and now.lag > query.last_rows_in
    newest = query.batch_ms[-BATCHES:]
    if len(newest) < BATCHES or now.busy < BUSY or sum(newest) < limits.behind_s * 1000:
        return False
    return newest[-1] >= GROWTH * newest[0] and all(b > 0.95 * a for a, b in pairwise(newest))


def _since(series: Series, now: trend.Trend) -> float:
    """From the newest bucket back for as long as less waited before: there it began to grow."""
    if now.lag is None:
        return now.begin
    since, least = now.begin, now.lag
    for bucket in reversed(series.buckets[:-1]):
        lag = bucket.last.get(trend.LAG)
        if lag is None:
            continue
        if lag >= least:
            break
        since, least = bucket.begin, lag
    return since


def _limit(series: Series, now: trend.Trend) -> tuple[str, str]:
    known = series.since(now.begin)
    if now.busy < BUSY:
        return (
            f"It works only {now.busy:.0%} of the time: a rate limit of its source (max_rows, "
            "max_files) or its trigger (every=) holds it back.",
            "Raise the limit, or trigger more often.",
        )
    spent = {name: total(known, f"ms.{name}") for name in _LIMITS}
    most = max(spent, key=lambda name: spent[name])
    share = spent[most] / max(1.0, sum(spent.values()))
    cause = f"It works all the time: {share:.0%} of it is {_LIMITS[most]} ({most})."
    if most == "addBatch":
        return cause, (
            "Give it more cores (spark.master) and the input more partitions, or let the query do "
            "less: filter before joins, parse fewer fields. The page says under “Why is it slow?” "
            "what would help most."
        )
    return cause, "The page says under “Why is it slow?” what would help most."
