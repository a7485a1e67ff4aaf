"""The address of the page, if its process lives."""

from __future__ import annotations

from headrace import process_identity
from headrace.json_file import read_valid
from headrace.model.runs import Process
from headrace.model.state_paths import StatePaths
from headrace.model.web_settings import Listening


def listening(places: StatePaths) -> Listening | None:
    found = read_valid(places.web, Listening.from_json)
    is_alive = found and process_identity.is_alive(Process(found.pid, found.started, found.boot))
    return found if is_alive else None
