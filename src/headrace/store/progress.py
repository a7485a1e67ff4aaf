"""The progress of each batch, and its roll-ups by minute and by hour.

Written by the supervisor as it reads events files, read by the page.
Invariant: storing the same batch again changes nothing, and a roll-up is the sum of all rows ever
stored, including pruned ones (`store/retention.py`).
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from headrace.model.progress import Progress
from headrace.store import db, json_text, rollups, totals
from headrace.store.rollups import MetricBucket

POINTS_MAX = 10_000
MINUTE_S, HOUR_S = 60, 3600
_RATES = ("input_rate", "processing_rate", "batch_ms")
_COUNTS = ("batch", "rows_in", "rows_out", "state_rows", "state_bytes")


@dataclass(frozen=True, slots=True)
class StoredProgress:
    id: int
    pipeline: str
    run: str
    query: str
    batch: int
    at: float
    rows_in: int
    rows_out: int | None
    input_rate: float | None
    processing_rate: float | None
    batch_ms: float | None
    phases: Mapping[str, float]
    state_rows: int | None
    state_bytes: int | None
    watermark: float | None  # seconds since the epoch
    dropped_by_watermark: int  # late rows
    raw: Mapping[str, Any]  # Spark's own object, without its largest members if it is too long
    fresh_basis: str | None  # arrival | event | trigger
    fresh_n: int
    fresh_p50_ms: float | None
    fresh_p99_ms: float | None
    fresh_newest_ms: float | None


def add(
    conn: db.Store,
    pipeline: str,
    run: str,
    query: str,
    at: float,
    progress: Progress,
    fresh: Any = None,
    counts: Any = None,
) -> bool:
    """True if this batch of this run was new. False: known, pruned before, or without a number.

    `fresh` and `counts` as the `progressed` event has them.
    """
    if progress.batch is None:
        return False
    ages = rollups.parse_fresh(fresh)
    with db.transaction(conn):
        gone = conn.execute(
            "SELECT batch FROM progress_pruned WHERE pipeline = ? AND run = ? AND query = ?",
            (pipeline, run, query),
        ).fetchone()
        if gone is not None and progress.batch <= gone["batch"]:
            return False
        row = {
            "pipeline": pipeline,
            "run": run,
            "query": query,
            "at": at,
            **{name: getattr(progress, name) for name in (*_COUNTS, *_RATES)},
            "phases": json_text.dump_bounded(progress.phases),
            "watermark": rollups.watermark_of(progress),
            "dropped_by_watermark": progress.rows_late,
            "raw": json_text.dump_bounded(progress.raw),
            **{f"fresh_{name}": value for name, value in asdict(ages).items()},
        }
        done = conn.execute(
            f"INSERT OR IGNORE INTO progress ({', '.join(row)})"  # noqa: S608
            f" VALUES ({', '.join('?' * len(row))})",
            tuple(row.values()),
        )
        if done.rowcount == 0:
            return False
        for table, width_s in (("progress_minute", MINUTE_S), ("progress_hour", HOUR_S)):
            _roll_up(conn, table, pipeline, query, rollups.bucket_of(progress, ages, at, width_s))
        totals.add_batch(conn, pipeline, query, at, progress, counts)
        return True


def newest(conn: db.Store, pipeline: str, query: str, limit: int = 100) -> list[StoredProgress]:
    """The latest of one query, oldest first. Fast, however many rows other queries have."""
    found = db.rows(
        conn,
        "SELECT * FROM progress INDEXED BY progress_by_query WHERE pipeline = ? AND query = ?"
        " ORDER BY at DESC LIMIT ?",
        (pipeline, query, max(0, min(limit, POINTS_MAX))),
    )
    return [_progress(row) for row in reversed(found)]


def queries(conn: db.Store, pipeline: str, since: float) -> list[str]:
    """Names of the queries with a batch since then, including queries of earlier versions."""
    # One index step for each name: a pipeline has few queries and millions of minutes.
    found = db.rows(
        conn,
        """WITH RECURSIVE names(query) AS (
             SELECT min(query) FROM progress_minute WHERE pipeline = ?1
             UNION ALL
             SELECT (SELECT min(query) FROM progress_minute
                     WHERE pipeline = ?1 AND query > names.query)
             FROM names WHERE names.query IS NOT NULL)
           SELECT query FROM names WHERE query IS NOT NULL AND EXISTS (
             SELECT 1 FROM progress_minute AS m
             WHERE m.pipeline = ?1 AND m.query = names.query AND m.start >= ?2)""",
        (pipeline, since - MINUTE_S),
    )
    return [row["query"] for row in found]


def read_buckets(
    conn: db.Store, pipeline: str, query: str, since: float, until: float, step_s: float
) -> list[MetricBucket]:
    """Buckets of `step_s` that begin in [since rounded down to a step, until), empty ones left out.

    From a minute on, a step is rounded up to whole minutes, from an hour on to whole hours: then
    the roll-ups are read, which are kept longer than raw rows.
    """
    table, unit_s = _source(step_s)
    step_s = math.ceil(step_s / unit_s) * unit_s if table else max(step_s, 0.001)
    # If there are too many points, the latest ones matter.
    since = max(math.floor(since / step_s) * step_s, until - POINTS_MAX * step_s)
    if table:
        found = db.rows(
            conn,
            f"SELECT {_ROLLED} FROM {table} WHERE pipeline = ? AND query = ?"  # noqa: S608
            " AND start >= ? AND start < ? ORDER BY start",
            (pipeline, query, since, until),
        )
    else:
        found = db.rows(
            conn,
            f"SELECT {_SINGLE} FROM progress WHERE pipeline = ? AND query = ?"  # noqa: S608
            " AND at >= ? AND at < ? ORDER BY at",
            (step_s, step_s, pipeline, query, since, until),
        )
    return rollups.merge_buckets((MetricBucket(*row) for row in found), step_s if table else None)


class MinuteRate(NamedTuple):
    """The rates of one query in one minute; of the current minute, in its elapsed part."""

    pipeline: str
    query: str
    start: float
    input_rate: float
    processing_rate: float | None
    is_complete: bool


def minute_rates(conn: db.Store, since: float, now: float) -> list[MinuteRate]:
    """In order of time. A minute that began less than 15 s ago is left out."""
    found = db.rows(
        conn,
        "SELECT pipeline, query, start, rows_in,"
        " iif(batch_ms > 0, rows_in * 1000.0 / batch_ms, NULL) AS processing_rate"
        " FROM progress_minute WHERE start >= ? AND start <= ? ORDER BY start, pipeline, query",
        (since, now - MINUTE_S / 4),
    )
    return [
        MinuteRate(
            row["pipeline"],
            row["query"],
            row["start"],
            row["rows_in"] / min(float(MINUTE_S), now - row["start"]),
            row["processing_rate"],
            is_complete=row["start"] + MINUTE_S <= now,
        )
        for row in found
    ]


def _source(step_s: float) -> tuple[str | None, int]:
    if step_s >= HOUR_S:
        return "progress_hour", HOUR_S
    if step_s >= MINUTE_S:
        return "progress_minute", MINUTE_S
    return None, 1


def _roll_up(conn: db.Store, table: str, pipeline: str, query: str, bucket: MetricBucket) -> None:
    conn.execute(
        f"""INSERT INTO {table} (pipeline, query, {_ROLLED})
            VALUES ({", ".join("?" * (2 + len(_FIELDS)))})
            ON CONFLICT (pipeline, query, start) DO UPDATE SET
              rows_in_min = min(rows_in_min, excluded.rows_in_min),
              {_SUMS},
              {_MAXIMA},
              watermark = CASE WHEN {_LATER} THEN excluded.watermark ELSE watermark END,
              watermark_at = CASE WHEN {_LATER} THEN excluded.watermark_at ELSE watermark_at END""",  # noqa: S608
        (pipeline, query, *(getattr(bucket, name) for name in _FIELDS)),
    )


_SUMS = ", ".join(
    f"{column} = coalesce({column} + excluded.{column}, {column}, excluded.{column})"
    for column in rollups.SUMS
)
_MAXIMA = ", ".join(
    f"{column} = coalesce(max({column}, excluded.{column}), {column}, excluded.{column})"
    for column in rollups.MAXIMA
)
# The same order as `metrics.merge_buckets`: by time, then by the watermark itself.
_LATER = (
    "excluded.watermark_at IS NOT NULL AND (watermark_at IS NULL"
    " OR (excluded.watermark_at, excluded.watermark) > (watermark_at, watermark))"
)


def _progress(row: sqlite3.Row) -> StoredProgress:
    phases, raw = json_text.load(row["phases"]), json_text.load(row["raw"])
    return StoredProgress(**{**dict(row), "phases": phases, "raw": raw})


# Both in the order of MetricBucket's fields: a chart of a day consists of 1,440 rows.
_FIELDS = tuple(field.name for field in fields(MetricBucket))
_ROLLED = ", ".join(_FIELDS)
_SINGLE = ", ".join(
    (
        "CAST(at / ? AS INTEGER) * ?",
        "1, rows_in, rows_in, rows_in, rows_out",
        "batch_ms, batch_ms",
        "dropped_by_watermark",
        "state_rows, state_bytes",
        "watermark, iif(watermark IS NULL, NULL, at)",
        "fresh_n, fresh_p50_ms * fresh_n, fresh_p99_ms",
        *(f"json_extract(phases, '$.{name}')" for name in rollups.PHASES.values()),
    )
)
