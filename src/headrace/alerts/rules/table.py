"""All rules of Headrace, in the order of the reference. Also the names of rules elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.alerts.rules import findings, lag, progress, resources, runs
from headrace.model.alerts import RULE_OF_ROWS
from headrace.model.rules import About, Limit, LimitKind, Rule

_Q, _P, _ALL = About.QUERY, About.PIPELINE, About.PROJECT
_MINUTE, _DAY = 60.0, 86_400.0
QUIET_S = 5 * _MINUTE  # a condition that comes and goes is one alert


def _limit(kind: LimitKind, default: float | None, help_: str) -> Limit:
    return Limit(kind, default, help_)


def _finding(slug: str, severity: str, help_: str, **more: Any) -> Rule:
    settings = {"for_s": _MINUTE, "keep_firing_for_s": QUIET_S, **more}
    return Rule(slug, help_, _Q, severity, findings.rule_of(slug), **settings)


RUNS = (
    Rule(
        "run-failed",
        "A run failed. Each failure is one alert, which ends when the next run has worked. Switch "
        "it on with `every_failure = true` under `[notify]`.",
        _P, "warning", runs.run_failed, enabled=False, needs_run=False,
    ),
    Rule(
        "restarting",
        "The pipeline fails repeatedly, and Headrace restarts it each time.",
        _P, "warning", runs.restarting, needs_run=False,
        limits={
            "failures": _limit(LimitKind.COUNT, 3, "failed runs in a row"),
            "relapses_per_hour": _limit(
                LimitKind.COUNT, 5, "runs within an hour that worked and then failed"
            ),
        },
    ),
    Rule(
        "needs-attention",
        "Headrace does not restart the pipeline, because of bad code, bad data, a broken "
        "checkpoint or the same failure three times.",
        _P, "critical", runs.needs_attention, needs_run=False,
    ),
    Rule(
        "restarts-off",
        "The pipeline failed, and `restart.retries` allows no further restart.",
        _P, "critical", runs.restarts_off, needs_run=False,
    ),
    Rule(
        "stalled",
        "A query is alive but makes no progress: its source does not answer, an idle input holds "
        "its watermark back, or a batch is stuck. The alert says which.",
        _Q, "warning", runs.stalled, needs_run=False,
        limits={
            "source_silent": _limit(
                LimitKind.DURATION, _MINUTE, "how long a source may not answer"
            ),
        },
    ),
)  # fmt: skip
PROGRESS = (
    Rule(
        "freshness", "A query misses its freshness target (`fresh_within`).",
        _Q, "warning", progress.freshness, for_s=2 * _MINUTE, keep_firing_for_s=QUIET_S,
    ),
    Rule(
        "lag",
        "A query is further behind than a limit. Without a limit, this rule does nothing.",
        _Q, "warning", lag.above, for_s=_MINUTE, keep_firing_for_s=QUIET_S,
        limits={
            "rows": _limit(LimitKind.COUNT, None, "unread rows"),
            "seconds": _limit(LimitKind.DURATION, None, "age of the oldest unread row"),
            "bytes": _limit(LimitKind.BYTES, None, "size of the unread files"),
            "files": _limit(LimitKind.COUNT, None, "unread files"),
        },
    ),
    _finding(
        "falling-behind", "warning",
        "More rows arrive than the query processes. The alert names the bottleneck, and the time "
        "when unread data will be deleted.",
    ),
    Rule(
        "slow-batch", "Batches take longer than the trigger interval.",
        _Q, "warning", progress.slow_batch, for_s=5 * _MINUTE, keep_firing_for_s=QUIET_S,
        limits={
            "times": _limit(LimitKind.COUNT, 1.0, "how many times the interval a batch may take"),
        },
    ),
    Rule(
        "data-loss",
        "A topic will soon delete records that a query has not read, or has deleted some. This "
        "rule also works while the pipeline is down.",
        _Q, "error", lag.data_loss, for_s=_MINUTE, needs_run=False, keep_firing_for_s=QUIET_S,
        limits={
            "within": _limit(
                LimitKind.DURATION, _DAY,
                "time left; of a topic with a short retention, at most a quarter of it",
            ),
        },
    ),
    Rule(
        "no-data",
        "A query has read no rows for a while. Without the limit `after`, this rule does nothing.",
        _Q, "warning", progress.no_data,
        limits={"after": _limit(LimitKind.DURATION, None, "time without rows")},
    ),
)  # fmt: skip
DATA = (
    _finding("late-rows", "warning", "Rows are dropped because they arrive after the watermark."),
    _finding(
        "many-quarantined", "error",
        "Many or all records of a view go into quarantine: their format has changed.",
    ),
    _finding(
        "field-null", "error",
        "A field that was parsed is now null: a producer has renamed or removed it.",
    ),
    _finding("event-time-in-future", "warning", "Event times are far ahead of the clock."),
    _finding(
        "watermark-in-future", "error",
        "The watermark is far ahead of the clock, so current rows are dropped as late.",
    ),
    _finding("state-grows", "warning", "State only grows, and no row is ever removed."),
    _finding("input-vanished", "error", "Input files vanished before they were read.", for_s=0.0),
    _finding("input-rewritten", "warning", "Input files changed after Spark listed them."),
    _finding("lookup-empty", "error", "A lookup table is empty."),
    _finding("lookup-unmatched", "error", "A join no longer finds rows in its lookup table."),
)  # fmt: skip
RESOURCES = (
    Rule(
        "disk-filling",
        "A disk with Headrace's files, checkpoints, results or quarantine has little space left, "
        "or will be full soon. The alert shows the size of Headrace's own files.",
        _ALL, "warning", resources.disk_filling, needs_run=False, keep_firing_for_s=QUIET_S,
        limits={
            "free_share": _limit(LimitKind.SHARE, 0.05, "free space, as a share of the disk; and"),
            "free_bytes": _limit(LimitKind.BYTES, 10e9, "free space"),
            "within": _limit(LimitKind.DURATION, _DAY, "time left at the rate of the last hour"),
        },
    ),
    Rule(
        "driver-memory",
        "A driver is near its memory limit: its Java heap after garbage collection, or the memory "
        "of its processes.",
        _P, "warning", resources.driver_memory, for_s=2 * _MINUTE, keep_firing_for_s=QUIET_S,
        limits={"share": _limit(LimitKind.SHARE, 0.9, "share of the limit")},
    ),
)  # fmt: skip
RULES: Mapping[str, Rule] = {rule.name: rule for rule in (*RUNS, *PROGRESS, *DATA, *RESOURCES)}
# Opened elsewhere; a channel can choose them, and settings cannot change them.
FIXED: Mapping[str, tuple[str, str]] = {
    "alert-rows": ("error", "Rows in an alert topic have been unread for a minute."),
    "alert-rows-lost": ("error", "An alert topic deleted rows before Headrace had read them."),
    "store": ("warning", "Headrace cannot write its history."),
    RULE_OF_ROWS: ("as in `hr.alert`", "A query wrote a row to `hr.alert`."),
}


def names() -> Iterator[str]:
    """Of all rules that Headrace itself has."""
    yield from RULES
    yield from FIXED
