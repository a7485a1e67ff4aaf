"""Queries whose alert rows come through a topic: one file, written by the relay."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import StoreError
from headrace.json_file import read_json, write_json
from headrace.model.alerts import TopicAlerts
from headrace.model.state_paths import StatePaths


def write(places: StatePaths, found: Iterable[TopicAlerts]) -> None:
    write_json(places.alert_topics, {"queries": [one.to_json() for one in found]})


def read(places: StatePaths) -> list[TopicAlerts]:
    """Those of deployed pipelines first."""
    try:
        body = read_json(places.alert_topics) or {}
        return [TopicAlerts(**one) for one in body.get("queries", [])]
    except (StoreError, TypeError):
        return []
