"""Definitions of deployed pipelines: written by drivers, read by everything else."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.json_file import read_valid, write_json
from headrace.model.pipeline import Definition
from headrace.model.state_paths import StatePaths
from headrace.state import desired


def read(places: StatePaths, version: str, profile: str, pipeline: str) -> Definition | None:
    """None if it is missing or cannot be read."""
    return read_valid(places.definition(version, profile, pipeline), Definition.from_json)


def deployed(places: StatePaths) -> Iterator[Definition]:
    """Definitions of all deployed pipelines, except unreadable ones."""
    for item in desired.read_all(places):
        if found := read(places, item.version, item.profile, item.pipeline):
            yield found


def write(places: StatePaths, definition: Definition) -> None:
    path = places.definition(definition.version, definition.profile, definition.pipeline)
    write_json(path, definition.to_json())
