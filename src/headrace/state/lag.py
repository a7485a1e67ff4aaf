"""The lag of every query: one file, written by the relay."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import StoreError
from headrace.json_file import read_json, write_json
from headrace.model.lag import QueryLag
from headrace.model.state_paths import StatePaths


def write(places: StatePaths, found: Iterable[QueryLag]) -> None:
    write_json(places.lag, {"queries": [one.to_json() for one in found]})


def read(places: StatePaths) -> dict[tuple[str, str], QueryLag]:
    """By pipeline and query; {} before the first measurement."""
    try:
        body = read_json(places.lag) or {}
        found = [QueryLag.from_json(one) for one in body.get("queries", [])]
    except (StoreError, KeyError, TypeError):
        return {}
    return {(one.pipeline, one.query): one for one in found}
