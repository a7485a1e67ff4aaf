"""Whose alert rows come by a topic, and how that is: one file, written by the relay."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.alerts import ByTopic
from headrace.model.places import Places


def write(places: Places, found: Iterable[ByTopic]) -> None:
    write_json(places.alert_topics, {"queries": [one.to_json() for one in found]})


def read(places: Places) -> list[ByTopic]:
    """Topics of what is deployed come first; [] if there is none."""
    try:
        body = read_json(places.alert_topics) or {}
        return [ByTopic(**one) for one in body.get("queries", [])]
    except (StoreError, TypeError):
        return []
