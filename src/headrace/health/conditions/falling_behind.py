"""More rows arrive than the query processes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headrace.health import trend
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.progress import Phase
from headrace.model.series import Series, total
from headrace.model.times import clock, span

BUSY = 0.9  # share of the time: no capacity left
BATCHES = 6
GROWTH = 1.5  # ratio of the newest to the first, with none shorter in between
LAG_GROWTH = 1.05
_LIMITS = {
    Phase.ADD_BATCH: "processing rows",
    Phase.LATEST_OFFSET: "looking for new input",
    Phase.GET_BATCH: "looking for new input",
    Phase.QUERY_PLANNING: "planning the query",
    Phase.WAL_COMMIT: "writing the checkpoint",
    Phase.COMMIT_OFFSETS: "writing the checkpoint",
}


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    now = trend.over(query.series, limits.behind_s)
    if now is None or query.batch_length_s is not None or not _is_behind(query, now, limits):
        return
    since = _since(query.series, now)
    what = f"Falling behind since {clock(since)}: "
    arrives = now.arrival_rate
    if arrives is not None and now.lag is not None:
        what += (
            f"{arrives:,.0f} rows/s arrive, but the query processes only {now.done_rate:,.0f} "
            f"rows/s; {now.lag:,.0f} rows are waiting, and the number is growing."
        )
    else:
        longest = max(query.batch_ms[-3:], default=0.0) / 1000
        what += f"each batch takes longer than the one before; the latest took {span(longest)}."
    cause, fix = _limit(query.series, now)
    yield Finding(
        slug="falling-behind", what=what, cause=cause, fix=fix, since=since, where=query.place
    )


def _is_behind(query: QueryView, now: trend.Trend, limits: HealthLimits) -> bool:
    if now.lag is not None:
        # Growth in both halves: after a burst the lag grows only once.
        steps = (now.lag_then, now.lag_between, now.lag)
        grows = (a is not None and b is not None and b > a * LAG_GROWTH for a, b in pairwise(steps))
        return all(grows) and now.lag > query.last_rows_in
    newest = query.batch_ms[-BATCHES:]
    if len(newest) < BATCHES or now.busy < BUSY or sum(newest) < limits.behind_s * 1000:
        return False
    return newest[-1] >= GROWTH * newest[0] and all(b > 0.95 * a for a, b in pairwise(newest))


def _since(series: Series, now: trend.Trend) -> float:
    """When the lag began to grow: back from the newest bucket while it was smaller before."""
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
            f"The query is busy only {now.busy:.0%} of the time: it is limited by the "
            "source's rate limit (max_rows, max_files) or by the trigger (every=).",
            "Increase the rate limit, or trigger more often.",
        )
    spent = {name: total(known, f"ms.{name}") for name in _LIMITS}
    most = max(spent, key=lambda name: spent[name])
    share = spent[most] / max(1.0, sum(spent.values()))
    cause = f"The query is always busy: {share:.0%} of the time is spent {_LIMITS[most]} ({most})."
    if most is Phase.ADD_BATCH:
        return cause, (
            "Use more cores (spark.master) and more input partitions, or make the query do "
            "less work: filter before joins, parse fewer fields. Look under “Why is it slow?” on "
            "the page to see what would help most."
        )
    return cause, "Look under “Why is it slow?” on the page to see what would help most."
