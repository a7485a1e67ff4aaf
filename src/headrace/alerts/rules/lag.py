"""Rules about lag: how far a query is behind, and when unread data is deleted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.alerts.rules import metrics
from headrace.alerts.rules.words import KEEPS_RUNNING, size, words
from headrace.model.lag import QueryLag
from headrace.model.rules import Hit, PipelineFacts, QueryFacts, Unknown
from headrace.model.times import clock, span

URGENT_S = 3600.0
RETENTION_SHARE = 0.25  # of a short retention: the rest is the time in which a query may lag


def above(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """Above one of the limits that are set; without any, never."""
    for query in facts.queries:
        known = {name: value_of(facts, query, name) for name in limits}
        over = [n for n, value in known.items() if value is not None and value > limits[n]]
        if not over and None in known.values():
            yield Unknown(query.name)
        if not over:
            continue
        amounts = " and ".join(as_text(name, known[name] or 0.0) for name in over)
        allowed = " and ".join(as_text(name, limits[name]) for name in over)
        fix = (
            f"Run `headrace why {facts.name}`. If the lag grows, use more cores, or make the query "
            "do less work."
        )
        said = words(facts, KEEPS_RUNNING, fix, query=query.name, Forecast=forecast(facts, query))
        yield Hit(f"{query.name} is {amounts} behind (limit: {allowed})", query.name, said)


def data_loss(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """Unread records are close to the end of the topic's retention. Also while nothing runs."""
    for name, lag in facts.lags.items():
        if lag.problem:
            yield Unknown(name)
            continue
        left_s, kept_s = lag.loss_in_s, _retention_s(lag)
        if lag.lost_records:
            left_s = 0.0
        if left_s is None or (kept_s is None and not lag.lost_records):
            continue
        within_s = limits["within"] if kept_s is None else min(
            limits["within"], kept_s * RETENTION_SHARE
        )  # fmt: skip
        if left_s > within_s:
            continue
        if lag.lost_records:
            title = f"{name}: {lag.lost_records:,} unread records were deleted by the broker"
        else:
            title = f"{name} loses data in {span(left_s)}: the topic then deletes unread records"
        fix = (
            "Raise the topic's retention (retention.ms) now; then make the query read faster, or "
            f"start it if it does not run. See `headrace lag` and `headrace why {facts.name}`."
        )
        severity = "critical" if left_s < URGENT_S else "error"
        cause = f"The oldest unread record has waited for {span(lag.seconds or 0.0)}."
        doing = "Keeps reading from the query's position." if facts.is_live else "Reads nothing."
        said = words(facts, doing, fix, cause=cause, query=name)
        yield Hit(title, name, said, severity=severity)


def _retention_s(lag: QueryLag) -> float | None:
    """Of the partition that loses data first."""
    known = [one for one in lag.partitions if one.loss_in_s is not None]
    return min(known, key=lambda one: one.loss_in_s or 0.0).kept_s if known else None


def value_of(facts: PipelineFacts, query: QueryFacts, limit: str) -> float | None:
    return metrics.METRICS[f"lag_{limit}"].read(facts, query)


def as_text(limit: str, value: float) -> str:
    if limit == "seconds":
        return span(value)
    return size(value) if limit == "bytes" else f"{value:,.0f} {limit}"


def forecast(facts: PipelineFacts, query: QueryFacts) -> str:
    """When the lag reaches the end of the retention, or zero."""
    lag = facts.lags.get(query.name)
    if lag is None or lag.problem:
        return ""
    if lag.catch_up_s:
        return f"At the current rates it has caught up in {span(lag.catch_up_s)}."
    if lag.loss_in_s is not None:
        at = clock(facts.at + lag.loss_in_s)
        return f"If it does not catch up, unread records are deleted from {at} on."
    return ""
