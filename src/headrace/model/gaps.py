"""Records that a broker deleted before a query read them. A person may accept the gaps that were
shown; the query then continues without them, once."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.runs import Jsonable


@dataclass(frozen=True, slots=True)
class Gap(Jsonable):
    """Records from `first` to before `low` are gone. `low` is None if the partition is; then
    `is_named` means that the source cannot be read without it. `high` below `first`: the topic was
    recreated and counts from 0 again. `checkpoint` is the query's, which has its position."""

    query: str
    topic: str
    partition: int
    first: int
    low: int | None
    high: int = 0
    is_named: bool = False
    checkpoint: str = ""

    def in_words(self) -> str:
        at = f"{self.query}: {self.topic}, partition {self.partition}"
        if self.low is None:
            return f"{at} no longer exists (position {self.first:,})"
        if self.first > self.high:
            # Spark continues at the end: a position in the old topic means nothing in the new one.
            return (
                f"{at} was recreated: the query is at {self.first:,}, but the partition ends at "
                f"{self.high:,}; its current records ({self.high - self.low:,}) are skipped too"
            )
        return f"{at}: {self.low - self.first:,} records, from {self.first:,} to {self.low - 1:,}"

    def is_behind(self, position: int | None) -> bool:
        """Whether a query at this position (None: it never read the partition) has passed it."""
        if self.low is None or self.first > self.high:  # the partition is gone or recreated
            return position != self.first
        return position is None or position >= self.low or position < self.first  # recreated
