"""Run folders: `.headrace/runs/RUN/`.

The supervisor reads them at its start; `orders.json` and `outcome.json` are its own files, the rest
is the driver's. Invariant: a file that cannot be read counts as missing; the folder of a run that
may still live is never removed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from headrace import process_identity
from headrace.errors import StoreError
from headrace.json_file import read_json, write_json
from headrace.model.runs import (
    Desired,
    Ending,
    Exit,
    Orders,
    PastRun,
    Process,
    RunSpec,
    parse_run_name,
    run_name,
)
from headrace.model.series import Series
from headrace.model.state_paths import StatePaths

logger = logging.getLogger(__name__)

T = TypeVar("T")

KEPT_PER_PIPELINE = 50
LEFTOVER_S = 60.0  # the parent of a check reads its result well within this time
EVENTS_KEPT = 10  # of the newest runs; an events file may have 256 MB


def new_spec(desired: Desired, project: Path, places: StatePaths, at: float) -> RunSpec:
    return RunSpec(
        run=run_name(desired.pipeline, at, secrets.token_hex(2)),
        pipeline=desired.pipeline,
        project=str(project),
        state=str(places.state),
        version=desired.version,
        profile=desired.profile,
        file=desired.file,
        script=desired.script,
        args=desired.args,
        generation=desired.generation,
        at=at,
    )


def write_spec(places: StatePaths, spec: RunSpec) -> None:
    places.run(spec.run).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(places.spec(spec.run), spec.to_json())


def specs(places: StatePaths) -> dict[str, list[RunSpec]]:
    """Every run of every pipeline, oldest first. Without definition runs."""
    found: dict[str, list[RunSpec]] = {}
    for name in runs(places):
        spec = spec_of(places, name)
        if spec is not None:
            found.setdefault(spec.pipeline, []).append(spec)
    for mine in found.values():
        mine.sort(key=lambda spec: (spec.at, spec.run))
    return found


def runs(places: StatePaths) -> list[str]:
    """Names of all runs that have a folder, unordered."""
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(places.runs) if parse_run_name(name)]
    return []


def spec_of(places: StatePaths, run: str) -> RunSpec | None:
    """None while it is not written, and for a run that only defines."""
    spec = _read(places.spec(run), RunSpec.from_json)
    return spec if spec is not None and spec.run == run and not spec.define else None


def is_over(places: StatePaths, run: str) -> bool:
    """By the files in its folder."""
    return math.isfinite(ended_at(places, run))


def ended_at(places: StatePaths, run: str) -> float:
    """By the same files; infinite while it is not over."""
    found = []
    for path in (places.exit(run), places.run(run) / "outcome.json"):
        with contextlib.suppress(OSError):
            found.append(path.stat().st_mtime)
    return max(found, default=math.inf)


def process_of(places: StatePaths, run: str) -> Process | None:
    return _read(places.process(run), Process.from_json)


def exit_of(places: StatePaths, run: str) -> Exit | None:
    return _read(places.exit(run), _parse_exit)


def _parse_exit(body: Mapping[str, Any]) -> Exit:
    found = Exit.from_json(body)
    Ending(found.ending)  # raises ValueError
    return found


def orders_of(places: StatePaths, run: str, now: float) -> Orders:
    """Times written by an earlier supervisor are at most `now`: clocks may jump."""

    def parse(body: Mapping[str, Any]) -> Orders:
        names = ("drain_at", "cut_at", "kill_at", "dumped_at")
        times = {n: min(body[n], now) for n in names if isinstance(body.get(n), int | float)}
        return Orders.from_json({**body, **times})

    return _read(places.run(run) / "orders.json", parse) or Orders()


def write_orders(places: StatePaths, run: str, orders: Orders) -> None:
    write_json(places.run(run) / "orders.json", orders.to_json())


def outcome_of(places: StatePaths, spec: RunSpec, now: float) -> PastRun | None:
    """`outcome.json`: the supervisor's conclusion when it noticed the end."""

    def parse(body: Mapping[str, Any]) -> PastRun:
        return PastRun(
            spec=spec,
            exit=_parse_exit(body["exit"]),
            ended_at=min(float(body["noticed_at"]), now),
            lived_s=float(body["lived_s"]),
            has_worked=bool(body["has_worked"]),
            committed={str(k): int(v) for k, v in body["committed"].items()},
        )

    return _read(places.run(spec.run) / "outcome.json", parse)


def write_outcome(places: StatePaths, past: PastRun, noticed_at: float) -> None:
    body = {
        "noticed_at": noticed_at,
        "exit": asdict(past.exit),
        "lived_s": past.lived_s,
        "has_worked": past.has_worked,
        "committed": dict(past.committed),
    }
    write_json(places.run(past.spec.run) / "outcome.json", body)


def series_of(places: StatePaths, run: str) -> dict[str, Series]:
    """`series.json`: the counts of its queries, with which the next run is compared."""
    body = _read(places.run(run) / "series.json", dict) or {}
    return {name: Series.from_json(found) for name, found in body.items()}


def write_series(places: StatePaths, run: str, series: Mapping[str, Series]) -> None:
    write_json(
        places.run(run) / "series.json", {name: one.to_json() for name, one in series.items()}
    )


def prune(places: StatePaths, runs: list[RunSpec]) -> list[str]:
    """Remove the oldest folders of one pipeline, and the events of all but the newest.

    `runs` are over, oldest first. Returns the removed names.
    """
    gone = [spec.run for spec in runs[:-KEPT_PER_PIPELINE]]
    for run in gone:
        remove(places, run)
    for spec in runs[-KEPT_PER_PIPELINE:-EVENTS_KEPT]:
        with contextlib.suppress(OSError):
            places.events(spec.run).unlink(missing_ok=True)
    return gone


def remove_leftovers(places: StatePaths, now: float) -> list[str]:
    """Remove the folders that killed checks and SQL queries have left."""
    gone = []
    for run in runs(places):
        folder = places.run(run)
        with contextlib.suppress(OSError):
            is_recent = folder.stat().st_mtime > now - LEFTOVER_S
            if not is_recent and _is_leftover(places, run):
                remove(places, run)
                gone.append(run)
    return gone


def _is_leftover(places: StatePaths, run: str) -> bool:
    """By its run.json: a pipeline may be called "check", too."""
    body = _read(places.spec(run), dict) or {}
    process = process_of(places, run)
    is_alive = process is not None and process_identity.is_alive(process)
    return bool(body.get("define") or body.get("question")) and not is_alive


def forget_secrets(places: StatePaths, run: str) -> None:
    """For a driver that was killed while Spark started; otherwise it removes them itself."""
    with contextlib.suppress(OSError):
        places.spark_settings(run).unlink(missing_ok=True)


def remove(places: StatePaths, run: str) -> None:
    shutil.rmtree(places.run(run), ignore_errors=True)


def _read(path: Path, parse: Callable[[dict[str, Any]], T]) -> T | None:
    try:
        body = read_json(path)
        return parse(body) if body else None
    except StoreError as exc:
        logger.warning("%s", exc.what)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    return None
