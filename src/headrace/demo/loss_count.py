"""Counts lost and duplicated rows: compares every output of the demo with its input. Pure.

Both sides are read by plain Python (`input_reader`, `outputs`): an error in Spark cannot hide.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace.demo.input_reader import LoggedLine, log_of
from headrace.testing import row_comparison

MINUTE_US = 60_000_000
WATERMARK_US = 10 * MINUTE_US  # as in project/pipelines/metrics.py
EXAMPLES_MAX = 3
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected rows of each output."""

    history: Counter[Row] = field(default_factory=Counter)
    beats: Counter[Row] = field(default_factory=Counter)
    logins: Counter[int] = field(default_factory=Counter)  # minute in microseconds -> count
    newest_login: int = 0
    overloads: Counter[int] = field(default_factory=Counter)  # cluster -> episodes
    malformed: Counter[bytes] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The actual rows of each output; `history_row` makes those of `history` and `beats`."""

    history: Counter[Row] = field(default_factory=Counter)
    beats: Counter[Row] = field(default_factory=Counter)
    logins: Mapping[int, int] = field(default_factory=dict)
    overloads: Counter[int] = field(default_factory=Counter)
    silences: int = 0
    quarantined: Counter[bytes] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class OutputCount:
    """One output. `examples` are the first wrong rows as text."""

    lost: int = 0
    doubled: int = 0
    late: int = 0
    repeated: int = 0  # doubled in an output that is at least once
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    outputs: Mapping[str, OutputCount]
    malformed: int
    quarantined: int
    overloaded: int
    silent: int

    @property
    def lost(self) -> int:
        return sum(output.lost for output in self.outputs.values())

    @property
    def doubled(self) -> int:
        return sum(output.doubled for output in self.outputs.values())

    @property
    def late(self) -> int:
        return sum(output.late for output in self.outputs.values())

    @property
    def repeated(self) -> int:
        return sum(output.repeated for output in self.outputs.values())

    @property
    def is_right(self) -> bool:
        return self.lost == self.doubled == 0 and self.quarantined == self.malformed


def compute_expected(lines: Iterable[bytes], customers: Mapping[int, tuple[str, str]]) -> Expected:
    """From the lines of the input, in order. Logs of unknown customers appear in no output."""
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
    loads = ((row[0], row[5], row[6]) for row in want.beats if None not in (row[5], row[6]))
    for _, cluster, load in sorted(loads):  # by the time of the heartbeat
        if load > 99 and cluster not in open_:
            open_.add(cluster)
            want.overloads[cluster] += 1
        elif load < 90:
            open_.discard(cluster)
    return replace(want, newest_login=newest)


def history_row(log: LoggedLine, customer: str, plan: str) -> Row:
    return (*log, customer, plan)


def beat_row(line: str) -> Row:
    """A line of the heartbeats. A torn line becomes a row that is never expected."""
    log = log_of(line.encode())
    if log is None:
        return ("torn", line)
    body = json.loads(line)
    return history_row(log, body.get("customer"), body.get("plan"))


def count(want: Expected, found: Outputs, at_least_once: Collection[str] = ()) -> Count:
    """`at_least_once`: outputs in which a repeated row is not an error."""
    return Count(
        outputs={
            "history": count_rows(want.history, found.history),
            "heartbeats": count_rows(
                want.beats, found.beats, may_repeat="heartbeats" in at_least_once
            ),
            "logins": count_minutes(want.logins, found.logins, want.newest_login),
            "overloaded": count_rows(want.overloads, found.overloads),
            "logs.quarantine": count_rows(want.malformed, found.quarantined),
        },
        malformed=want.malformed.total(),
        quarantined=found.quarantined.total(),
        overloaded=found.overloads.total(),
        silent=found.silences,
    )


def count_rows(want: Counter[Any], found: Counter[Any], *, may_repeat: bool = False) -> OutputCount:
    difference = row_comparison.compare(want, found)
    doubled, unexpected = difference.doubled.total(), difference.unexpected.total()
    return OutputCount(
        lost=difference.lost.total(),
        doubled=unexpected if may_repeat else doubled + unexpected,
        repeated=doubled if may_repeat else 0,
        examples=difference.examples(EXAMPLES_MAX),
    )


def count_minutes(want: Mapping[int, int], found: Mapping[int, int], newest: int) -> OutputCount:
    """Rows that are missing from a minute which the watermark has passed are late, not lost."""
    difference = row_comparison.compare(Counter(want), Counter(found))
    missing = difference.lost.items()
    late = {m: n for m, n in missing if m + MINUTE_US <= newest - WATERMARK_US}
    doubled = difference.doubled + difference.unexpected
    wrong = sorted((difference.lost.keys() | doubled.keys()) - late.keys())
    return OutputCount(
        lost=difference.lost.total() - sum(late.values()),
        doubled=doubled.total(),
        late=sum(late.values()),
        examples=tuple(
            f"{hours_and_minutes(m)}: {found.get(m, 0)} instead of {want.get(m, 0)}"
            for m in wrong[:EXAMPLES_MAX]
        ),
    )


def hours_and_minutes(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).strftime("%H:%MZ")
