"""The count: what came out of every output, held against what went in. Pure.

Multisets of rows on both sides: what is missing is lost, what is there once too often is doubled.
Its input is made by plain Python (`truth`, `outputs`), so no error of Spark's can hide itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace.demo.truth import Log, log_of

MINUTE_US = 60_000_000
WATERMARK_US = 10 * MINUTE_US  # as in project/pipelines/metrics.py
EXAMPLES_MAX = 3
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What each output has to hold."""

    history: Counter[Row] = field(default_factory=Counter)
    beats: Counter[Row] = field(default_factory=Counter)
    logins: Counter[int] = field(default_factory=Counter)  # minute, in microseconds -> how many
    newest_login: int = 0
    overloads: Counter[int] = field(default_factory=Counter)  # cluster -> episodes
    malformed: Counter[bytes] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Found:
    """What each output holds. Rows of `history` and `beats` are as `history_row` makes them."""

    history: Counter[Row] = field(default_factory=Counter)
    beats: Counter[Row] = field(default_factory=Counter)
    logins: Mapping[int, int] = field(default_factory=dict)
    overloads: Counter[int] = field(default_factory=Counter)
    silences: int = 0
    quarantined: Counter[bytes] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Difference:
    """One output. `examples` are rows as text, the first few."""

    lost: int = 0
    doubled: int = 0
    late: int = 0
    repeated: int = 0  # once too often where that is promised: at least once
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    outputs: Mapping[str, Difference]
    malformed: int
    quarantined: int
    overloaded: int
    silent: int

    @property
    def lost(self) -> int:
        return sum(one.lost for one in self.outputs.values())

    @property
    def doubled(self) -> int:
        return sum(one.doubled for one in self.outputs.values())

    @property
    def late(self) -> int:
        return sum(one.late for one in self.outputs.values())

    @property
    def repeated(self) -> int:
        return sum(one.repeated for one in self.outputs.values())

    @property
    def is_right(self) -> bool:
        return self.lost == self.doubled == 0 and self.quarantined == self.malformed


def expected(lines: Iterable[bytes], customers: Mapping[int, tuple[str, str]]) -> Expected:
    """From the input's lines in their order. A log of no known customer is in no output."""
    want = Expected()
    newest = 0
    open_: set[int] = set()
    for line in lines:
        log = log_of(line)
        if log is None:
            want.malformed[line] += 1
            continue
        known = customers.get(log.customer_id) if log.customer_id is not None else None
        if known is None:
            continue
        row = history_row(log, *known)
        want.history[row] += 1
        if log.is_login:
            want.logins[log.at - log.at % MINUTE_US] += 1
            newest = max(newest, log.at)
        if log.is_beat:
            want.beats[row] += 1
    for cluster, load in _loads_in_order(want.beats):
        if load > 99 and cluster not in open_:
            open_.add(cluster)
            want.overloads[cluster] += 1
        elif load < 90:
            open_.discard(cluster)
    return Expected(want.history, want.beats, want.logins, newest, want.overloads, want.malformed)


def _loads_in_order(beats: Iterable[Row]) -> list[tuple[int, float]]:
    """(cluster, load) by the time of the beat."""
    ordered = sorted((row[0], row[5], row[6]) for row in beats if None not in (row[5], row[6]))
    return [(cluster, load) for _, cluster, load in ordered]


def history_row(log: Log, customer: str, plan: str) -> Row:
    return (*log, customer, plan)


def beat_row(line: str) -> Row:
    """A line of the heartbeats. One that is torn is a row that nobody expects."""
    log = log_of(line.encode())
    if log is None:
        return ("torn", line)
    body = json.loads(line)
    return history_row(log, body.get("customer"), body.get("plan"))


def count(want: Expected, found: Found, at_least_once: Collection[str] = ()) -> Count:
    """Rows that come again are counted apart where no more was promised."""
    beats = compare(want.beats, found.beats)
    if "heartbeats" in at_least_once:
        known = found.beats & Counter({row: found.beats[row] for row in want.beats})
        again = (known - want.beats).total()
        beats = replace(beats, doubled=beats.doubled - again, repeated=again)
    return Count(
        outputs={
            "history": compare(want.history, found.history),
            "heartbeats": beats,
            "logins": by_minute(want.logins, found.logins, want.newest_login),
            "overloaded": compare(want.overloads, found.overloads),
            "logs.quarantine": compare(want.malformed, found.quarantined),
        },
        malformed=want.malformed.total(),
        quarantined=found.quarantined.total(),
        overloaded=found.overloads.total(),
        silent=found.silences,
    )


def compare(want: Counter[Any], found: Counter[Any]) -> Difference:
    missing, extra = want - found, found - want
    examples = [f"lost: {row}" for row in missing] + [f"doubled: {row}" for row in extra]
    return Difference(missing.total(), extra.total(), examples=tuple(examples[:EXAMPLES_MAX]))


def by_minute(want: Mapping[int, int], found: Mapping[int, int], newest: int) -> Difference:
    """A minute that the watermark has passed may lack rows that came later: those are late."""
    lost = doubled = late = 0
    examples = []
    for minute in sorted(want.keys() | found.keys()):
        short = want.get(minute, 0) - found.get(minute, 0)
        if short == 0:
            continue
        if short > 0 and minute + MINUTE_US <= newest - WATERMARK_US:
            late += short
            continue
        lost, doubled = lost + max(0, short), doubled + max(0, -short)
        at = datetime.fromtimestamp(minute / 1_000_000, UTC).strftime("%H:%M")
        examples.append(f"{at}: {found.get(minute, 0)} instead of {want.get(minute, 0)}")
    return Difference(lost, doubled, late, examples=tuple(examples[:EXAMPLES_MAX]))
