"""What a query promises about each row, worked out from its sources and its sink. Pure.

exactly-once     all sources can be replayed, and the sink takes a batch once
at-least-once    all sources can be replayed; the sink may see a batch twice
none             a source cannot be replayed: what was in flight at a failure is lost
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
    is_resumed: bool  # whether a checkpoint is used at all


def work_out(
    sources: Mapping[str, Connector | None], sink: Connector, trigger: Trigger | None = None
) -> Guarantee:
    """`sources` by name; None for a DataFrame of the user's own, of which nothing is known."""
    lost = [f"{name} ({c.kind})" for name, c in sources.items() if c and not c.is_replayable]
    if lost:
        return Guarantee("none", f"{', '.join(lost)} cannot be replayed", is_resumed=False)
    if not sink.keeps_checkpoint:
        return Guarantee("none", f"{sink.kind}: {sink.delivery_why}", is_resumed=False)
    if isinstance(trigger, Continuous):
        why = "continuous processing repeats rows after a failure"
        return Guarantee("at-least-once", why, is_resumed=True)
    unknown = [name for name, c in sources.items() if c is None]
    if unknown and sink.delivery == "exactly-once":
        why = (
            f"{sink.kind}: {sink.delivery_why}; but whether {', '.join(unknown)} can be replayed "
            "is not known to Headrace"
        )
        return Guarantee("at-least-once", why, is_resumed=True)
    read = ", ".join(f"{name} ({c.kind if c else 'own'})" for name, c in sources.items())
    why = f"{read} can be replayed; {sink.kind}: {sink.delivery_why}"
    level = "exactly-once" if sink.delivery == "exactly-once" else "at-least-once"
    return Guarantee(level, why, is_resumed=True)
