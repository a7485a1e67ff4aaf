"""What a starting supervisor finds: runs that still live, and runs that ended while nobody watched.

Called once by `loop.py`. Invariant: at most one run of a pipeline is adopted; whatever else lives
of it is ended here, before anything is decided.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence

from headrace import processes
from headrace.model.places import Places
from headrace.model.runs import Desired, Process, RunSpec, Wanted
from headrace.state import desired, folders
from headrace.supervisor import process
from headrace.supervisor.keeper import Keeper
from headrace.supervisor.live import House, Live
from headrace.supervisor.situation import Limits

logger = logging.getLogger(__name__)


def keepers(house: House, limits: Callable[[Desired], Limits], now: float) -> dict[str, Keeper]:
    """One for each pipeline that should run, or of which something may still run."""
    places = house.places
    specs = folders.specs(places)
    for run in folders.runs(places):
        if folders.is_over(places, run):  # of a Headrace that left them there
            folders.forget_secrets(places, run)
    marked = processes.marked(places.state)
    wanted = {one.pipeline: one for one in desired.listed(places)}
    for name, item in wanted.items():
        if item == desired.damaged(name):
            wanted[name] = _of_damaged(places, name, specs.get(name, []))
    for name in specs.keys() - wanted.keys():  # somebody took its file away, so it should end
        if _alive(specs[name], marked):
            wanted[name] = _like(specs[name][-1], Wanted.STOPPED, "nobody: it is not deployed")
    found = {}
    for name, want in sorted(wanted.items()):
        keeper = Keeper(house, want, limits(want))
        _recover(keeper, specs.get(name, []), marked, now)
        found[name] = keeper
    return found


def last_generation(places: Places, pipeline: str) -> int:
    """Of runs whose desired state is gone: a new deploy must not be taken for one of theirs."""
    return max((spec.generation for spec in folders.specs(places).get(pipeline, [])), default=0)


def _of_damaged(places: Places, name: str, specs: Sequence[RunSpec]) -> Desired:
    """What the last run tells of a pipeline whose record is damaged: all but whether it should run.

    It is neither started nor, if it lives, ended, until a person says which it is."""
    path = places.desired(name)
    logger.error("%s is damaged: a person has to say whether %s should run", path, name)
    known = _like(specs[-1], Wanted.UNKNOWN, "nobody") if specs else desired.damaged(name)
    with contextlib.suppress(OSError):
        path.rename(path.with_name(path.name + ".bad"))
        desired.write(places, known)
    return known


def _like(spec: RunSpec, wanted: Wanted, by: str) -> Desired:
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


def _alive(specs: Sequence[RunSpec], marked: Sequence[processes.Marked]) -> bool:
    runs = {spec.run for spec in specs}
    return any(one.run in runs for one in marked)


def _recover(
    keeper: Keeper, specs: Sequence[RunSpec], marked: Sequence[processes.Marked], now: float
) -> None:
    house = keeper.house
    leaders = _oldest_leaders(marked)
    alive = [(spec, found) for spec in specs if (found := _driver(house.places, spec.run, leaders))]
    for spec, _ in alive[:-1]:
        logger.error("two drivers of %s live; run %s is ended", keeper.name, spec.run)
        process.reap([spec.run], house.places.state)
    adopted = alive[-1] if alive else None
    for spec in specs:
        if adopted is None or spec.run != adopted[0].run:
            known = folders.outcome_of(house.places, spec, now)
            if known is not None:
                keeper.past.append(known)
            else:
                keeper.unread.append(Live.adopted(house, spec, None, now))
    keeper.prune()
    if adopted is not None:
        keeper.adopt(*adopted, now)


def _oldest_leaders(marked: Sequence[processes.Marked]) -> dict[str, Process]:
    """Of each run: what a driver starts may lead a session too, but is younger than the driver."""
    # Start times are in hundredths of a second: within one, pids rise.
    newest_first = sorted(marked, key=lambda m: (m.process.started, m.process.pid), reverse=True)
    return {one.run: one.process for one in newest_first if one.is_leader}


def _driver(places: Places, run: str, leaders: Mapping[str, Process]) -> Process | None:
    """By its own record, if pid and start time agree; without one, by the mark that it carries."""
    recorded = folders.process_of(places, run)
    if recorded is None:
        return leaders.get(run)
    return recorded if processes.is_marked(recorded, run, places.state) else None
