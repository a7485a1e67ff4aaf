"""What a reader of committed output must never see: half an input file, or rows that go away.

Input rows carry a dense id, the file they were written in, and a checksum of their payload.
Rows are compared by headrace.testing.row_comparison; test_oracle.py tests both on seeded faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping


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
