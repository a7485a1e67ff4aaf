"""Decides what follows the end of a run: restart, wait first, or ask for attention. Pure.

All counts come from past runs of the current generation: so they survive a killed supervisor, and a
person's `start` or `up` resets them. Error texts are not parsed here: exit.json has the kind and
the fingerprint of a failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.health import judgement
from headrace.health.failure_streak import attempts_in_a_row, stalls_without_commit, why_give_up
from headrace.health.run_view import RunView
from headrace.model.limits import RestartLimits
from headrace.model.runs import Desired, Ending, PastRun
from headrace.supervisor.situation import GiveUp, Hold, Launch, Wait

Gaps = tuple[Mapping[str, Any], ...]  # model.gaps, as JSON


def decide(
    desired: Desired, past: Sequence[PastRun], limits: RestartLimits, now: float
) -> Launch | Wait | GiveUp | Hold:
    mine = _of_generation(past, desired)
    if not mine:
        return Launch(attempt=1, restarts=0)
    last = mine[-1]
    if last.exit.ending == Ending.FINISHED:
        return Hold("finished")
    hopeless = why_give_up(mine, limits)
    if hopeless is not None:
        return GiveUp(hopeless)
    attempt = attempts_in_a_row(last, limits) + 1
    # If the clock was set back while no supervisor ran, do not wait until it catches up.
    until = min(last.ended_at, now) + delay_s(last, limits)
    if now < until:
        return Wait(until, judgement.cause(last.exit), attempt)
    return Launch(attempt=attempt, restarts=last.spec.restarts + 1)


def delay_s(last: PastRun, limits: RestartLimits) -> float:
    """Doubles with each failure. The jitter depends on the run, so the result is repeatable."""
    failed = attempts_in_a_row(last, limits)
    doublings = min(max(0, failed - 1), 40)
    delay = min(limits.delay_s_max, limits.delay_s_min * 2.0**doublings)
    spread = int.from_bytes(hashlib.sha256(last.spec.run.encode()).digest()[:4], "big") / 2**32
    return delay * (1 + limits.jitter * (2 * spread - 1))


def gaps_left(
    desired: Desired, past: Sequence[PastRun], are_behind: Callable[[Gaps], bool]
) -> Gaps | None:
    """The accepted gaps that the next run has to skip; None: it checks for data loss again.

    If the gaps are unknown, they count as skipped once a run that accepts gaps has worked."""
    gaps = desired.accepted_gaps
    mine = _of_generation(past, desired)
    is_used = any(run.spec.accepts_gap and run.has_worked for run in mine)
    return None if gaps is None or (is_used and are_behind(gaps)) else gaps


def patience(desired: Desired, past: Sequence[PastRun], view: RunView) -> float:
    """The factor of the stall limit: doubled for each stall without a commit, 1 after a commit.

    So a first batch that was too slow twice gets four times as long.
    """
    if view.has_committed:
        return 1.0
    return 2.0 ** min(stalls_without_commit(_of_generation(past, desired)), 10)


def _of_generation(past: Sequence[PastRun], desired: Desired) -> list[PastRun]:
    return [run for run in past if run.spec.generation == desired.generation]
