"""Totals of each query and pipeline over their whole life, for exported counters.

Written in the same transaction as the batch or run that they count, so a batch that is read again
counts once, and a restart of any process changes nothing.
Invariant: a total only grows; it starts again at 0 only if history.db is replaced, or after
`totals_days` without a batch (`store/retention.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.numbers import real
from headrace.model.progress import Progress
from headrace.model.runs import BAD_ENDINGS, Ending, Exit, RunSpec
from headrace.store import db
from headrace.store.rollups import watermark_of

RESTARTS, FAILURES = "restarts", "failures"
# Limits of the histogram of batch durations.
DURATIONS_MS: Sequence[float] = (
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, math.inf,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueryTotals:
    """The fields after `quarantined` are those of the newest batch. None: unknown."""

    pipeline: str
    query: str
    at: float
    batches: int
    rows_in: int
    rows_out: int | None
    late: int
    quarantined: int | None
    state_rows: int | None
    state_bytes: int | None
    watermark: float | None
    last_ms: float | None


@dataclass(frozen=True, slots=True)
class DurationCount:
    """`batches` took more than the next smaller limit and at most `le_ms`."""

    le_ms: float
    batches: int
    ms: float


def add_batch(
    conn: db.Store, pipeline: str, query: str, at: float, progress: Progress, counts: Any
) -> None:
    """Call inside the transaction that stores the batch, and only if the batch is new."""
    bad = counts.get("quarantine.bad") if isinstance(counts, Mapping) else None
    known = real(bad)
    conn.execute(
        """INSERT INTO query_totals (pipeline, query, at, batches, rows_in, rows_out, late,
             quarantined, state_rows, state_bytes, watermark, last_ms)
           VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
           ON CONFLICT (pipeline, query) DO UPDATE SET at = max(at, excluded.at),
             batches = batches + 1, rows_in = rows_in + excluded.rows_in,
             rows_out = coalesce(rows_out + excluded.rows_out, rows_out, excluded.rows_out),
             late = late + excluded.late,
             quarantined =
               coalesce(quarantined + excluded.quarantined, quarantined, excluded.quarantined),
             state_rows = excluded.state_rows, state_bytes = excluded.state_bytes,
             watermark = coalesce(excluded.watermark, watermark),
             last_ms = coalesce(excluded.last_ms, last_ms)""",
        (
            pipeline, query, at, progress.rows_in, progress.rows_out, progress.rows_late,
            None if known is None else max(0, round(known)),
            progress.state_rows, progress.state_bytes, watermark_of(progress), progress.batch_ms,
        ),
    )  # fmt: skip
    if progress.batch_ms is not None:
        le_ms = next(limit for limit in DURATIONS_MS if progress.batch_ms <= limit)
        conn.execute(
            """INSERT INTO batch_durations (pipeline, query, le_ms, at, batches, ms)
               VALUES (?, ?, ?, ?, 1, ?)
               ON CONFLICT (pipeline, query, le_ms) DO UPDATE SET
                 at = max(at, excluded.at), batches = batches + 1, ms = ms + excluded.ms""",
            (pipeline, query, le_ms, at, max(0.0, progress.batch_ms)),
        )


def add_start(conn: db.Store, spec: RunSpec) -> None:
    """Counts a restart. Call inside the transaction that stores the run's start."""
    if spec.restarts > 0:
        _add(conn, spec.pipeline, RESTARTS, "", spec.at)


def add_end(conn: db.Store, pipeline: str, exit: Exit, at: float) -> None:
    """Counts a failure by its kind, or by its ending if it has no kind."""
    if exit.ending in BAD_ENDINGS and exit.ending != Ending.CUT:
        _add(conn, pipeline, FAILURES, str(exit.kind or exit.ending), at)


def read_queries(conn: db.Store) -> list[QueryTotals]:
    found = db.rows(
        conn,
        "SELECT pipeline, query, at, batches, rows_in, rows_out, late, quarantined, state_rows,"
        " state_bytes, watermark, last_ms FROM query_totals ORDER BY pipeline, query",
    )
    return [QueryTotals(*row) for row in found]


def read_durations(conn: db.Store) -> dict[tuple[str, str], list[DurationCount]]:
    """By pipeline and query, the shortest first."""
    found: dict[tuple[str, str], list[DurationCount]] = {}
    sql = "SELECT pipeline, query, le_ms, batches, ms FROM batch_durations ORDER BY le_ms"
    for row in db.rows(conn, sql):
        one = DurationCount(row["le_ms"], row["batches"], row["ms"])
        found.setdefault((row["pipeline"], row["query"]), []).append(one)
    return found


def read_pipelines(conn: db.Store) -> dict[tuple[str, str], dict[str, int]]:
    """(pipeline, RESTARTS or FAILURES) -> total by label."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in db.rows(conn, "SELECT pipeline, name, label, total FROM pipeline_totals"):
        found.setdefault((row["pipeline"], row["name"]), {})[row["label"]] = row["total"]
    return found


def _add(conn: db.Store, pipeline: str, name: str, label: str, at: float) -> None:
    conn.execute(
        """INSERT INTO pipeline_totals (pipeline, name, label, at, total) VALUES (?, ?, ?, ?, 1)
           ON CONFLICT (pipeline, name, label) DO UPDATE SET
             at = max(at, excluded.at), total = total + 1""",
        (pipeline, name, label, at),
    )
