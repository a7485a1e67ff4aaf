"""Recovers the state of pipelines when a supervisor starts: runs that still live, and runs that
ended without a supervisor.

Invariant: at most one run of a pipeline is adopted; others are killed here, before any decision.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence

from headrace import process_identity
from headrace.model.runs import Desired, Process, RunSpec, Wanted
from headrace.model.state_paths import StatePaths
from headrace.state import desired, run_folders
from headrace.supervisor import process
from headrace.supervisor.pipeline_keeper import Keeper
from headrace.supervisor.running_driver import RunningDriver, Shared
from headrace.supervisor.situation import PolicyLimits

logger = logging.getLogger(__name__)


def recover_keepers(
    shared: Shared, limits: Callable[[Desired], PolicyLimits], now: float
) -> dict[str, Keeper]:
    """One for each pipeline that should run or may still have processes."""
    places = shared.places
    specs = run_folders.specs(places)
    for run in run_folders.runs(places):
        if run_folders.is_over(places, run):  # an earlier Headrace did not delete them
            run_folders.forget_secrets(places, run)
    marked = process_identity.find_marked(places.state)
    wanted = {item.pipeline: item for item in desired.read_all(places)}
    for name, item in wanted.items():
        if item == desired.damaged_placeholder(name):
            wanted[name] = _recover_damaged(places, name, specs.get(name, []))
    for name in specs.keys() - wanted.keys():  # its file was removed, so it should end
        if _is_alive(specs[name], marked):
            by = "Headrace: the pipeline is not deployed"
            wanted[name] = _desired_from_run(specs[name][-1], Wanted.STOPPED, by)
    result = {}
    for name, item in sorted(wanted.items()):
        result[name] = Keeper(shared, item, limits(item))
        _recover(result[name], specs.get(name, []), marked, now)
    return result


def last_generation(places: StatePaths, pipeline: str) -> int:
    """The last generation of runs whose desired state is lost: a new deploy must be later."""
    return max((spec.generation for spec in run_folders.specs(places).get(pipeline, [])), default=0)


def _recover_damaged(places: StatePaths, name: str, specs: Sequence[RunSpec]) -> Desired:
    """Restores a damaged desired state from the last run, except for whether it should run.

    Until a person decides that, the pipeline is neither started nor ended."""
    path = places.desired(name)
    logger.error("%s is damaged: run headrace start %s or headrace stop %s", path, name, name)
    known = desired.damaged_placeholder(name)
    if specs:
        known = _desired_from_run(specs[-1], Wanted.UNKNOWN, "nobody")
    with contextlib.suppress(OSError):
        # A copy, not a rename: without the record, `status` would not list the pipeline.
        shutil.copyfile(path, path.with_name(path.name + ".bad"))
        desired.write(places, known)
    return known


def _desired_from_run(spec: RunSpec, wanted: Wanted, by: str) -> Desired:
    return Desired(
        pipeline=spec.pipeline,
        wanted=wanted.value,
        version=spec.version,
        profile=spec.profile,
        file=spec.file,
        script=spec.script,
        args=spec.args,
        generation=spec.generation,
        by=by,
        at=spec.at,
    )


def _is_alive(specs: Sequence[RunSpec], marked: Sequence[process_identity.MarkedProcess]) -> bool:
    runs = {spec.run for spec in specs}
    return any(process.run in runs for process in marked)


def _recover(
    keeper: Keeper,
    specs: Sequence[RunSpec],
    marked: Sequence[process_identity.MarkedProcess],
    now: float,
) -> None:
    shared = keeper.shared
    leaders = _oldest_leaders(marked)
    alive = [
        (spec, found) for spec in specs if (found := _driver(shared.places, spec.run, leaders))
    ]
    for spec, _ in alive[:-1]:
        logger.error("%s has two live drivers; killing run %s", keeper.name, spec.run)
        process.reap([spec.run], shared.places.state)
    adopted = alive[-1] if alive else None
    for spec in specs:
        if adopted is None or spec.run != adopted[0].run:
            known = run_folders.outcome_of(shared.places, spec, now)
            if known is not None:
                keeper.past.append(known)
            else:
                keeper.unread.append(RunningDriver.adopt(shared, spec, None, now))
    keeper.prune()
    if adopted is not None:
        keeper.adopt(*adopted, now)


def _oldest_leaders(marked: Sequence[process_identity.MarkedProcess]) -> dict[str, Process]:
    """The driver of each run: its children may lead a session too, but are younger."""
    # Start times are in hundredths of a second; for the same time, pids increase.
    newest_first = sorted(marked, key=lambda m: (m.process.started, m.process.pid), reverse=True)
    return {m.run: m.process for m in newest_first if m.is_leader}


def _driver(places: StatePaths, run: str, leaders: Mapping[str, Process]) -> Process | None:
    """By its record, if pid and start time match; without a record, by its mark."""
    recorded = run_folders.process_of(places, run)
    if recorded is None:
        return leaders.get(run)
    return recorded if process_identity.is_marked(recorded, run, places.state) else None
