"""The address of the page, if its process lives."""

from __future__ import annotations

from headrace import processes
from headrace.errors import StoreError
from headrace.json_file import read_json
from headrace.model.runs import Process
from headrace.model.state_paths import StatePaths
from headrace.model.web import Listening


def listening(places: StatePaths) -> Listening | None:
    try:
        body = read_json(places.web)
        found = Listening.from_json(body) if body else None
    except (StoreError, TypeError):
        return None
    if found is None or not processes.is_alive(Process(found.pid, found.started, found.boot)):
        return None
    return found
