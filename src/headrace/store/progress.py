"""Spark's progress, batch by batch, and its roll-ups by minute and by hour.

Written by the supervisor as it reads events files, read by the page and `progress`.
Invariant: reading the same events file again changes nothing, and a roll-up is always the sum of
all raw rows ever taken in, also of those that were pruned since. How raw rows become numbers is in
`store/measures.py`; how long they are kept, in `store/retention.py`.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headrace.store import db, measures, texts
from headrace.store.measures import Bucket

POINTS_MAX = 10_000
MINUTE_S, HOUR_S = 60, 3600


@dataclass(frozen=True, slots=True)
class Progress:
    id: int  # rises with every row taken in; `after` of the next look
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
    raw: Mapping[str, Any]  # Spark's own object, without its largest members if it was huge
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
    progress: Mapping[str, Any],
    fresh: Any = None,
) -> bool:
    """True if this batch of this run was new. False: known, pruned before, or without a batch.

    `progress` and `fresh` as the `progressed` event has them.
    """
    measure = measures.of(progress, fresh)
    if measure is None:
        return False
    with db.transaction(conn):
        gone = conn.execute(
            "SELECT batch FROM progress_pruned WHERE pipeline = ? AND run = ? AND query = ?",
            (pipeline, run, query),
        ).fetchone()
        if gone is not None and measure.batch <= gone["batch"]:
            return False
        done = conn.execute(
            """INSERT OR IGNORE INTO progress (pipeline, run, query, batch, at, rows_in, rows_out,
                 input_rate, processing_rate, batch_ms, phases, state_rows, state_bytes, watermark,
                 dropped_by_watermark, raw, fresh_basis, fresh_n, fresh_p50_ms, fresh_p99_ms,
                 fresh_newest_ms)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                pipeline,
                run,
                query,
                measure.batch,
                at,
                measure.rows_in,
                measure.rows_out,
                measure.input_rate,
                measure.processing_rate,
                measure.batch_ms,
                texts.dump_bounded(measure.phases),
                measure.state_rows,
                measure.state_bytes,
                measure.watermark,
                measure.dropped,
                texts.dump_bounded(progress),
                measure.fresh.basis,
                measure.fresh.n,
                measure.fresh.p50_ms,
                measure.fresh.p99_ms,
                measure.fresh.newest_ms,
            ),
        )
        if done.rowcount == 0:
            return False
        for table, width_s in (("progress_minute", MINUTE_S), ("progress_hour", HOUR_S)):
            _roll_up(conn, table, pipeline, query, measures.bucket_of(measure, at, width_s))
        return True


def recent(
    conn: db.Store, pipeline: str, query: str | None = None, limit: int = 100, after: int = 0
) -> list[Progress]:
    """The latest rows with an id above `after`, in the order in which they came."""
    found = db.rows(
        conn,
        "SELECT * FROM progress WHERE pipeline = ?1 AND (?2 IS NULL OR query = ?2) AND id > ?4"
        " ORDER BY id DESC LIMIT ?3",
        (pipeline, query, max(0, min(limit, POINTS_MAX)), after),
    )
    return [_progress(row) for row in reversed(found)]


def newest(conn: db.Store, pipeline: str, query: str, limit: int) -> list[Progress]:
    """The latest of one query by time, in order: by the index, however many others there are."""
    found = db.rows(
        conn,
        "SELECT * FROM progress INDEXED BY progress_by_query WHERE pipeline = ? AND query = ?"
        " ORDER BY at DESC LIMIT ?",
        (pipeline, query, max(0, min(limit, POINTS_MAX))),
    )
    return [_progress(row) for row in reversed(found)]


def queries(conn: db.Store, pipeline: str, since: float) -> list[str]:
    """Names of the queries that told of a batch since then, also of earlier versions."""
    # One step of the index for each name: a pipeline has few queries and millions of minutes.
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


def rolled(
    conn: db.Store, pipeline: str, query: str, since: float, until: float, step_s: float
) -> list[Bucket]:
    """Buckets of `step_s` that begin in [since rounded down to a step, until), empty ones left out.

    From a minute on, a step is rounded up to whole minutes, from an hour on to whole hours: then
    the roll-ups are read, which are kept longer than raw rows.
    """
    table, unit_s = _source(step_s)
    step_s = math.ceil(step_s / unit_s) * unit_s if table else max(step_s, 0.001)
    # Counted from the end: the latest points are the ones that matter if there are too many.
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
    return measures.merged((Bucket(*row) for row in found), step_s if table else None)


def rates(
    conn: db.Store, since: float, now: float
) -> dict[str, list[tuple[float, float, float | None]]]:
    """By pipeline and minute: its beginning, rows a second that came in, and that it could do: each
    of its queries for itself, added up. A minute that has hardly begun says nothing yet."""
    found = db.rows(
        conn,
        "SELECT pipeline, start, sum(rows_in) AS rows_in,"
        " sum(iif(batch_ms > 0, rows_in * 1000.0 / batch_ms, NULL)) AS could"
        " FROM progress_minute WHERE start >= ? AND start <= ?"
        " GROUP BY pipeline, start ORDER BY start",
        (since, now - MINUTE_S / 4),
    )
    rates: dict[str, list[tuple[float, float, float | None]]] = {}
    for row in found:
        lasted_s = min(float(MINUTE_S), now - row["start"])
        rates.setdefault(row["pipeline"], []).append(
            (row["start"], row["rows_in"] / lasted_s, row["could"])
        )
    return rates


def _source(step_s: float) -> tuple[str | None, int]:
    if step_s >= HOUR_S:
        return "progress_hour", HOUR_S
    if step_s >= MINUTE_S:
        return "progress_minute", MINUTE_S
    return None, 1


def _roll_up(conn: db.Store, table: str, pipeline: str, query: str, bucket: Bucket) -> None:
    conn.execute(
        f"""INSERT INTO {table} (pipeline, query, start, batches, rows_in, rows_in_min, rows_in_max,
              rows_out, batch_ms, batch_ms_max, dropped, state_rows_max, state_bytes_max,
              watermark, watermark_at, fresh_n, fresh_p50_ms_by_n, fresh_p99_ms_max,
              {", ".join(measures.PHASES)})
            VALUES ({", ".join("?" * (18 + len(measures.PHASES)))})
            ON CONFLICT (pipeline, query, start) DO UPDATE SET
              batches = batches + excluded.batches,
              rows_in = rows_in + excluded.rows_in,
              rows_in_min = min(rows_in_min, excluded.rows_in_min),
              rows_in_max = max(rows_in_max, excluded.rows_in_max),
              rows_out = coalesce(rows_out + excluded.rows_out, rows_out, excluded.rows_out),
              batch_ms = coalesce(batch_ms + excluded.batch_ms, batch_ms, excluded.batch_ms),
              batch_ms_max = max(coalesce(batch_ms_max, excluded.batch_ms_max),
                                 coalesce(excluded.batch_ms_max, batch_ms_max)),
              dropped = dropped + excluded.dropped,
              state_rows_max = max(coalesce(state_rows_max, excluded.state_rows_max),
                                   coalesce(excluded.state_rows_max, state_rows_max)),
              state_bytes_max = max(coalesce(state_bytes_max, excluded.state_bytes_max),
                                    coalesce(excluded.state_bytes_max, state_bytes_max)),
              fresh_n = fresh_n + excluded.fresh_n,
              fresh_p50_ms_by_n = coalesce(fresh_p50_ms_by_n + excluded.fresh_p50_ms_by_n,
                                           fresh_p50_ms_by_n, excluded.fresh_p50_ms_by_n),
              fresh_p99_ms_max = max(coalesce(fresh_p99_ms_max, excluded.fresh_p99_ms_max),
                                     coalesce(excluded.fresh_p99_ms_max, fresh_p99_ms_max)),
              {_PHASES},
              watermark = CASE WHEN {_LATER} THEN excluded.watermark ELSE watermark END,
              watermark_at = CASE WHEN {_LATER} THEN excluded.watermark_at ELSE watermark_at END""",  # noqa: S608
        (
            pipeline,
            query,
            bucket.start,
            bucket.batches,
            bucket.rows_in,
            bucket.rows_in_min,
            bucket.rows_in_max,
            bucket.rows_out,
            bucket.batch_ms,
            bucket.batch_ms_max,
            bucket.dropped,
            bucket.state_rows_max,
            bucket.state_bytes_max,
            bucket.watermark,
            bucket.watermark_at,
            bucket.fresh_n,
            bucket.fresh_p50_ms_by_n,
            bucket.fresh_p99_ms_max,
            *(getattr(bucket, column) for column in measures.PHASES),
        ),
    )


_PHASES = ", ".join(
    f"{column} = coalesce({column} + excluded.{column}, {column}, excluded.{column})"
    for column in measures.PHASES
)
# The same order as measures.merged: by time, then by the watermark itself.
_LATER = (
    "excluded.watermark_at IS NOT NULL AND (watermark_at IS NULL"
    " OR (excluded.watermark_at, excluded.watermark) > (watermark_at, watermark))"
)


def _progress(row: sqlite3.Row) -> Progress:
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118  (a Row iterates over values)
    phases, raw = texts.load(values.pop("phases")), texts.load(values.pop("raw"))
    return Progress(**values, phases=phases, raw=raw)


# Both in the order of Bucket's fields: a chart of a day is made of fifteen hundred rows.
_ROLLED = ", ".join(field.name for field in fields(Bucket))
_SINGLE = ", ".join(
    (
        "CAST(at / ? AS INTEGER) * ?",
        "1, rows_in, rows_in, rows_in, rows_out",
        "batch_ms, batch_ms",
        "dropped_by_watermark",
        "state_rows, state_bytes",
        "watermark, iif(watermark IS NULL, NULL, at)",
        "fresh_n, fresh_p50_ms * fresh_n, fresh_p99_ms",
        *(f"json_extract(phases, '$.{name}')" for name in measures.PHASES.values()),
    )
)
