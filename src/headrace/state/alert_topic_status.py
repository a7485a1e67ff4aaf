"""Queries whose alert rows come through a topic: one file, written by the relay."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.json_file import read_valid, write_json
from headrace.model.alerts import TopicAlerts
from headrace.model.state_paths import StatePaths


def write(places: StatePaths, found: Iterable[TopicAlerts]) -> None:
    write_json(places.alert_topics, {"queries": [one.to_json() for one in found]})


def read(places: StatePaths) -> list[TopicAlerts]:
    """Those of deployed pipelines first."""
    path = places.alert_topics
    return read_valid(path, lambda body: [TopicAlerts.from_json(q) for q in body["queries"]]) or []
