"""The lag of a query in its topics: records, seconds, and the time until data is lost. Measured
by the relay, even while the query is down. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from headrace.model.runs import Jsonable
from headrace.model.times import span

SEEN_S = 30.0  # an older measurement is void
RATE_S_MIN = 3.0  # a rate over less is noise


@dataclass(frozen=True, slots=True)
class PartitionLag(Jsonable):
    """`next` is the next record to read, `low` and `high` are the ends of the partition. `waits_s`:
    how long the oldest unread record has waited; `kept_s`: the topic's retention. None: unknown, or
    unlimited."""

    topic: str
    partition: int
    next: int
    low: int
    high: int
    waits_s: float | None = None
    kept_s: float | None = None

    @property
    def records(self) -> int:
        return max(0, self.high - max(self.next, self.low))

    @property
    def lost_records(self) -> int:
        return max(0, self.low - self.next)

    @property
    def loss_in_s(self) -> float | None:
        """Until the oldest unread record may be deleted."""
        if not self.records or self.waits_s is None or self.kept_s is None:
            return None
        return max(0.0, self.kept_s - self.waits_s)


@dataclass(frozen=True, slots=True)
class QueryLag(Jsonable):
    """`at` is the time of the measurement. With a `problem` nothing else is known."""

    pipeline: str
    query: str
    at: float
    partitions: tuple[PartitionLag, ...] = ()
    catch_up_s: float | None = None  # at the rates of the last minute; None: not in sight
    is_real_time: bool = False  # its position is known at the end of a batch only
    written_s: float | None = None  # of a real-time one: age of the newest record in its topic
    problem: str | None = None
    group: str | None = None  # the consumer group that is moved along with it
    group_problem: str | None = None  # why the group could not be moved

    @property
    def records(self) -> int | None:
        return None if self.problem else sum(one.records for one in self.partitions)

    @property
    def seconds(self) -> float | None:
        if self.problem:
            return None
        known = [one.waits_s for one in self.partitions if one.records and one.waits_s is not None]
        return max(known, default=0.0 if self.records == 0 else None)

    @property
    def loss_in_s(self) -> float | None:
        known = [one.loss_in_s for one in self.partitions if one.loss_in_s is not None]
        return min(known, default=None)

    @property
    def lost_records(self) -> int:
        return sum(one.lost_records for one in self.partitions)

    @property
    def note(self) -> str | None:
        """A note on the numbers."""
        if self.problem or not self.is_real_time:
            return None
        written_s = self.written_s
        newest = "" if written_s is None else f"; newest row written {span(written_s)} ago"
        return f"real time: as of the last batch{newest}"

    def is_of(self, now: float) -> bool:
        return now - self.at <= SEEN_S

    def as_of(self, now: float) -> QueryLag:
        """The same, or only a problem if the measurement is too old."""
        if self.is_of(now):
            return self
        words = f"not measured for {span(now - self.at)}: no supervisor or relay is running"
        return replace(self, partitions=(), catch_up_s=None, written_s=None, problem=words)

    def to_json(self) -> dict[str, Any]:
        """With the derived numbers."""
        worked_out = {
            "records": self.records,
            "seconds": self.seconds,
            "loss_in_s": self.loss_in_s,
            "gone": None if self.problem else self.lost_records,
            "note": self.note,
        }
        return {**asdict(self), **worked_out}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        partitions = [PartitionLag.from_json(one) for one in body["partitions"]]
        return super(QueryLag, cls).from_json({**body, "partitions": partitions})


def catch_up_s(seen: Sequence[QueryLag]) -> float | None:
    """Seconds until it has caught up, at the rate between these measurements, oldest first."""
    good = [one for one in seen if not one.problem]
    if not seen or seen[-1].problem or len(good) < 2 or good[-1].at - good[0].at < RATE_S_MIN:
        return None
    behind, before = good[-1].records or 0, good[0].records or 0
    if behind == 0:
        return 0.0
    gained = (before - behind) / (good[-1].at - good[0].at)
    return behind / gained if gained > 0 else None
