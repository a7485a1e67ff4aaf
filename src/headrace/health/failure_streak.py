"""Past runs, and whether another one makes sense. Pure.

Counts past runs of one generation only. Invariant: no error text is read here; kinds and
fingerprints come from `failures/` through exit.json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.health import judgement
from headrace.model.limits import RestartLimits
from headrace.model.runs import Ending, Exit, PastRun

HELD = "checkpoint-held"  # slug of a temporary refusal: the old JVM is still ending
HELD_RETRIES = 5  # half a minute; a JVM ends within seconds, another owner does not
NOT_A_FAILURE = (Ending.DRAINED, Ending.CUT)


def why_give_up(mine: Sequence[PastRun], limits: RestartLimits) -> str | None:
    last = mine[-1]
    ended, because = last.exit, judgement.cause(last.exit)
    if ended.ending in NOT_A_FAILURE:
        return None
    if ended.ending == Ending.FENCED:
        return f"fenced: {because}"
    kind = kind_of(ended)
    if kind == "human":
        return because
    if kind == "retry-then-human":
        retries = HELD_RETRIES if _slug(ended) == HELD else ended.retries or 0
        if _same_slug_in_a_row(mine, limits) > retries:
            return f"{because} (tried {retries + 1} times)"
    if kind in ("data", "unknown"):
        times = _failures_without_commit(mine)
        if times >= limits.same_failure_max:
            batch = "" if ended.batch is None else f", batch {ended.batch},"
            where = f" in {ended.query}{batch}" if ended.query else ""
            return f"the same failure {times} times{where} without a new commit: {because}"
    if ended.ending == Ending.STALLED:
        times = stalls_without_commit(mine)
        if times >= limits.same_failure_max:
            return f"the driver hung {times} times without a new commit: {because}"
    if is_limit_used_up(mine, limits):
        return f"{because} (no retries left: restart.retries = {limits.retries})"
    return None


def is_limit_used_up(mine: Sequence[PastRun], limits: RestartLimits) -> bool:
    """restart.retries allows no further restart."""
    failed = attempts_in_a_row(mine[-1], limits) if mine else 0
    return limits.retries is not None and failed > limits.retries


def attempts_in_a_row(last: PastRun, limits: RestartLimits) -> int:
    """Failed attempts since the last healthy run; one that was healthy and failed is the first."""
    if last.exit.ending in NOT_A_FAILURE:
        return 0
    return 1 if _is_healthy(last, limits) else max(1, last.spec.attempt)


def kind_of(ended: Exit) -> str:
    """retry | retry-then-human | human | data | unknown, also for unclassified ends."""
    if _slug(ended) == HELD:
        return "retry-then-human"
    if ended.ending in (Ending.VANISHED, Ending.STALLED):
        return "retry"
    if ended.kind:
        return ended.kind
    return "human" if ended.ending == Ending.REFUSED or ended.code in (2, 3) else "unknown"


def stalls_without_commit(mine: Sequence[PastRun]) -> int:
    """How often it hung, in any query, since the last commit."""
    return _times_since_commit(mine, None, lambda ended: ended.ending == Ending.STALLED)


def _failures_without_commit(mine: Sequence[PastRun]) -> int:
    """How often the newest failure occurred since its query last committed. Runs in between that
    ended otherwise are ignored."""
    newest = _identity(mine[-1].exit)
    return _times_since_commit(
        mine,
        mine[-1].exit.query,
        lambda ended: kind_of(ended) in ("data", "unknown") and _identity(ended) == newest,
    )


def _times_since_commit(
    mine: Sequence[PastRun], query: str | None, is_counted: Callable[[Exit], bool]
) -> int:
    times = 0
    for run in reversed(mine):
        times += is_counted(run.exit)
        if run.committed.get(query, 0) > 0 if query else any(run.committed.values()):
            break  # earlier failures are overcome
    return times


def _identity(ended: Exit) -> tuple[str | None, int | None, str]:
    fingerprint = ended.fingerprint or ended.failure or judgement.cause(ended)
    return ended.query, ended.batch, fingerprint


def _same_slug_in_a_row(mine: Sequence[PastRun], limits: RestartLimits) -> int:
    slug, times = _slug(mine[-1].exit), 0
    for run in reversed(mine):
        if _slug(run.exit) != slug:
            break
        times += 1
        if _is_healthy(run, limits):
            break
    return times


def _slug(ended: Exit) -> str | None:
    slug = ended.failure or (ended.error or {}).get("slug")
    return str(slug) if slug else None


def _is_healthy(run: PastRun, limits: RestartLimits) -> bool:
    return judgement.is_healthy(run.has_worked, run.lived_s, limits)
