"""Hidden queries: one for each transform that quarantines rows.

Created by `build` after the views. Each is a query like any other, with a checkpoint, a line in
`status`, and settings under [pipelines.P.queries."VIEW.quarantine"].
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.config import Settings
from headrace.connectors.files import files
from headrace.define.graph import ASIDE, GraphNode
from headrace.define.triggers import AvailableNow, Trigger, every
from headrace.model.limits import QuerySettings

EVERY_S = 10.0  # quarantined rows are not urgent, and every batch reads the whole input


def quarantine(
    of: GraphNode, readers: Sequence[GraphNode], number: int, pipeline: str, settings: Settings
) -> GraphNode:
    """`number` counts the transforms of one definition from 1, which is left out of the name.
    `readers` are the queries that use the definition."""
    suffix = "" if number == 1 else f".{number}"
    name = f"{of.name}.{ASIDE}{suffix}"
    own = settings.queries.get(name) or QuerySettings()
    return GraphNode(
        name=name,
        kind="query",
        place=of.place,
        inputs=of.inputs,
        sink=files(settings.quarantine_path(pipeline, of.name + suffix), "parquet"),
        trigger=_trigger(readers) if own.every is None else every(own.every),
        checkpoint=settings.checkpoint(pipeline, name),
        fresh_within_s=own.fresh_within,
    )


def _trigger(readers: Sequence[GraphNode]) -> Trigger:
    """It must end if all other queries of the pipeline end by themselves."""
    if readers and all(isinstance(reader.trigger, AvailableNow) for reader in readers):
        return AvailableNow()
    return every(EVERY_S)
