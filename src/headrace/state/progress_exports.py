"""The position of each exporter: one file each, written by the relay."""

from __future__ import annotations

from headrace.json_file import read_valid, write_json
from headrace.model.progress_exports import Export
from headrace.model.state_paths import StatePaths


def write(places: StatePaths, export: Export) -> None:
    write_json(places.export(export.name), export.to_json())


def read(places: StatePaths, name: str) -> Export | None:
    return read_valid(places.export(name), Export.from_json)


def read_all(places: StatePaths) -> list[Export]:
    names = sorted(path.stem for path in places.exports.glob("*.json"))
    return [found for name in names if (found := read(places, name)) is not None]
