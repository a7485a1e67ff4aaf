"""Freshness: the ages of records when their batch was committed. Pure.

The driver condenses the ages of one batch (`driver/freshness.py`), the fold keeps those of the last
batches (`health/run_view.py`). Invariant: every record has the same weight, and a percentile is the
age of a real record or above it, never below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from headrace.model.numbers import real

BATCHES_MAX = 64
WINDOW_S = 900.0
BASES = ("arrival", "event", "trigger")
# The percentiles that are kept of a batch: finer at the old end, for p99.
CUTS = (*range(5, 100, 5), 96, 97, 98, 99, 100)
AGE_MS_MAX = 1e15

Points = Iterable[tuple[float, float]]  # age in ms, weight


@dataclass(frozen=True, slots=True)
class AgeSample:
    """One batch: `n` records, and (age in ms, how many of a hundred records), youngest first."""

    at: float  # when the driver reported it
    basis: str
    n: int
    ages: tuple[tuple[float, int], ...]
    newest_ms: float


@dataclass(frozen=True)
class AgeWindow:
    """The last batches, bounded by number and by age.

    Percentiles are cached: they are read many times a second and change once per batch.
    """

    samples: tuple[AgeSample, ...] = ()

    def plus(self, new: AgeSample) -> AgeWindow:
        kept = self.samples
        if kept and new.at - kept[0].at > WINDOW_S:
            kept = tuple(sample for sample in kept if new.at - sample.at <= WINDOW_S)
        return AgeWindow((*kept, new)[-BATCHES_MAX:])

    @property
    def basis(self) -> str | None:
        return self.samples[-1].basis if self.samples else None

    @cached_property
    def p50_ms(self) -> float | None:
        return over(self.samples, 50)

    @cached_property
    def p99_ms(self) -> float | None:
        return over(self.samples, 99)


NOTHING = AgeWindow()


def ages_to_json(basis: str, n: int, points: Points) -> dict[str, Any] | None:
    """The ages of a batch, as `progressed` has them. None without any."""
    known = sorted((max(0.0, age), weight) for age, weight in points if weight > 0)
    if not known:
        return None
    return {
        "basis": basis,
        "n": n,
        "p50_ms": round(percentile(known, 50) or 0.0),
        "p99_ms": round(percentile(known, 99) or 0.0),
        "newest_ms": round(known[0][0]),
        "ages": [[round(age), share] for age, share in _condense(known)],
    }


def heard(body: Any, at: float) -> AgeSample | None:
    """From `ages_to_json`. None if the body is anything else: files may hold anything."""
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
    return AgeSample(at, body["basis"], n, tuple(known), newest)


def over(samples: Iterable[AgeSample], percent: int) -> float | None:
    """A percentile over the records of several batches."""
    return percentile(((age, share * s.n) for s in samples for age, share in s.ages), percent)


def percentile(points: Points, percent: int) -> float | None:
    """The age that this share of the records does not exceed. None without records."""
    known = sorted(points)
    total = math.fsum(weight for _, weight in known)
    seen = 0.0
    for age, weight in known:
        seen += weight
        if seen * 100 >= percent * total:
            return age
    return known[-1][0] if known else None


def _condense(known: Sequence[tuple[float, float]]) -> list[tuple[float, int]]:
    """At most one pair per cut; equal ages share one. `known` is sorted."""
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
    age = real(value)
    return age if age is not None and 0 <= age <= AGE_MS_MAX else None
