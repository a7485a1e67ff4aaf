"""Tables that SQL can name: sinks, streams, live tables, quarantines."""

from __future__ import annotations

from headrace.explore import catalog
from headrace.project.workspace import Workspace
from headrace.state import definitions


def list_tables(work: Workspace) -> list[catalog.Table]:
    """Each table once: by its name in headrace.toml, or else by that of its stream."""
    best: dict[str, tuple[tuple[bool, int, str], catalog.Table]] = {}
    for (pipeline, name), table in known_names(work).tables.items():
        place = table.place
        is_sink = not pipeline and name in work.settings.sinks
        rank = (not is_sink, len(pipeline) + len(name), name)
        if place and (place not in best or rank < best[place][0]):
            best[place] = (rank, table)
    return sorted((table for _, table in best.values()), key=lambda table: table.name)


def known_names(work: Workspace) -> catalog.Catalog:
    return catalog.collect(work.settings, definitions.deployed(work.places))
