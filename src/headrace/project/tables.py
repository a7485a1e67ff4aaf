"""What can be asked in SQL by its name: sinks, streams, live tables, quarantines."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.explore import names
from headrace.model.pipeline import Definition
from headrace.project import definitions
from headrace.project.workspace import Workspace
from headrace.state import desired


def listed(work: Workspace) -> list[names.Table]:
    """What has rows to read, each once: by its name in headrace.toml, or else by its stream's."""
    best: dict[str, tuple[tuple[bool, int, str], names.Table]] = {}
    for (pipeline, name), table in known_names(work).tables.items():
        place = table.place
        is_sink = not pipeline and name in work.settings.sinks
        rank = (not is_sink, len(pipeline) + len(name), name)
        if place and (place not in best or rank < best[place][0]):
            best[place] = (rank, table)
    return sorted((table for _, table in best.values()), key=lambda one: one.name)


def known_names(work: Workspace) -> names.Names:
    return names.collect(work.settings, _deployed(work))


def _deployed(work: Workspace) -> Iterable[Definition]:
    """A definition that cannot be read hides its own names, not those of the others."""
    for one in desired.listed(work.places):
        if found := definitions.stored(work, one.version, one.profile, one.pipeline):
            yield found
