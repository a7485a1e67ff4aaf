"""Run folders: `.headrace/runs/RUN/`, where the memory of the supervisor lives.

Read at its start and kept up while it runs; `orders.json` and `outcome.json` are its own files
there, everything else is the driver's. Invariant: a file that cannot be read counts as not written;
no folder of a run that may still live is ever removed.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.errors import StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.events import Event
from headrace.model.places import Places
from headrace.model.runs import Desired, Ending, Exit, Process, RunSpec
from headrace.model.runview import RunView, fold
from headrace.supervisor.situation import Orders, PastRun

logger = logging.getLogger(__name__)

KEPT_PER_PIPELINE = 50
_NAME = re.compile(r"(?P<pipeline>.+)-\d{8}T\d{6}-\w+")


def new_spec(desired: Desired, project: Path, places: Places, at: float) -> RunSpec:
    """Names sort by time, also two within one second: the middle is the time, the end is chance."""
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%S")
    return RunSpec(
        run=f"{desired.pipeline}-{stamp}-{secrets.token_hex(2)}",
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
    names = [path.name for path in _entries(places.runs) if _NAME.fullmatch(path.name)]
    for name in names:
        body = _read(places.spec(name))
        with contextlib.suppress(TypeError):
            spec = RunSpec.from_json(body) if body else None
            if spec is not None and spec.run == name and not spec.define:
                found.setdefault(spec.pipeline, []).append(spec)
    for runs in found.values():
        runs.sort(key=lambda spec: (spec.at, spec.run))
    return found


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


def view_of(places: Places, run: str) -> RunView:
    """The whole events file of a run that is over."""
    view = RunView()
    with contextlib.suppress(OSError), places.events(run).open("rb") as file:
        for line in file:
            with contextlib.suppress(ValueError):  # also a last line that was torn by a kill
                event = Event.from_line(line.decode())
                view = fold(view, event, event.at)
    return view


def concluded(spec: RunSpec, exit_: Exit, view: RunView, ended_at: float) -> PastRun:
    return PastRun(
        spec=spec,
        exit=exit_,
        ended_at=ended_at,
        lived_s=max(0.0, exit_.at - spec.at),
        has_worked=view.has_worked,
        committed={name: query.batches for name, query in view.queries.items()},
    )


def prune(places: Places, kept: set[str], runs: list[RunSpec]) -> list[str]:
    """Remove the oldest folders of one pipeline; `kept` are never among them. Returns names."""
    gone = []
    for spec in runs[:-KEPT_PER_PIPELINE]:
        if spec.run not in kept:
            shutil.rmtree(places.run(spec.run), ignore_errors=True)
            gone.append(spec.run)
    return gone


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
