"""The input: a folder filled before anything starts, so that no generator competes for the cores.

A few base files with random rows, and many names for each (hard links): as much input as wanted,
little disk. `Feed` knows what every name holds, so that answers can be checked.
Event times stay within two hours across midnight, in slices: two days, nothing ever late.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGINNING = datetime(2026, 3, 1, 23, tzinfo=UTC)
SPAN_S = 2 * 3600
BASES = 16
KEYS = 500
SEED = 7
WINDOW_S = 60

Counts = Counter[tuple[int, str]]  # (start of the window, key) -> rows


@dataclass(frozen=True, slots=True)
class Base:
    rows: int
    amount: int  # their sum
    counts: Counts


@dataclass(frozen=True, slots=True)
class Feed:
    folder: Path
    bases: tuple[Base, ...]
    files: int

    def base_of(self, path: str) -> Base:
        """rows-000123-b07.json is a name of base 7."""
        return self.bases[int(Path(path).stem.rpartition("-b")[2])]

    def rows(self, paths: Iterable[str]) -> int:
        return sum(self.base_of(path).rows for path in paths)

    def amount(self, paths: Iterable[str]) -> int:
        return sum(self.base_of(path).amount for path in paths)

    def counts(self, paths: Iterable[str]) -> Counts:
        times = Counter(Path(path).stem.rpartition("-b")[2] for path in paths)
        found: Counts = Counter()
        for base, count in times.items():
            for group, rows in self.bases[int(base)].counts.items():
                found[group] += rows * count
        return found


def make(folder: Path, *, files: int, rows_per_file: int) -> Feed:
    """`files` names in `folder/incoming`; the base files stand beside it."""
    rng = random.Random(SEED)
    incoming, kept = folder / "incoming", folder / "base"
    incoming.mkdir(parents=True)
    kept.mkdir()
    bases = [_write(kept / f"b{n:02d}.json", rng, n, rows_per_file) for n in range(BASES)]
    for number in range(files):
        base = number % BASES
        os.link(kept / f"b{base:02d}.json", incoming / f"rows-{number:06d}-b{base:02d}.json")
    return Feed(incoming, tuple(bases), files)


def files_for(seconds: float, rows_per_second: float, rows_per_file: int, most: int) -> int:
    """Enough to outlast `seconds`; `most` is where listing the folder would begin to matter."""
    wanted = int(seconds * rows_per_second / rows_per_file) + BASES
    if wanted > most:
        raise ValueError(f"{seconds:.0f} s need {wanted} files, more than {most}: ask for less")
    return wanted


def _write(path: Path, rng: random.Random, number: int, rows: int) -> Base:
    slice_s = SPAN_S // BASES
    begin = BEGINNING + timedelta(seconds=number * slice_s)
    amount, counts, lines = 0, Counts(), []
    for index in range(rows):
        at = begin + timedelta(seconds=rng.randrange(slice_s))
        key, worth = f"key-{rng.randrange(KEYS):03d}", rng.randrange(1000)
        row = {
            "id": number * rows + index,
            "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "key": key,
            "amount": worth,
            "city": rng.choice(("Bergen", "Cork", "Graz", "Porto")),
            "note": rng.randbytes(10).hex(),
        }
        amount += worth
        start = int(at.timestamp()) // WINDOW_S * WINDOW_S
        counts[(start, key)] += 1
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n")
    return Base(rows, amount, counts)
