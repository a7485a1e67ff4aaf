"""The watermark, and with it all output, waits for one idle input of a join or union."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.series import Bucket, total
from headrace.model.times import clock

WATERMARK = "event.watermark"
_FILES = re.compile(r"FileStreamSource\[(?:file:)?(?P<path>.*)\]")
_TOPIC = re.compile(r"KafkaV2\[\w+\[(?P<topics>.*)\]\]")


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    if len(query.sources) < 2 or not query.operators:
        return
    now = max(query.series.end, view.last_line_at or 0.0)
    known = [b for b in query.series.buckets if WATERMARK in b.last]
    held = _held_buckets(known)
    if not held or now - held[0].end < limits.held_s:
        return
    rows = [total(held[1:], f"in.{place}") for place in range(len(query.sources))]
    idle = [place for place, count in enumerate(rows) if not count]
    if not idle or len(idle) == len(rows):
        return
    since = min(_last_rows_at(query.series.buckets, place) for place in idle)
    names = " and ".join(_name(query.sources[place]) for place in idle)
    has, is_ = ("has", "is") if len(idle) == 1 else ("have", "are")
    at = held[-1].last[WATERMARK]
    stays = f"is stuck at {clock(at)}" if at else "has not been set yet"
    yield Finding(
        slug="watermark-held",
        what=f"The watermark {stays}, so results are held back: {names} {has} delivered no rows "
        f"since {clock(since)}, while other inputs have delivered {sum(rows):,.0f} rows.",
        cause="A query's watermark follows its slowest input, so an idle input holds the watermark "
        "back and delays windows and joins.",
        fix=f"Find out why {names} {is_} idle. If that is normal, make the source send a record "
        'from time to time, or set "spark.sql.streaming.multipleWatermarkPolicy" = "max" for '
        "this pipeline. Rows from the slower input may then be dropped as late.",
        since=since,
        where=query.place,
    )


def _held_buckets(known: Sequence[Bucket]) -> list[Bucket]:
    """The newest buckets over which the watermark is the same."""
    held: list[Bucket] = []
    for bucket in reversed(known):
        if held and bucket.last[WATERMARK] != held[0].last[WATERMARK]:
            break
        held.insert(0, bucket)
    return held


def _last_rows_at(buckets: Sequence[Bucket], source: int) -> float:
    busy = [bucket for bucket in buckets if bucket.sums.get(f"in.{source}")]
    return busy[-1].end if busy else buckets[0].begin


def _name(description: str) -> str:
    """Spark's description of a source, readable."""
    if found := _FILES.fullmatch(description):
        return f"the folder {found['path']}"
    if found := _TOPIC.fullmatch(description):
        return f"the topic {found['topics']}"
    return description
