"""Alerts: severities, and the rows with which a query opens and resolves them.

`connectors/alert.py` writes one file per batch and `supervisor/alert_files.py` reads it; rows of
real-time queries come through a topic instead (`relay/alert_topics.py`).
Invariant: `from_line` gives a whole row or raises ValueError, whatever the file holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.numbers import real
from headrace.model.runs import Jsonable

SEVERITIES = ("info", "warning", "error", "critical")  # in ascending order
RULE_OF_ROWS = "row"  # the rule of alerts that a query's rows opened


def is_worse(severity: str, other: str) -> bool:
    return SEVERITIES.index(severity) > SEVERITIES.index(other)


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """Opens the alert with this key, or updates it if it is open."""

    key: str
    rule: str
    pipeline: str
    title: str
    severity: str = "warning"
    query: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlertRow:
    """Consecutive equal rows with one key; title and data are those of the last one.

    `at` is the time in the rows, `told_at` when their batch was written. `query_id` and `batch`
    identify a batch that is read again.
    """

    query_id: str
    batch: int
    row: int  # of the first of them in the batch
    key: tuple[str, ...]
    title: str
    severity: str
    at: float
    told_at: float
    resolved: bool = False
    count: int = 1
    resolve_after_s: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    left_out: bool = False  # stands for rows that were left out: there were too many

    def to_line(self) -> str:
        body = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**body, "key": list(self.key)}, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> AlertRow:
        try:
            body = json.loads(line)
        except RecursionError as exc:
            raise ValueError("nested too deeply") from exc
        if not isinstance(body, dict):
            raise ValueError(f"not an object: {line[:80]!r}")
        known = {name: value for name, value in body.items() if name in cls.__slots__}
        wrong = [name for name, is_right in _SHAPE.items() if not is_right(known.get(name))]
        if wrong:
            raise ValueError(f"{wrong[0]} cannot be {known.get(wrong[0])!r:.80}")
        return cls(**{**known, "key": tuple(known["key"])})


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A row of the alerts topic. Rows with the same `twin`, if any, are copies of one."""

    pipeline: str
    query: str
    row: AlertRow
    partition: int
    offset: int
    twin: bytes | None


@dataclass(frozen=True, slots=True)
class TopicAlerts(Jsonable):
    """A query whose alert rows come through a topic: since when it is read, until when all rows
    were read, and the problem. A query whose topic was changed has two, while the old one may hold
    rows of an earlier version. `lost` rows (of any query) were deleted by the broker before they
    were read, the last of them at `lost_at`."""

    pipeline: str
    query: str
    topic: str
    since: float
    until: float | None = None
    problem: str | None = None
    version: str = ""  # whose settings name the topic, in this profile
    profile: str = ""
    lost: int = 0
    lost_at: float | None = None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: object) -> bool:
    return real(value) is not None


_SHAPE: Mapping[str, Callable[[Any], bool]] = {
    "query_id": lambda value: _is_text(value) and bool(value),
    "batch": _is_whole,
    "row": _is_whole,
    "key": lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
    "title": _is_text,
    "severity": lambda value: value in SEVERITIES,
    "at": _is_number,
    "told_at": _is_number,
    "resolved": lambda value: isinstance(value, bool),
    "count": lambda value: _is_whole(value) and value > 0,
    "resolve_after_s": lambda value: value is None or _is_number(value),
    "data": lambda value: isinstance(value, dict),
    "left_out": lambda value: isinstance(value, bool),
}
