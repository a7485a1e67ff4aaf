"""Event times are in the future: the watermark follows them, and every other row is too late."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.series import Bucket, total
from headrace.model.times import clock, span

WATERMARK = "event.watermark"


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    ahead = [bucket for bucket in query.series.buckets if bucket.sums.get("ahead")]
    if is_watermark_ahead(query, limits):
        yield _stuck(query, ahead, limits)
    elif ahead and query.series.end - ahead[-1].end < limits.window_s:
        yield _future_times_finding(query, ahead)


def is_watermark_ahead(query: QueryView, limits: HealthLimits) -> bool:
    known = _with_watermark(query)
    return bool(known) and _is_ahead(known[-1], limits)


def _with_watermark(query: QueryView) -> list[Bucket]:
    return [bucket for bucket in query.series.buckets if WATERMARK in bucket.last]


def _is_ahead(bucket: Bucket, limits: HealthLimits) -> bool:
    return bucket.last[WATERMARK] > bucket.end + limits.future_s


def _stuck(query: QueryView, ahead: list[Bucket], limits: HealthLimits) -> Finding:
    now = query.series.end
    buckets = _with_watermark(query)
    watermark = buckets[-1].last[WATERMARK]
    begin = len(buckets)
    while begin > 0 and _is_ahead(buckets[begin - 1], limits):
        begin -= 1
    since = buckets[begin].begin
    return Finding(
        slug="watermark-in-future",
        what=f"The watermark is at {clock(watermark)}, {span(watermark - now)} ahead of the clock: "
        f"rows with an earlier event time have been dropped since {clock(since)}"
        f"{_format_counts(query, ahead)}.",
        cause="At least one row has an event time in the future (a wrong clock, or milliseconds "
        "read as seconds). The watermark follows the latest event time and never moves backwards.",
        fix="Filter out rows with future event times before withWatermark, for example "
        '.where("TIME < current_timestamp() + INTERVAL 1 HOUR"). The checkpoint keeps this '
        "watermark: to reprocess the dropped rows, deploy the filter with a new checkpoint "
        "(and a new folder for a file sink).",
        since=since,
        where=query.place,
    )


def _future_times_finding(query: QueryView, ahead: list[Bucket]) -> Finding:
    now, newest = query.series.end, ahead[-1].last.get("event.max", 0.0)
    return Finding(
        slug="event-time-in-future",
        what=f"The latest event time is {clock(newest)}, {span(newest - now)} ahead of the clock"
        f"{_format_counts(query, ahead)}.",
        cause="A producer's clock is wrong, or milliseconds are read as seconds.",
        fix="Filter out rows with future event times before withWatermark, for example "
        '.where("TIME < current_timestamp() + INTERVAL 1 HOUR"). Otherwise the watermark follows '
        "the latest event time, and rows with earlier times are dropped.",
        since=ahead[-1].begin,
        where=query.place,
    )


def _format_counts(query: QueryView, ahead: list[Bucket]) -> str:
    rows = total(ahead[-1:], "rows")
    if not rows:
        return ""
    found = query.examples.get("ahead")
    example = f", for example {found}" if found else ""
    return (
        f" (about {total(ahead[-1:], 'ahead'):,.0f} of {rows:,.0f} rows have future event times"
        f"{example})"
    )
