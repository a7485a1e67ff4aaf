"""Whether a supervisor keeps this project, and which process it is."""

from __future__ import annotations

from headrace import processes
from headrace.errors import StoreError
from headrace.jsonfile import read_json
from headrace.model.places import Places
from headrace.model.runs import Process


def running(places: Places) -> Process | None:
    try:
        body = read_json(places.supervisor_process)
        process = Process.from_json(body) if body else None
    except (StoreError, TypeError):
        return None
    return process if process and processes.is_alive(process) else None
