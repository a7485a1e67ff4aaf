"""Run folders: `.headrace/runs/RUN/`, where the memory of the supervisor lives.

Read at its start and kept up while it runs; `orders.json` and `outcome.json` are its own files
there, everything else is the driver's. Invariant: a file that cannot be read counts as not written;
no folder of a run that may still live is ever removed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.errors import StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.outcomes import PastRun
from headrace.model.places import Places
from headrace.model.runs import (
    Desired,
    Ending,
    Exit,
    Orders,
    Process,
    RunSpec,
    parse_run_name,
    run_name,
)
from headrace.model.series import Series

logger = logging.getLogger(__name__)

KEPT_PER_PIPELINE = 50
EVENTS_KEPT = 10  # of the newest runs; an events file may have 256 MB


def new_spec(desired: Desired, project: Path, places: Places, at: float) -> RunSpec:
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


def write_spec(places: Places, spec: RunSpec) -> None:
    places.run(spec.run).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(places.spec(spec.run), spec.to_json())


def specs(places: Places) -> dict[str, list[RunSpec]]:
    """Every run of every pipeline, oldest first. Definition runs are nobody's history."""
    found: dict[str, list[RunSpec]] = {}
    for name in runs(places):
        spec = spec_of(places, name)
        if spec is not None:
            found.setdefault(spec.pipeline, []).append(spec)
    for mine in found.values():
        mine.sort(key=lambda spec: (spec.at, spec.run))
    return found


def runs(places: Places) -> list[str]:
    """Names of all runs that have a folder, in no order."""
    return [path.name for path in _entries(places.runs) if parse_run_name(path.name)]


def spec_of(places: Places, run: str) -> RunSpec | None:
    """None while it is not written, and for what is no run of a pipeline."""
    body = _read(places.spec(run))
    with contextlib.suppress(TypeError):
        spec = RunSpec.from_json(body) if body else None
        return spec if spec is not None and spec.run == run and not spec.define else None
    return None


def is_over(places: Places, run: str) -> bool:
    """As far as its own folder says so."""
    return places.exit(run).exists() or (places.run(run) / "outcome.json").exists()


def ended_at(places: Places, run: str) -> float:
    """By the same files; infinity while it is not over."""
    found = []
    for path in (places.exit(run), places.run(run) / "outcome.json"):
        with contextlib.suppress(OSError):
            found.append(path.stat().st_mtime)
    return max(found, default=math.inf)


def process_of(places: Places, run: str) -> Process | None:
    body = _read(places.process(run))
    with contextlib.suppress(TypeError):
        return Process.from_json(body) if body else None
    return None


def exit_of(places: Places, run: str) -> Exit | None:
    body = _read(places.exit(run))
    with contextlib.suppress(TypeError, ValueError):
        if body:
            found = Exit.from_json(body)
            Ending(found.ending)
            return found
    return None


def orders_of(places: Places, run: str, now: float) -> Orders:
    """Times of another supervisor's life are no later than now by this one's clock."""
    body = _read(places.run(run) / "orders.json")
    with contextlib.suppress(TypeError):
        if body:
            names = ("drain_at", "cut_at", "kill_at", "dumped_at")
            times = {n: min(body[n], now) for n in names if isinstance(body.get(n), int | float)}
            return Orders.from_json({**body, **times})
    return Orders()


def write_orders(places: Places, run: str, orders: Orders) -> None:
    write_json(places.run(run) / "orders.json", orders.to_json())


def outcome_of(places: Places, spec: RunSpec, now: float) -> PastRun | None:
    """`outcome.json`: what the supervisor concluded when it noticed the end."""
    body = _read(places.run(spec.run) / "outcome.json")
    with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
        if body:
            exit_ = Exit.from_json(body["exit"])
            Ending(exit_.ending)
            return PastRun(
                spec=spec,
                exit=exit_,
                ended_at=min(float(body["noticed_at"]), now),
                lived_s=float(body["lived_s"]),
                has_worked=bool(body["has_worked"]),
                committed={str(k): int(v) for k, v in body["committed"].items()},
            )
    return None


def write_outcome(places: Places, past: PastRun, noticed_at: float) -> None:
    body = {
        "noticed_at": noticed_at,
        "exit": asdict(past.exit),
        "lived_s": past.lived_s,
        "has_worked": past.has_worked,
        "committed": dict(past.committed),
    }
    write_json(places.run(past.spec.run) / "outcome.json", body)


def series_of(places: Places, run: str) -> dict[str, Series]:
    """`series.json`: the counts of its queries, for the next run to compare itself with."""
    body = _read(places.run(run) / "series.json") or {}
    return {name: Series.from_json(found) for name, found in body.items()}


def write_series(places: Places, run: str, series: Mapping[str, Series]) -> None:
    write_json(
        places.run(run) / "series.json", {name: one.to_json() for name, one in series.items()}
    )


def prune(places: Places, kept: set[str], runs: list[RunSpec]) -> list[str]:
    """Remove the oldest folders of one pipeline, and the events of those that are no longer new.

    `runs` are over, oldest first; those in `kept` are left whole. Returns names of removed ones.
    """
    gone = []
    for number, spec in enumerate(reversed(runs), start=1):
        if spec.run in kept or number <= EVENTS_KEPT:
            continue
        if number > KEPT_PER_PIPELINE:
            remove(places, spec.run)
            gone.append(spec.run)
        else:
            with contextlib.suppress(OSError):
                places.events(spec.run).unlink(missing_ok=True)
    return gone[::-1]


def forget_secrets(places: Places, run: str) -> None:
    """The driver removes them itself, unless it was killed while Spark started."""
    with contextlib.suppress(OSError):
        places.spark_settings(run).unlink(missing_ok=True)


def remove(places: Places, run: str) -> None:
    shutil.rmtree(places.run(run), ignore_errors=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except StoreError as exc:
        logger.warning("%s", exc.what)
        return None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
