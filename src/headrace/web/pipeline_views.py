"""What the page shows about pipelines: overview, one pipeline, its history, quarantine.

Functions from a `Visit` to JSON; `routes.py` has their paths. Invariant: reads only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median_high
from typing import Any

from starlette.responses import Response

from headrace import config
from headrace.checkpoints import checkpoint_content
from headrace.errors import ConfigError
from headrace.health import slowness, summary
from headrace.model.progress import from_spark
from headrace.model.status import PipelineStatus
from headrace.project import alerts as project_alerts
from headrace.project import history as project_history
from headrace.project import why
from headrace.project.workspace import resolve_pipeline
from headrace.state import definitions, desired, lag
from headrace.store import alerts as stored_alerts
from headrace.store import audit as book
from headrace.store import db, progress, silences
from headrace.store import events as recorded
from headrace.store import runs as stored_runs
from headrace.store.progress import StoredProgress
from headrace.store.rollups import PHASES, MetricBucket
from headrace.web import json_responses
from headrace.web.graph import graph
from headrace.web.visit import Visit

RANGES = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
POINTS = 240  # of one line of a chart
GAP_STEPS = 4  # an outage: no batch for this many steps, or usual gaps between batches
_NOTHING = MetricBucket(0.0, 0, 0, 0, 0, None, None, None, 0, None, None, None, None)
JUDGED = 60  # newest batches for a verdict
OUTPUT_S = 60.0  # the output rate of a query is the mean over this time
MARKS_MAX = 500
MARKED = (
    "run_started", "run_ended", "deploy_requested", "rollback_requested", "restart_requested",
    "start_requested", "stop_requested", "alert_opened", "alert_worsened", "alert_resolved",
    "killed", "gave_up",
)  # fmt: skip
SIZE_FILES_MAX = 20_000
QUARANTINE_S = 15.0


async def overview(visit: Visit) -> Response:
    return json_responses.respond(await visit.feed.content())


def pipeline(visit: Visit) -> dict[str, Any]:
    work = visit.site.workspace()
    name = resolve_pipeline(work, visit.path["pipeline"])
    answer = why.explain_pipeline(work, name)
    item = desired.read(work.places, name)
    definition = definitions.read(work.places, item.version, item.profile, name) if item else None
    batches = _newest_batches(visit, answer.status)
    return {
        "at": visit.now,
        **answer.to_json(),
        "deployed": item.to_json() if item else None,
        "graph": graph(definition, answer.status, work.settings, _output_rates(batches, visit.now))
        if definition
        else None,
        "verdicts": _verdicts(answer.status, batches),
        "lag": [
            one.as_of(visit.now).to_json()
            for (of, _), one in lag.read(work.places).items()
            if of == name
        ],
        "versions": project_history.versions(work, name),
        "runs": _list(work.places.history, stored_runs.list_runs, limit=10, pipeline=name),
        "alerts": _alerts(visit, name),
        "warnings": [dict(one) for one in definition.warnings] if definition else [],
    }


def _list(store: Path, ask: Callable[..., Sequence[Any]], **options: Any) -> list[dict[str, Any]]:
    found = db.read(store, partial(ask, **options), is_optional=True) or ()
    return [item.to_json() for item in found]


def _alerts(visit: Visit, pipeline: str) -> list[dict[str, Any]]:
    def read_open(conn: db.Store) -> list[dict[str, Any]]:
        active = silences.list_silences(conn, visit.now)
        found = stored_alerts.list_alerts(conn, limit=50, pipeline=pipeline)
        return [project_alerts.to_json(one, active, visit.now) for one in found]

    return db.read(visit.site.places.alerts, read_open, is_optional=True) or []


def _newest_batches(visit: Visit, status: PipelineStatus) -> dict[str, list[StoredProgress]]:
    def read_newest(conn: db.Store) -> dict[str, list[StoredProgress]]:
        return {
            query.name: progress.newest(conn, status.name, query.name, JUDGED)
            for query in status.queries
        }

    return db.read(visit.site.places.history, read_newest, is_optional=True) or {}


def _output_rates(batches: Mapping[str, Sequence[StoredProgress]], now: float) -> dict[str, float]:
    """Of queries whose sink counts its rows."""
    rates = {}
    for query, rows in batches.items():
        written = [row.rows_out for row in rows if row.at > now - OUTPUT_S]
        if written and None not in written:
            rates[query] = sum(rows or 0 for rows in written) / OUTPUT_S
    return rates


def _verdicts(
    status: PipelineStatus, batches: Mapping[str, Sequence[StoredProgress]]
) -> dict[str, dict[str, Any]]:
    """Where each query spends its time. `keeps_up` is false where that is a problem."""
    cores = os.cpu_count() or 1
    found = {}
    for query in status.queries:
        if query.name not in batches:
            continue
        timings = [(row.at, from_spark(row.raw)) for row in batches[query.name]]
        keeps_up = not (summary.is_behind(query) or query.broken_promise)
        found[query.name] = {**asdict(slowness.verdict(timings, cores)), "keeps_up": keeps_up}
    return found


def history(visit: Visit) -> dict[str, Any]:
    """Every query of a pipeline over one range of time, and the events in it."""
    name = resolve_pipeline(visit.site.workspace(), visit.path["pipeline"])
    length_s = _range(visit)
    until = visit.number("until", visit.now, 0, 1e11)
    since = until - length_s
    step_s = length_s / POINTS
    width_s = _step(step_s)
    lines: dict[str, dict[str, list[Any]]] = {}
    marks: list[dict[str, Any]] = []

    def read_range(conn: db.Store) -> None:
        for query in progress.queries(conn, name, since):
            buckets = progress.read_buckets(conn, name, query, since, until, step_s)
            lines[query] = _lines(buckets, width_s, visit.now)
        for event in recorded.between(conn, name, since, until, MARKED, MARKS_MAX):
            about = {"at": event.at, "kind": event.kind, "text": event.text, "run": event.run}
            marks.append(about)

    db.read(visit.site.places.history, read_range)
    return {
        "since": since,
        "until": until,
        "step_s": width_s,
        "phases": list(PHASES.values()),
        "queries": lines,
        "marks": marks,
    }


def _range(visit: Visit) -> float:
    given = visit.query.get("range", "15m")
    if given not in RANGES:
        raise ConfigError(
            f"Invalid value for range: {given[:50]!r}.",
            why=f"Allowed: {', '.join(RANGES)}.",
            fix="?range=15m",
            slug="bad-value",
        )
    return float(RANGES[given])


def _step(step_s: float) -> float:
    """As `progress.read_buckets` rounds it."""
    for unit in (3600, 60):
        if step_s >= unit:
            return -(-step_s // unit) * unit
    return step_s


def _lines(buckets: Sequence[MetricBucket], width_s: float, now: float) -> dict[str, list[Any]]:
    """One list per measure, all of the same length. An outage becomes a point of nulls, so that no
    line is drawn across it."""
    points: list[dict[str, Any]] = []
    gaps_s = [after.start - before.start for before, after in pairwise(buckets)]
    longest_s = GAP_STEPS * max(width_s, median_high(gaps_s or [0.0]))
    for bucket, gap_s in zip(buckets, [width_s, *gaps_s], strict=False):
        if gap_s > longest_s:
            points.append({"at": bucket.start - gap_s + width_s})
        # The seconds in which its rows arrived: since the previous batch if batches are rarer than
        # steps, else the step, or its elapsed part if it is the current one.
        lasted_s = gap_s if gap_s > width_s else min(width_s, now - bucket.start)
        point = _point(bucket, max(lasted_s, 1.0))
        is_complete = bucket.start + width_s <= now
        points.append({"at": bucket.start, **point, "is_complete": is_complete})
    names = ("at", *_point(_NOTHING, 1.0), "is_complete")
    return {name: [point.get(name) for point in points] for name in names}


def _point(b: MetricBucket, lasted_s: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rows_in": b.rows_in,
        "rows_out": b.rows_out,
        "batches": b.batches,
        "input_rate": round(b.rows_in / lasted_s, 3),
        "processing_rate": round(b.rows_in / b.batch_ms * 1000, 3) if b.batch_ms else None,
        "batch_ms": _mean(b.batch_ms, b.batches),
        "batch_ms_max": b.batch_ms_max,
        "rows_per_batch": round(b.rows_in / b.batches, 2) if b.batches else None,
        "state_rows": b.state_rows_max,
        "state_bytes": b.state_bytes_max,
        "late_rows": b.dropped,
        "watermark": b.watermark,
        "watermark_behind_s": None
        if b.watermark is None or b.watermark_at is None
        else round(b.watermark_at - b.watermark, 3),
        "fresh_p50_ms": b.fresh_p50_ms,
        "fresh_p99_ms": b.fresh_p99_ms_max,
    }
    return found | {name: _mean(getattr(b, column), b.batches) for column, name in PHASES.items()}


def _mean(total: float | None, count: int) -> float | None:
    return None if total is None or not count else round(total / count, 3)


def quarantine(visit: Visit) -> Response:
    feed = visit.feed
    return feed.cache.answer(
        "quarantine", lambda: feed.workers.ask("quarantine", QUARANTINE_S, rows=20)
    )


def checkpoints(visit: Visit) -> Response:
    return visit.feed.cache.answer("checkpoints", lambda: _checkpoints(visit))


def _checkpoints(visit: Visit) -> dict[str, Any]:
    """The checkpoint of every deployed query, and what is wrong with it."""
    work = visit.site.workspace()
    found = []
    for definition in definitions.deployed(work.places):
        for query in definition.queries:
            path = query.checkpoint
            about = {"pipeline": definition.pipeline, "query": query.name, "path": path}
            place = path.removeprefix(f"{work.settings.project}/") if path else None
            found.append({**about, "place": place, **_checkpoint(path)})
    return {"checkpoints": found}


def _checkpoint(path: str | None) -> dict[str, Any]:
    if path is None:
        return {"note": "No checkpoint: the query starts from scratch in every run."}
    place = config.local_path(path)
    if place is None:
        return {"note": "Not on a local disk; the page reads only local checkpoints."}
    seen = checkpoint_content.read(place)
    size, files = _size(place)
    return {
        "exists": seen.exists,
        "query_id": seen.query_id,
        "batches": len(seen.commits),
        "first_batch": seen.commits[0] if seen.commits else None,
        "last_commit": seen.commits[-1] if seen.commits else None,
        "last_offsets": seen.last_offsets,
        "planned": seen.offsets[-1] if seen.offsets else None,
        "operators": len(seen.operators),
        "bytes": size,
        "files": files,
        "problems": [one._asdict() for one in seen.problems],
    }


def _size(place: Path) -> tuple[int, int]:
    """Bytes and files; counting stops after SIZE_FILES_MAX files."""
    total = count = 0
    for folder, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
            count += 1
        if count > SIZE_FILES_MAX:
            break
    return total, count


def audit(visit: Visit) -> dict[str, Any]:
    ask = partial(book.list_entries, pipeline=None, limit=500)
    return {"audit": [asdict(entry) for entry in db.read(visit.site.places.history, ask) or []]}
