"""A notice: one message about an alert, in a form that every channel can send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class NoticeKind(StrEnum):
    TRIGGER = "trigger"
    ACKNOWLEDGE = "acknowledge"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Notice:
    """`key` is the same for all notices of an alert, so that a service can combine them. `facts`
    are short texts by heading, in the order in which a person reads them."""

    kind: NoticeKind
    key: str
    title: str
    severity: str
    project: str
    pipeline: str
    rule: str
    opened_at: float
    at: float  # of this change: opened, repeated, acknowledged or resolved
    query: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    link: str | None = None
    count: int = 1  # how many alerts it stands for
    by: str | None = None  # who acknowledged it

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": str(self.kind), "facts": dict(self.facts)}
