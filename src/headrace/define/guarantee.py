"""The delivery guarantee of a query, derived from its sources and its sink. Pure.

exactly-once     all sources can be replayed, and the sink accepts each batch once
at-least-once    all sources can be replayed; the sink may get a batch twice
none             a source cannot be replayed: a failure loses rows in flight
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.connectors.connector import Connector
from headrace.define.triggers import Continuous, Trigger


@dataclass(frozen=True, slots=True)
class Guarantee:
    level: str
    why: str
    is_resumed: bool  # whether a checkpoint is used


def work_out(
    sources: Mapping[str, Connector | None], sink: Connector, trigger: Trigger | None = None
) -> Guarantee:
    """`sources` by name; None for a DataFrame that the user built, of which nothing is known."""
    lost = [
        f"{name} ({c.kind})"
        for name, c in sources.items()
        if c and not c.capabilities.is_replayable
    ]
    if lost:
        return Guarantee("none", f"{', '.join(lost)} cannot be replayed", is_resumed=False)
    able = sink.capabilities
    delivery = f"{sink.kind}: {able.delivery_why}"
    if not able.can_resume:
        return Guarantee("none", delivery, is_resumed=False)
    if isinstance(trigger, Continuous):
        why = "continuous processing repeats rows after a failure"
        return Guarantee("at-least-once", why, is_resumed=True)
    unknown = [name for name, c in sources.items() if c is None]
    if unknown:
        why = f"{delivery}; Headrace does not know whether {', '.join(unknown)} can be replayed"
        return Guarantee("at-least-once", why, is_resumed=True)
    read = ", ".join(f"{name} ({c.kind})" for name, c in sources.items() if c)
    level = "exactly-once" if able.delivery == "exactly-once" else "at-least-once"
    return Guarantee(level, f"{read} can be replayed; {delivery}", is_resumed=True)
