"""Records that are gone from a broker before a query has read them. A person may agree to go on
without them, and does so once: by the gaps that were shown, until they are behind."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.runs import Jsonable


@dataclass(frozen=True, slots=True)
class Gap(Jsonable):
    """`first` to before `low` are gone; `low` is None where the whole partition is, and then
    `is_named` says that the source cannot be read without it. `high` below `first`: the topic was
    made anew, and counts from 0 again. `checkpoint` is the query's, which says where it stands."""

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
            return f"{at} does not exist any more (it stood at {self.first:,})"
        if self.first > self.high:
            # Spark goes on at the end: a position in the old topic says nothing about the new one.
            return (
                f"{at} was made anew: it stood at {self.first:,}, now it ends at {self.high:,}; "
                f"what is in it now is left out, too: {self.high - self.low:,} records"
            )
        return f"{at}: {self.low - self.first:,} records, from {self.first:,} to {self.low - 1:,}"

    def is_behind(self, position: int | None) -> bool:
        """Whether a query that stands there, or nowhere in this partition, has passed it."""
        if self.low is None or self.first > self.high:  # no place in what is gone is before it
            return position != self.first
        return position is None or position >= self.low or position < self.first  # made anew
