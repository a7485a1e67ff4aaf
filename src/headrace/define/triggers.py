"""When a query looks for new data: frozen objects, made by `hr.…` or by `every=`.

Invariant: nothing of Spark here; `arguments()` is what `DataStreamWriter.trigger` takes, and the
driver passes it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.words import parse_duration


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
    """All that is there now, in as many batches as the rate limits ask for, then the query ends."""

    def arguments(self) -> dict[str, Any]:
        return {"availableNow": True}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "available-now"}


@dataclass(frozen=True, slots=True)
class RealTime:
    """Rows travel at once; `batch_s` is how often a checkpoint is written. `otherwise` is used
    where the source, the sink or the query itself cannot do that."""

    batch_s: float
    otherwise: Every | AsFast

    def arguments(self) -> dict[str, Any]:
        return {"realTime": _interval(self.batch_s)}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "real-time", "batch_s": self.batch_s, "otherwise": self.otherwise.to_json()}


@dataclass(frozen=True, slots=True)
class Continuous:
    """Spark's experimental continuous processing: at least once, no aggregates."""

    every_s: float

    def arguments(self) -> dict[str, Any]:
        return {"continuous": _interval(self.every_s)}

    def to_json(self) -> dict[str, Any]:
        return {"kind": "continuous", "every_s": self.every_s}


Trigger = AsFast | Every | AvailableNow | RealTime | Continuous


def batch_length_s(trigger: Trigger) -> float | None:
    """How long a query may be silent by its own choice: its batch, or its epoch."""
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
