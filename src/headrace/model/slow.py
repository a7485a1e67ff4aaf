"""Why a query is slow, in one verdict, and what a change would gain. Pure.

Judges the newest batches of one query by Spark's own numbers: what a batch spends its time on, how
much state it commits, how many rows it has. Read by the page. Invariant: a gain is worked out from
these numbers and said with them; where they do not tell, there is no advice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

BATCHES_MIN = 5
BUSY = 0.5  # share of the time in which a batch runs: below that there is nothing to gain
DOMINANT = 0.4  # share of a batch that makes a part worth a word
TINY_ROWS = 1_000
WORK = "addBatch"
BOOKKEEPING = ("walCommit", "commitOffsets", "commitBatch")
LOOKING = ("latestOffset", "getBatch")
PLANNING = ("queryPlanning",)


@dataclass(frozen=True, slots=True)
class Batch:
    """What the verdict rests on, of one batch. `raw` is Spark's own progress object."""

    at: float
    rows: int
    batch_ms: float
    phases: Mapping[str, float]
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`gain`: how much shorter a batch would be, from 0 to 1; None if nobody can tell."""

    slug: str  # not-slow | too-new | tiny-batches | state-commit | few-partitions | phase | work
    what: str
    fix: str | None = None
    gain: float | None = None


def verdict(batches: Sequence[Batch], cores: int) -> Verdict:
    """`batches` in order of time; `cores` are the task slots of this run."""
    seen = [batch for batch in batches if batch.batch_ms > 0 and batch.rows > 0]
    if len(seen) < BATCHES_MIN:
        return Verdict("too-new", f"{len(seen)} batches with rows so far: too few to judge.")
    share = _busy_share(seen)
    mean_ms = fmean(batch.batch_ms for batch in seen)
    if share < BUSY:
        free = f"it works {share:.0%} of the time, {mean_ms:,.0f} ms a batch"
        return Verdict("not-slow", f"Not slow: {free}.")
    parts = _parts(seen)
    found = (
        _state_commit(seen, mean_ms),
        _tiny(seen, parts, mean_ms),
        _few_partitions(seen, parts, cores),
        _one_part(parts, mean_ms),
    )
    known = [one for one in found if one is not None]
    if known:
        return max(known, key=lambda one: one.gain or 0.0)
    return Verdict(
        "work",
        f"It works all the time: {parts[WORK]:.0%} of {mean_ms:,.0f} ms a batch is the query "
        "itself.",
        "Give it more cores, or let it do less: filter before joins, aggregate fewer keys.",
    )


def _busy_share(seen: Sequence[Batch]) -> float:
    span_ms = (seen[-1].at - seen[0].at) * 1000 + seen[0].batch_ms
    return min(1.0, sum(batch.batch_ms for batch in seen) / max(span_ms, 1.0))


def _parts(seen: Sequence[Batch]) -> dict[str, float]:
    """Each phase's share of all the time in batches."""
    whole = sum(batch.batch_ms for batch in seen)
    names = {name for batch in seen for name in batch.phases} | {WORK}
    return {n: sum(batch.phases.get(n, 0.0) for batch in seen) / whole for n in names}


def _tiny(seen: Sequence[Batch], parts: Mapping[str, float], mean_ms: float) -> Verdict | None:
    """Few rows, and most of the time is what every batch costs, however many rows it has."""
    rows = fmean(batch.rows for batch in seen)
    fixed = sum(parts.get(n, 0.0) for n in (*BOOKKEEPING, *LOOKING, *PLANNING))
    if rows >= TINY_ROWS or fixed < DOMINANT:
        return None
    return Verdict(
        "tiny-batches",
        f"Tiny batches: {rows:,.0f} rows each, and {fixed:.0%} of {mean_ms:,.0f} ms is what every "
        "batch costs before and after its rows.",
        'Trigger half as often (every="…"): as many rows again for the same fixed cost.',
        gain=fixed / 2,
    )


def _state_commit(seen: Sequence[Batch], mean_ms: float) -> Verdict | None:
    """The time Spark itself says that it committed state, over its partitions."""
    times, partitions, rows = [], 0, 0
    for batch in seen:
        operators = [o for o in _items(batch.raw.get("stateOperators")) if isinstance(o, Mapping)]
        spent = 0.0
        for one in operators:
            count = max(1, int(_number(one.get("numShufflePartitions")) or 1))
            spent += (_number(one.get("commitTimeMs")) or 0.0) / count
            partitions = max(partitions, count)
            rows = max(rows, int(_number(one.get("numRowsTotal")) or 0))
        times.append(spent)
    share = fmean(times) / mean_ms if times else 0.0
    if share < DOMINANT / 2:
        return None
    return Verdict(
        "state-commit",
        f"State: {share:.0%} of {mean_ms:,.0f} ms a batch is committing state ({rows:,} rows in "
        f"{partitions} partitions).",
        "Fewer state partitions (spark.sql.shuffle.partitions, with a new checkpoint and, for a "
        "file sink, a new folder), less state (a shorter watermark), or a longer trigger.",
        gain=share / 2,
    )


def _few_partitions(
    seen: Sequence[Batch], parts: Mapping[str, float], cores: int
) -> Verdict | None:
    """The query itself takes the time, and its input has fewer partitions than there are cores."""
    partitions = _partitions(seen[-1].raw)
    if partitions is None or partitions >= cores or parts[WORK] < DOMINANT:
        return None
    return Verdict(
        "few-partitions",
        f"Too few partitions: its input has {partitions}, so {cores - partitions} of {cores} cores "
        "wait.",
        f"Give the topic {cores} partitions, or repartition({cores}) before the costly part.",
        gain=parts[WORK] * (1 - partitions / cores),
    )


def _partitions(raw: Mapping[str, Any]) -> int | None:
    """Of sources that count by partition (topic: {partition: offset})."""
    count = 0
    for source in _items(raw.get("sources")):
        offsets = source.get("endOffset") if isinstance(source, Mapping) else None
        if not isinstance(offsets, Mapping):
            return None
        topics = [one for one in offsets.values() if isinstance(one, Mapping)]
        if not topics:
            return None
        count += sum(len(one) for one in topics)
    return count or None


_ABOUT = {
    **dict.fromkeys(
        BOOKKEEPING,
        ("writing the checkpoint", "Put checkpoints on a faster disk, or trigger less often."),
    ),
    **dict.fromkeys(
        LOOKING,
        (
            "looking for new input",
            "Many old files in the source's folder? Move them away (cleanSource), or use a "
            "source that tells what is new, such as Kafka.",
        ),
    ),
    **dict.fromkeys(
        PLANNING,
        ("planning", "Fewer columns and joins in one query, or a longer trigger."),
    ),
}


def _one_part(parts: Mapping[str, float], mean_ms: float) -> Verdict | None:
    name = max(parts, key=lambda one: parts[one] if one in _ABOUT else 0.0)
    if name not in _ABOUT or parts[name] < DOMINANT:
        return None
    doing, fix = _ABOUT[name]
    words = f"{parts[name]:.0%} of {mean_ms:,.0f} ms a batch is {doing} ({name})."
    return Verdict("phase", words, fix, gain=parts[name])


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _number(value: Any) -> float | None:
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return float(value) if is_one else None
