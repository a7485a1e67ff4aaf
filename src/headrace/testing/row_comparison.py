"""Compares the rows that a pipeline should have written with those that it has written. Pure.

Both sides are multisets, so a row that was written twice is seen even where rows repeat. Used by
`headrace demo` and by our own tests of exactly-once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    lost: Counter[Any] = field(default_factory=Counter)  # expected, not found
    doubled: Counter[Any] = field(default_factory=Counter)  # found more often than expected
    unexpected: Counter[Any] = field(default_factory=Counter)  # never expected

    @property
    def is_empty(self) -> bool:
        return not (self.lost or self.doubled or self.unexpected)

    def examples(self, count: int) -> tuple[str, ...]:
        """The first rows of each kind, at most `count` in all."""
        named = {"lost": self.lost, "duplicated": self.doubled, "unexpected": self.unexpected}
        found = [f"{name}: {row}" for name, rows in named.items() for row in rows]
        return tuple(found[:count])

    def __str__(self) -> str:
        if self.is_empty:
            return "no difference"
        counts = (self.lost.total(), self.doubled.total(), self.unexpected.total())
        text = "{} lost, {} duplicated, {} unexpected".format(*counts)
        return "; ".join([text, *self.examples(3)])


def compare(expected: Iterable[Hashable], actual: Iterable[Hashable]) -> Difference:
    """Rows in any order. A Counter counts as the rows that it holds."""
    want, have = Counter(expected), Counter(actual)
    surplus = have - want
    return Difference(
        lost=want - have,
        doubled=Counter({row: n for row, n in surplus.items() if row in want}),
        unexpected=Counter({row: n for row, n in surplus.items() if row not in want}),
    )
