"""The share of a query's rows, now and in its past: arithmetic for several conditions."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.limits import HealthLimits
from headrace.model.series import Bucket, Series, total
from headrace.model.times import clock

NEARLY_ALL = 0.99
REPROCESS = (
    "To reprocess the dropped rows, start over with a new checkpoint (and a new folder for a file "
    "sink)."
)


@dataclass(frozen=True, slots=True)
class Shift:
    """`part` of `whole` rows since `since`. `before` is the share in the `before_s` seconds before
    that, `before_max` its maximum over ranges with enough rows. None: there is no past."""

    share: float
    part: float
    whole: float
    since: float
    before: float | None
    before_max: float | None
    before_s: float = 0.0

    @property
    def rows_in_words(self) -> str:
        return "all rows" if self.share >= 1.0 else f"{percent(self.share)} of the rows"

    @property
    def in_words(self) -> str:
        """since 2026-11-18 18:54:00Z (9 of 10; 20 % before)"""
        before = "" if self.before is None else f"; {percent(self.before)} before"
        counts = f"{self.part:,.0f} of {self.whole:,.0f}"
        return f"since {clock(self.since)} ({counts}{before})"

    def is_jump(self, by: float, times: float = 2.0) -> bool:
        """Higher than ever before, by these points, and by this factor above the usual."""
        if self.before is None or self.before_max is None:
            return False
        return self.share >= self.before_max + by and self.share >= times * self.before


def is_ever(series: Series, part: str, whole: str, share: float) -> bool:
    """In any bucket. If not, no shift is as large: most queries need no further look."""
    for bucket in series.buckets:
        count = bucket.sums.get(part)
        if count and count >= share * bucket.sums.get(whole, 0.0):
            return True
    return False


def shift(series: Series, part: str, whole: str, limits: HealthLimits) -> Shift | None:
    """None with too few rows.

    "Now" is the newest window with enough rows, extended back while the share was at least half of
    that. All before it is the past.
    """
    buckets = _with_rows(series, whole)
    newest = recent(series, whole, limits)
    if not newest:
        return None
    share = _share(newest, part, whole)
    begin = len(buckets) - len(newest)
    while begin > 0 and _share_of(buckets[begin - 1], part, whole) >= share / 2 > 0:
        begin -= 1
    while begin < len(buckets) - 1 and _share_of(buckets[begin], part, whole) < share / 2:
        begin += 1  # the window began before the change did
    return _shift(buckets[begin:], buckets[:begin], part, whole, limits)


def _shift(
    streak: list[Bucket], past: list[Bucket], part: str, whole: str, limits: HealthLimits
) -> Shift | None:
    if total(streak, whole) < limits.rows_min:
        return None
    has_past = total(past, whole) >= limits.rows_min
    return Shift(
        share=_share(streak, part, whole),
        part=total(streak, part),
        whole=total(streak, whole),
        since=streak[0].begin,
        before=_share(past, part, whole) if has_past else None,
        before_max=_highest(past, part, whole, limits.rows_min) if has_past else None,
        before_s=past[-1].end - past[0].begin if has_past else 0.0,
    )


def full_or_shift(series: Series, part: str, whole: str, limits: HealthLimits) -> Shift | None:
    return _full(series, part, whole, limits) or shift(series, part, whole, limits)


def _full(series: Series, part: str, whole: str, limits: HealthLimits) -> Shift | None:
    """The newest range in which it is nearly all rows; None if it is missing or too short.

    The bucket before it may contain the change: it belongs to neither, if there are others.
    """
    buckets = _with_rows(series, whole)
    begin = len(buckets)
    while begin > 0:
        sums = buckets[begin - 1].sums
        if sums.get(part, 0.0) < NEARLY_ALL * sums[whole]:
            break
        begin -= 1
    before = buckets[: max(0, begin - 1)]
    past = before if total(before, whole) >= limits.rows_min else buckets[:begin]
    return _shift(buckets[begin:], past, part, whole, limits)


def recent(series: Series, whole: str, limits: HealthLimits) -> list[Bucket]:
    """The newest window, extended until it has enough rows. Empty: too few."""
    buckets = _with_rows(series, whole)
    found: list[Bucket] = []
    rows = 0.0
    for bucket in reversed(buckets):
        if rows >= limits.rows_min and buckets[-1].end - bucket.begin > limits.window_s:
            break
        found.insert(0, bucket)
        rows += bucket.sums.get(whole, 0.0)
    return found if total(found, whole) >= limits.rows_min else []


def percent(share: float) -> str:
    """100 % only if it is all of them."""
    if share >= 1.0:
        return "100 %"
    shown = min(share * 100, 99.9)
    return f"{shown:.0f} %" if 1 <= shown < 99 else f"{shown:.2g} %" if shown < 1 else "99 %"


def _with_rows(series: Series, whole: str) -> list[Bucket]:
    return [bucket for bucket in series.buckets if bucket.sums.get(whole, 0.0) > 0]


def _share(buckets: list[Bucket], part: str, whole: str) -> float:
    return min(1.0, total(buckets, part) / max(1.0, total(buckets, whole)))


def _share_of(bucket: Bucket, part: str, whole: str) -> float:
    return min(1.0, bucket.sums.get(part, 0.0) / max(1.0, bucket.sums.get(whole, 0.0)))


def _highest(buckets: list[Bucket], part: str, whole: str, rows_min: int) -> float:
    """Over ranges of at least `rows_min` rows, so that a single row does not decide."""
    highest = held_part = held = 0.0
    for bucket in buckets:
        held_part += bucket.sums.get(part, 0.0)
        held += bucket.sums.get(whole, 0.0)
        if held >= rows_min:
            highest = max(highest, min(1.0, held_part / max(1.0, held)))
            held_part = held = 0.0
    return highest
