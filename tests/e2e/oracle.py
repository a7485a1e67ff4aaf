"""Nothing lost, nothing doubled: multisets, never `distinct`.

Input rows carry a dense id, the file they were written in, and a checksum of their payload.
`compare` is what every proof ends in; it is itself tested on seeded faults (test_oracle.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Difference:
    lost: Counter[Hashable] = field(default_factory=Counter)  # expected, not found
    doubled: Counter[Hashable] = field(default_factory=Counter)  # found more often than expected
    phantom: Counter[Hashable] = field(default_factory=Counter)  # never expected at all

    @property
    def is_none(self) -> bool:
        return not (self.lost or self.doubled or self.phantom)

    def __str__(self) -> str:
        parts = []
        for name in ("lost", "doubled", "phantom"):
            rows: Counter[Hashable] = getattr(self, name)
            if rows:
                some = ", ".join(str(row) for row in list(rows)[:3])
                parts.append(f"{rows.total()} {name} (e.g. {some})")
        return "; ".join(parts) or "no difference"


def compare(expected: Iterable[Hashable], got: Iterable[Hashable]) -> Difference:
    want, have = Counter(expected), Counter(got)
    surplus = have - want
    return Difference(
        lost=want - have,
        doubled=Counter({row: n for row, n in surplus.items() if row in want}),
        phantom=Counter({row: n for row, n in surplus.items() if row not in want}),
    )


def torn(seen: Iterable[tuple[str, int]], rows_per_file: Mapping[str, int]) -> list[str]:
    """A micro-batch takes input files whole, so a reader must see all rows of a file or none.

    `seen`: (input file, row id) as one read returned them.
    """
    counts = Counter(file for file, _ in seen)
    return [
        f"{file}: {count} of {rows_per_file[file]} rows visible"
        for file, count in counts.items()
        if count % rows_per_file[file] != 0
    ]


def shrunk(before: Iterable[Hashable], after: Iterable[Hashable]) -> Counter[Hashable]:
    """Rows that a reader saw once and never again: committed output must not go away."""
    return Counter(before) - Counter(after)
