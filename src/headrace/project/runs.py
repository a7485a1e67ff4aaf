"""The runs of a pipeline, from the files that each run leaves; no store needed.

Invariant: a file that is missing, torn or of a newer writer is skipped, never an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from headrace import processes
from headrace.errors import Error
from headrace.jsonfile import read_json
from headrace.model.places import Places
from headrace.model.runs import Exit, Process, RunSpec, parse_run_name
from headrace.state import folders


@dataclass(frozen=True, slots=True)
class Run:
    """One run as its folder tells it. `exit` of a vanished one is what the supervisor concluded."""

    name: str
    spec: RunSpec
    process: Process | None
    exit: Exit | None


def read(places: Places, name: str) -> Run | None:
    try:
        body = read_json(places.spec(name))
        spec = RunSpec.from_json(body) if body else None
    except (Error, TypeError):
        return None
    if spec is None or spec.define:
        return None
    ended = folders.exit_of(places, name)
    if ended is None:
        outcome = folders.outcome_of(places, spec, time.time())
        ended = outcome.exit if outcome else None
    return Run(name, spec, folders.process_of(places, name), ended)


def backwards(places: Places, pipeline: str) -> Iterator[Run]:
    """Newest first. Names sort by the second; within one second only run.json knows the order."""
    begin = f"{pipeline}-"  # of ten thousand folders only these few are looked at closely
    names = [name for name in _entries(places.runs) if name.startswith(begin)]
    parsed = ((name, parse_run_name(name)) for name in names)
    mine = sorted((m.second, name) for name, m in parsed if m and m.pipeline == pipeline)
    for _, same in groupby(reversed(mine), key=lambda pair: pair[0]):
        found = [run for _, name in same if (run := read(places, name)) is not None]
        yield from sorted(found, key=lambda run: run.spec.at, reverse=True)


def newest(places: Places, pipeline: str) -> Run | None:
    return next(backwards(places, pipeline), None)


def last_ended(places: Places, pipeline: str) -> Run | None:
    return next((run for run in backwards(places, pipeline) if run.exit is not None), None)


def is_live(run: Run) -> bool:
    """Its driver's process lives; a pid that now belongs to a stranger does not count."""
    return run.process is not None and run.exit is None and processes.is_alive(run.process)


def is_open(run: Run) -> bool:
    """It lives, or was only just launched and has not said yet who it is."""
    return run.exit is None and (run.process is None or is_live(run))


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
