"""Counts of a query over time: fine for the last minutes, coarse for the last week. Pure.

Built from the `counts` and `gauges` of `progressed` events; `health/conditions` compares them with
the query's past. Invariant: bounded, however long a run lives and whatever an events file holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headrace.model.numbers import real

# Length of a bucket in seconds, and how many of them are kept before they are merged into longer
# ones: 10 minutes, then 3 hours, then a week.
TIERS = ((10.0, 60), (60.0, 180), (3600.0, 168))
NAMES_MAX = 300  # names come from data (fields of a schema): a file may hold anything
LABELS_MAX = 50
NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Bucket:
    """`sums` add up; of `last` the newest value counts."""

    begin: float
    length: float
    sums: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, float] = field(default_factory=dict)

    @property
    def end(self) -> float:
        return self.begin + self.length


@dataclass(frozen=True, slots=True)
class Series:
    """Oldest first. A clock that goes back adds to the newest bucket."""

    buckets: tuple[Bucket, ...] = ()

    def plus(
        self, at: float, sums: Mapping[str, float], last: Mapping[str, float] = NOTHING
    ) -> Series:
        fine = TIERS[0][0]
        new = Bucket(at // fine * fine, fine, sums, last)
        if self.buckets and new.begin <= self.buckets[-1].begin:
            return Series((*self.buckets[:-1], _merge(self.buckets[-1], new)))
        return Series(_compact((*self.buckets, new)))

    @property
    def end(self) -> float:
        return self.buckets[-1].end if self.buckets else 0.0

    def since(self, at: float) -> tuple[Bucket, ...]:
        return tuple(bucket for bucket in self.buckets if bucket.end > at)

    def to_json(self) -> list[list[Any]]:
        return [[b.begin, b.length, dict(b.sums), dict(b.last)] for b in self.buckets]

    @classmethod
    def from_json(cls, body: Any) -> Series:
        """Invalid items are left out: only a comparison with the past is lost."""
        found = []
        for item in body if isinstance(body, list) else ():
            if isinstance(item, list) and len(item) == 4:
                begin, length = real(item[0]), real(item[1])
                if begin is not None and length is not None and length > 0:
                    found.append(Bucket(begin, length, numbers(item[2]), numbers(item[3])))
        found.sort(key=lambda bucket: bucket.begin)
        return cls(tuple(found[-sum(count for _, count in TIERS) :]))


EMPTY = Series()


def total(buckets: Iterable[Bucket], name: str) -> float:
    return sum(bucket.sums.get(name, 0.0) for bucket in buckets)


def numbers(body: Any) -> dict[str, float]:
    """The numbers of a mapping from a file that may hold anything."""
    if not isinstance(body, Mapping):
        return {}
    found: dict[str, float] = {}
    for name, value in body.items():
        known = real(value)
        if isinstance(name, str) and known is not None and len(found) < NAMES_MAX:
            found[name[:200]] = known
    return found


def labels(body: Any) -> dict[str, dict[str, str]]:
    """Labels of counts (place, source, …), by the prefix of their names: parsed.logs."""
    items = list(body.items())[:LABELS_MAX] if isinstance(body, Mapping) else []
    return {
        str(name)[:200]: {str(k)[:200]: v[:2000] for k, v in one.items() if isinstance(v, str)}
        for name, one in items
        if isinstance(one, Mapping)
    }


def _merge(old: Bucket, new: Bucket) -> Bucket:
    sums = dict(old.sums)
    for name, value in new.sums.items():
        if name in sums or len(sums) < NAMES_MAX:
            sums[name] = sums.get(name, 0.0) + value
    return Bucket(old.begin, old.length, sums, {**old.last, **new.last})


def _compact(buckets: tuple[Bucket, ...]) -> tuple[Bucket, ...]:
    """Each tier above its limit moves its oldest bucket to the next longer one."""
    parts = [[b for b in buckets if b.length == length] for length, _ in TIERS]
    for tier, (_, count) in enumerate(TIERS):
        if len(parts[tier]) <= count:
            continue
        oldest = parts[tier].pop(0)
        if tier + 1 < len(TIERS):
            length = TIERS[tier + 1][0]
            moved = Bucket(oldest.begin // length * length, length, oldest.sums, oldest.last)
            longer = parts[tier + 1]
            if longer and longer[-1].begin >= moved.begin:
                longer[-1] = _merge(longer[-1], moved)
            else:
                longer.append(moved)
    return tuple(bucket for part in reversed(parts) for bucket in part)
