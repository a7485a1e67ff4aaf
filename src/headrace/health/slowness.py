"""Why a query is slow, in one verdict, and what a change would gain. Pure.

Judges the newest batches of one query by Spark's own numbers: what a batch spends its time on, how
much state it commits, how many rows it has. Shown on the page. Invariant: a gain is computed from
these numbers and shown with them. Without such numbers there is no advice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headrace.model.progress import Phase, Progress

BATCHES_MIN = 5
BUSY = 0.5  # share of the time in which a batch runs: below that it is not slow
DOMINANT = 0.4  # share of a batch at which a phase is reported
TINY_ROWS = 1_000
WORK = Phase.ADD_BATCH
BOOKKEEPING = (Phase.WAL_COMMIT, Phase.COMMIT_OFFSETS, Phase.COMMIT_BATCH)
LOOKING = (Phase.LATEST_OFFSET, Phase.GET_BATCH)

Batch = tuple[float, Progress]  # when it was reported


@dataclass(frozen=True, slots=True)
class SlowVerdict:
    """`gain`: how much shorter a batch would be, from 0 to 1; None: unknown."""

    slug: str  # not-slow | too-new | tiny-batches | state-commit | few-partitions | phase | work
    what: str
    fix: str | None = None
    gain: float | None = None


def verdict(batches: Sequence[Batch], cores: int) -> SlowVerdict:
    """`batches` in order of time; `cores` are the task slots of this run."""
    timed = [(at, batch) for at, batch in batches if batch.batch_ms and batch.rows_in]
    if len(timed) < BATCHES_MIN:
        return SlowVerdict("too-new", f"Too few batches with rows to judge: {len(timed)} so far.")
    share = _busy_share(timed)
    seen = [batch for _, batch in timed]
    mean_ms = fmean(batch.batch_ms or 0.0 for batch in seen)
    if share < BUSY:
        works = f"the query is busy {share:.0%} of the time; a batch takes {mean_ms:,.0f} ms"
        return SlowVerdict("not-slow", f"Not slow: {works}.")
    parts = _parts(seen)
    found = (
        _state_commit(seen, mean_ms),
        _tiny(seen, parts, mean_ms),
        _few_partitions(seen, parts, cores),
        _dominant_part(parts, mean_ms),
    )
    if known := [verdict for verdict in found if verdict is not None]:
        return max(known, key=lambda verdict: verdict.gain or 0.0)
    return SlowVerdict(
        "work",
        f"The query is always busy: {parts[WORK]:.0%} of a batch ({mean_ms:,.0f} ms) is spent "
        "processing rows.",
        "Use more cores, or make the query do less work: filter before joins, aggregate fewer "
        "keys.",
    )


def _busy_share(timed: Sequence[Batch]) -> float:
    took_ms = [batch.batch_ms or 0.0 for _, batch in timed]
    span_ms = (timed[-1][0] - timed[0][0]) * 1000 + took_ms[0]
    return min(1.0, sum(took_ms) / max(span_ms, 1.0))


def _parts(seen: Sequence[Progress]) -> dict[str, float]:
    """Each phase's share of all the time in batches."""
    whole = sum(batch.batch_ms or 0.0 for batch in seen)
    names = {name for batch in seen for name in batch.phases} | {WORK}
    return {n: sum(batch.phases.get(n, 0.0) for batch in seen) / whole for n in names}


def _tiny(
    seen: Sequence[Progress], parts: Mapping[str, float], mean_ms: float
) -> SlowVerdict | None:
    """Few rows, and most of the time is the fixed cost of a batch."""
    rows = fmean(batch.rows_in for batch in seen)
    fixed = sum(parts.get(n, 0.0) for n in (*BOOKKEEPING, *LOOKING, Phase.QUERY_PLANNING))
    if rows >= TINY_ROWS or fixed < DOMINANT:
        return None
    return SlowVerdict(
        "tiny-batches",
        f"Tiny batches: {rows:,.0f} rows each, and {fixed:.0%} of the batch time ({mean_ms:,.0f} "
        "ms) is fixed cost.",
        'Trigger half as often (every="…"): each batch then has twice the rows for the same fixed '
        "cost.",
        gain=fixed / 2,
    )


def _state_commit(seen: Sequence[Progress], mean_ms: float) -> SlowVerdict | None:
    """The time to commit state, as Spark reports it, over its partitions."""
    spent = fmean(sum(o.commit_ms / o.partitions for o in batch.operators) for batch in seen)
    operators = [operator for batch in seen for operator in batch.operators]
    share = spent / mean_ms
    if share < DOMINANT / 2:
        return None
    rows = max(operator.rows or 0 for operator in operators)
    partitions = max(operator.partitions for operator in operators)
    return SlowVerdict(
        "state-commit",
        f"State: {share:.0%} of a batch ({mean_ms:,.0f} ms) is spent committing state "
        f"({rows:,} rows in {partitions} partitions).",
        "Use fewer state partitions (spark.sql.shuffle.partitions; this requires a new checkpoint, "
        "and a new folder for a file sink), less state (a shorter watermark delay), or a longer "
        "trigger interval.",
        gain=share / 2,
    )


def _few_partitions(
    seen: Sequence[Progress], parts: Mapping[str, float], cores: int
) -> SlowVerdict | None:
    """Query processing takes the time, and the input has fewer partitions than there are cores."""
    partitions = seen[-1].partitions
    if partitions is None or partitions >= cores or parts[WORK] < DOMINANT:
        return None
    return SlowVerdict(
        "few-partitions",
        f"Too few partitions: the input has {partitions}, so {cores - partitions} of {cores} cores "
        "are idle.",
        f"Give the topic {cores} partitions, or call repartition({cores}) before the expensive "
        "part.",
        gain=parts[WORK] * (1 - partitions / cores),
    )


_ABOUT: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        BOOKKEEPING,
        ("writing the checkpoint", "Put checkpoints on a faster disk, or trigger less often."),
    ),
    **dict.fromkeys(
        LOOKING,
        (
            "looking for new input",
            "If the folder has many old files, move them elsewhere (cleanSource), or use a source "
            "that reports new data, such as Kafka.",
        ),
    ),
    Phase.QUERY_PLANNING: (
        "planning the query",
        "Use fewer columns and joins in one query, or a longer trigger interval.",
    ),
}


def _dominant_part(parts: Mapping[str, float], mean_ms: float) -> SlowVerdict | None:
    name = max(parts, key=lambda phase: parts[phase] if phase in _ABOUT else 0.0)
    if name not in _ABOUT or parts[name] < DOMINANT:
        return None
    doing, fix = _ABOUT[name]
    words = f"{parts[name]:.0%} of a batch ({mean_ms:,.0f} ms) is spent {doing} ({name})."
    return SlowVerdict("phase", words, fix, gain=parts[name])
