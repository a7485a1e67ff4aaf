"""Triggers of a query, created by `hr.…` or by `every=`.

Invariant: does not use Spark; the driver passes `arguments()` to `DataStreamWriter.trigger`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.durations import parse_duration


@dataclass(frozen=True, slots=True)
class AsFast:
    """The next batch starts when the last one ends."""

    def arguments(self) -> dict[str, Any]:
        return {"processingTime": "0 seconds"}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "as-fast-as-possible"}


@dataclass(frozen=True, slots=True)
class Every:
    seconds: float

    def arguments(self) -> dict[str, Any]:
        return {"processingTime": _interval(self.seconds)}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "every", "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Process the data available now, in one or more batches, then stop."""

    def arguments(self) -> dict[str, Any]:
        return {"availableNow": True}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "available-now"}


@dataclass(frozen=True, slots=True)
class RealTime:
    """Rows are processed as they arrive; `batch_s` is the checkpoint interval. `otherwise` is used
    if the source, the sink or the query does not support this."""

    batch_s: float
    otherwise: Every | AsFast

    def arguments(self) -> dict[str, Any]:
        return {"realTime": _interval(self.batch_s)}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "real-time", "batch_s": self.batch_s, "otherwise": self.otherwise.to_json()}


@dataclass(frozen=True, slots=True)
class Continuous:
    """Spark's experimental continuous processing: at-least-once, no aggregates."""

    every_s: float

    def arguments(self) -> dict[str, Any]:
        return {"continuous": _interval(self.every_s)}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "continuous", "every_s": self.every_s}


Trigger = AsFast | Every | AvailableNow | RealTime | Continuous


def batch_length_s(trigger: Trigger) -> float | None:
    """How long a query may run without progress by design: its batch or epoch."""
    if isinstance(trigger, RealTime):
        return trigger.batch_s
    return trigger.every_s if isinstance(trigger, Continuous) else None


def every(interval: str | float) -> Every | AsFast:
    """Zero means as fast as possible, as in Spark."""
    seconds = parse_duration(interval)
    return Every(seconds) if seconds else AsFast()


def available_now() -> AvailableNow:
    return AvailableNow()


def real_time(batch: str | float = "1 minute", *, otherwise: str | float = 0) -> RealTime:
    return RealTime(parse_duration(batch), every(otherwise))


def continuous(interval: str | float = "1 second") -> Continuous:
    return Continuous(parse_duration(interval))


def _interval(seconds: float) -> str:
    return f"{round(seconds * 1000)} milliseconds"
