"""The runs of a pipeline, from their folders.

Invariant: a file that is missing, torn or from a newer version is skipped, never an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from headrace import process_identity
from headrace.model.runs import Run, parse_run_name
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders


def read(places: StatePaths, name: str) -> Run | None:
    spec = run_folders.spec_of(places, name)
    if spec is None:
        return None
    ended = run_folders.exit_of(places, name)
    if ended is None:
        outcome = run_folders.outcome_of(places, spec, time.time())
        ended = outcome.exit if outcome else None
    return Run(spec, run_folders.process_of(places, name), ended)


def backwards(places: StatePaths, pipeline: str) -> Iterator[Run]:
    """Newest first. Names have a resolution of a second; within one, run.json has the order."""
    begin = f"{pipeline}-"  # a cheap filter: there may be ten thousand folders
    names = [name for name in _entries(places.runs) if name.startswith(begin)]
    parsed = ((name, parse_run_name(name)) for name in names)
    mine = sorted((m.second, name) for name, m in parsed if m and m.pipeline == pipeline)
    for _, same in groupby(reversed(mine), key=lambda pair: pair[0]):
        found = [run for _, name in same if (run := read(places, name)) is not None]
        yield from sorted(found, key=lambda run: run.spec.at, reverse=True)


def newest(places: StatePaths, pipeline: str) -> Run | None:
    return next(backwards(places, pipeline), None)


def last_ended(places: StatePaths, pipeline: str) -> Run | None:
    return next((run for run in backwards(places, pipeline) if run.exit is not None), None)


def is_live(run: Run) -> bool:
    """Its driver's process lives (and not another one with its pid)."""
    return run.process is not None and run.exit is None and process_identity.is_alive(run.process)


def is_open(run: Run) -> bool:
    """It lives, or was just launched and has not written its pid yet."""
    return run.exit is None and (run.process is None or is_live(run))


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
