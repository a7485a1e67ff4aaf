"""The lag of every query: one file, written by the relay."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.json_file import read_valid, write_json
from headrace.model.lag import QueryLag
from headrace.model.state_paths import StatePaths


def write(places: StatePaths, found: Iterable[QueryLag]) -> None:
    write_json(places.lag, {"queries": [one.to_json() for one in found]})


def read(places: StatePaths) -> dict[tuple[str, str], QueryLag]:
    """By pipeline and query; {} before the first measurement."""
    found = read_valid(places.lag, lambda body: [QueryLag.from_json(q) for q in body["queries"]])
    return {(one.pipeline, one.query): one for one in found or ()}
