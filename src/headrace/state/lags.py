"""How far behind every query is: one file, written by the relay, read by everybody."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.lag import QueryLag
from headrace.model.places import Places


def write(places: Places, found: Iterable[QueryLag]) -> None:
    write_json(places.lag, {"queries": [one.to_json() for one in found]})


def read(places: Places) -> dict[tuple[str, str], QueryLag]:
    """By pipeline and query; {} if nobody has looked yet."""
    try:
        body = read_json(places.lag) or {}
        found = [QueryLag.from_json(one) for one in body.get("queries", [])]
    except (StoreError, KeyError, TypeError):
        return {}
    return {(one.pipeline, one.query): one for one in found}
