"""How old answers are: the ages of records when their batch was committed. Pure.

The driver condenses the ages of one batch (`driver/fresh.py`), the fold keeps those of the last
batches (`model/runview.py`), and both ask for percentiles here.
Invariant: every record weighs the same, so a batch with many rows speaks louder than one with few;
a percentile is the age of a real record or lies above it, never below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

BATCHES_MAX = 64
WINDOW_S = 900.0
BASES = ("arrival", "event", "trigger")
# Where the ages of a batch are cut, in hundredths: finer at the old end, which p99 is about.
CUTS = (*range(5, 100, 5), 96, 97, 98, 99, 100)
AGE_MS_MAX = 1e15

Points = Iterable[tuple[float, float]]  # age in ms, weight


@dataclass(frozen=True, slots=True)
class Sample:
    """One batch: `n` records, and (age in ms, how many of a hundred records), youngest first."""

    at: float  # when the driver told of it
    basis: str
    n: int
    ages: tuple[tuple[float, int], ...]
    newest_ms: float


@dataclass(frozen=True)
class Window:
    """The last batches: so many, and none older than so long before the newest.

    It is looked at many times a second and changes once a batch, so it works a thing out once.
    """

    samples: tuple[Sample, ...] = ()

    def plus(self, new: Sample) -> Window:
        kept = self.samples
        if kept and new.at - kept[0].at > WINDOW_S:
            kept = tuple(sample for sample in kept if new.at - sample.at <= WINDOW_S)
        return Window((*kept, new)[-BATCHES_MAX:])

    @property
    def basis(self) -> str | None:
        return self.samples[-1].basis if self.samples else None

    @cached_property
    def p50_ms(self) -> float | None:
        return over(self.samples, 50)

    @cached_property
    def p99_ms(self) -> float | None:
        return over(self.samples, 99)


NOTHING = Window()


def told(basis: str, n: int, points: Points) -> dict[str, Any] | None:
    """The ages of a batch as `progressed` carries them. None without any."""
    known = sorted((max(0.0, age), weight) for age, weight in points if weight > 0)
    if not known:
        return None
    return {
        "basis": basis,
        "n": n,
        "p50_ms": round(percentile(known, 50) or 0.0),
        "p99_ms": round(percentile(known, 99) or 0.0),
        "newest_ms": round(known[0][0]),
        "ages": [[round(age), share] for age, share in _condensed(known)],
    }


def heard(body: Any, at: float) -> Sample | None:
    """What `told` wrote, from a file that may hold anything. None if it is not that."""
    if not isinstance(body, Mapping) or body.get("basis") not in BASES:
        return None
    n, newest, ages = body.get("n"), _age(body.get("newest_ms")), body.get("ages")
    if isinstance(n, bool) or not isinstance(n, int) or n <= 0 or newest is None:
        return None
    if not isinstance(ages, list) or not 0 < len(ages) <= len(CUTS):
        return None
    known = []
    for pair in ages:
        if not isinstance(pair, list) or len(pair) != 2:
            return None
        age, share = _age(pair[0]), _age(pair[1])
        if age is None or share is None or not 0 < share <= 100:
            return None
        known.append((age, int(share)))
    return Sample(at, body["basis"], n, tuple(known), newest)


def over(samples: Iterable[Sample], percent: int) -> float | None:
    """A percentile over several batches, each record of theirs counted once."""
    return percentile(((age, share * s.n) for s in samples for age, share in s.ages), percent)


def percentile(points: Points, percent: int) -> float | None:
    """The age that so many of a hundred records do not exceed. None without records."""
    known = sorted(points)
    total = math.fsum(weight for _, weight in known)
    seen = 0.0
    for age, weight in known:
        seen += weight
        if seen * 100 >= percent * total:
            return age
    return known[-1][0] if known else None


def _condensed(known: Sequence[tuple[float, float]]) -> list[tuple[float, int]]:
    """At most one pair a cut; equal ages in one. `known` is sorted."""
    total = math.fsum(weight for _, weight in known)
    found: list[tuple[float, int]] = []
    place, seen = 0, known[0][1]
    for low, high in pairwise((0, *CUTS)):
        while seen * 100 < high * total and place < len(known) - 1:
            place += 1
            seen += known[place][1]
        age, share = known[place][0], high - low
        if found and found[-1][0] == age:
            share += found.pop()[1]
        found.append((age, share))
    return found


def _age(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= AGE_MS_MAX else None
