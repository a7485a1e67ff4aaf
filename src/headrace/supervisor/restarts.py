"""What follows the end of a run: start again, wait first, or ask for a person. Pure.

Everything is counted from the runs that were, of the present generation only: so nothing is
forgotten when a supervisor is killed, and a person's `start` or `up` begins with a clean slate.
Invariant: no error text is read here. Kinds and fingerprints come from `failures/` by exit.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.model import health
from headrace.model.limits import RestartLimits
from headrace.model.outcomes import PastRun, attempts_in_a_row, stalls_without_commit, why_give_up
from headrace.model.runs import Desired, Ending
from headrace.model.runview import RunView
from headrace.supervisor.situation import GiveUp, Hold, Launch, Wait

Gaps = tuple[Mapping[str, Any], ...]  # model.gaps, as JSON


def after(
    desired: Desired, past: Sequence[PastRun], limits: RestartLimits, now: float
) -> Launch | Wait | GiveUp | Hold:
    mine = [run for run in past if run.spec.generation == desired.generation]
    if not mine:
        return Launch(attempt=1, restarts=0)
    last = mine[-1]
    if last.exit.ending == Ending.FINISHED:
        return Hold("finished")
    hopeless = why_give_up(mine, limits)
    if hopeless is not None:
        return GiveUp(hopeless)
    attempt = attempts_in_a_row(last, limits) + 1
    # A clock that was set back while no supervisor ran must not make anybody wait for an hour.
    until = min(last.ended_at, now) + delay_s(last, limits)
    if now < until:
        return Wait(until, health.cause(last.exit), attempt)
    return Launch(attempt=attempt, restarts=last.spec.restarts + 1)


def delay_s(last: PastRun, limits: RestartLimits) -> float:
    """Doubling, with jitter that is a property of the run: asked twice it answers the same."""
    failed = attempts_in_a_row(last, limits)
    doublings = min(max(0, failed - 1), 40)
    delay = min(limits.delay_s_max, limits.delay_s_min * 2.0**doublings)
    spread = int.from_bytes(hashlib.sha256(last.spec.run.encode()).digest()[:4], "big") / 2**32
    return delay * (1 + limits.jitter * (2 * spread - 1))


def gaps_left(
    desired: Desired, past: Sequence[PastRun], are_behind: Callable[[Gaps], bool]
) -> Gaps | None:
    """What a person agreed to leave out and the next run still has to; None: nothing, it is strict.
    Where nothing was shown to them, a run that left out whatever it met has only to have worked."""
    gaps = desired.accepted_gaps
    mine = [run for run in past if run.spec.generation == desired.generation]
    is_used = any(run.spec.accepts_gap and run.has_worked for run in mine)
    return None if gaps is None or (is_used and are_behind(gaps)) else gaps


def patience(desired: Desired, past: Sequence[PastRun], view: RunView) -> float:
    """Times the usual stall limit: a first batch that was too slow twice gets four times as long.

    Doubled for each hang without a commit; a run that commits is judged by the usual limit again.
    """
    if view.has_committed:
        return 1.0
    mine = [run for run in past if run.spec.generation == desired.generation]
    return 2.0 ** min(stalls_without_commit(mine), 10)
