"""Where the page is, if its process lives."""

from __future__ import annotations

from headrace import processes
from headrace.errors import StoreError
from headrace.jsonfile import read_json
from headrace.model.places import Places
from headrace.model.runs import Process
from headrace.model.web import Listening


def listening(places: Places) -> Listening | None:
    try:
        body = read_json(places.web)
        found = Listening.from_json(body) if body else None
    except (StoreError, TypeError):
        return None
    if found is None or not processes.is_alive(Process(found.pid, found.started, found.boot)):
        return None
    return found
