"""Queries that nobody wrote: one for every place where a transform sets rows aside.

Made by `build` after the views, and from then on a query like any other: with a checkpoint, a
place, a line in `status`, and settings under [pipelines.P.queries."VIEW.quarantine"].
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.config import Settings
from headrace.connectors.files import Files
from headrace.define.graph import ASIDE, GraphNode
from headrace.define.triggers import AvailableNow, Trigger, every
from headrace.model.limits import QuerySettings

EVERY_S = 10.0  # nobody waits for them, and every batch reads all of the input


def quarantine(
    of: GraphNode, readers: Sequence[GraphNode], number: int, pipeline: str, settings: Settings
) -> GraphNode:
    """`number` counts the transforms of one definition; the first needs none in its name.
    `readers` are the queries that use the definition."""
    kept = of.name if number == 1 else f"{of.name}.{number}"
    name = f"{of.name}.{ASIDE}" if number == 1 else f"{of.name}.{ASIDE}.{number}"
    own = settings.queries.get(name) or QuerySettings()
    return GraphNode(
        name=name,
        kind="query",
        place=of.place,
        inputs=of.inputs,
        sink=Files(settings.quarantined(pipeline, kept), "parquet"),
        trigger=_trigger(readers) if own.every is None else every(own.every),
        checkpoint=settings.checkpoint(pipeline, name),
        fresh_within_s=own.fresh_within,
    )


def _trigger(readers: Sequence[GraphNode]) -> Trigger:
    """It must not keep a pipeline running whose own queries come to an end."""
    if readers and all(isinstance(one.trigger, AvailableNow) for one in readers):
        return AvailableNow()
    return every(EVERY_S)
