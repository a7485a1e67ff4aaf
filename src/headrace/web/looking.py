"""What the page shows of pipelines: overview, one pipeline, its history, quarantine, alerts.

Functions from a `Visit` to JSON; see `doors.py` for their addresses. Invariant: reads only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from starlette.responses import Response

from headrace.checkpoints import layout
from headrace.errors import ConfigError, Error
from headrace.model import slow
from headrace.model.pipeline import Definition
from headrace.model.status import PipelineStatus
from headrace.project import alerting, definitions, records, why
from headrace.project.workspace import Workspace, known_pipeline
from headrace.state import desired, lags
from headrace.store import alerts as stored_alerts
from headrace.store import audit as book
from headrace.store import db, progress
from headrace.store import events as recorded
from headrace.store import runs as stored_runs
from headrace.store.measures import PHASES, Bucket
from headrace.web.site import Visit

RANGES = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
POINTS = 240  # of one line of a chart
GAP_STEPS = 4  # so many steps, or usual distances of batches, without one are an outage
_NOTHING = Bucket(0.0, 0, 0, 0, 0, None, None, None, 0, None, None, None, None)
JUDGED = 60  # newest batches that a verdict rests on
MARKS_MAX = 500
MARKED = (
    "run_started", "run_ended", "deploy_requested", "rollback_requested", "restart_requested",
    "start_requested", "stop_requested", "alert_opened", "alert_resolved", "killed", "gave_up",
)  # fmt: skip
SIZE_FILES_MAX = 20_000
QUARANTINE_S = 15.0


async def overview(visit: Visit) -> Response:
    watch = visit.site.watch
    assert watch is not None  # noqa: S101 - the app has one
    return Response(await watch.content(), media_type="application/json")


def pipeline(visit: Visit) -> dict[str, Any]:
    work = visit.site.work()
    name = known_pipeline(work, visit.path["pipeline"])
    answer = why.of_pipeline(work, name)
    item = desired.read(work.places, name)
    definition = definitions.stored(work, item.version, item.profile, name) if item else None
    return {
        "at": visit.now,
        **answer.to_json(),
        "deployed": item.to_json() if item else None,
        "graph": graph(definition, answer.status) if definition else None,
        "verdicts": _verdicts(visit, work, answer.status),
        "lag": [
            one.as_of(visit.now).to_json()
            for (of, _), one in lags.read(work.places).items()
            if of == name
        ],
        "versions": records.versions(work, name),
        "runs": _runs(visit, name),
        "alerts": _alerts(visit, name),
        "warnings": [dict(one) for one in definition.warnings] if definition else [],
    }


def graph(definition: Definition, status: PipelineStatus) -> dict[str, Any]:
    """Sources, tables, views, queries and sinks, and what flows into what."""
    queries = {query.name: query for query in status.queries}
    nodes: list[dict[str, Any]] = []
    edges: list[tuple[str, str]] = []
    for node in definition.nodes:
        kind = (node.connector or {}).get("kind") if node.connector else None
        nodes.append({"id": node.name, "kind": node.kind, "place": node.place, "connector": kind})
        edges += [(before, node.name) for before in node.inputs]
    known = {node["id"] for node in nodes}
    for query in definition.queries:
        seen = queries.get(query.name)
        shown = {
            "id": query.name,
            "kind": "query",
            "place": query.place,
            "guarantee": query.guarantee,
            "guarantee_why": query.guarantee_why,
            "trigger": dict(query.trigger),
            "mode": query.mode,
            "state": seen.state if seen else None,
            "input_rate": seen.input_rate if seen else None,
            "processing_rate": seen.processing_rate if seen else None,
        }
        if query.name in known:
            nodes = [{**n, **shown} if n["id"] == query.name else n for n in nodes]
        else:
            nodes.append(shown)
            edges += [(before, query.name) for before in query.inputs]
        sink = f"{query.name} →"
        nodes.append({"id": sink, "kind": "sink", "connector": query.sink.get("kind")})
        edges.append((query.name, sink))
    return {"nodes": nodes, "edges": sorted(set(edges))}


def _verdicts(visit: Visit, work: Workspace, status: PipelineStatus) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    found: dict[str, Any] = {}
    with contextlib.suppress(Error), contextlib.closing(_history(visit)) as conn:
        for query in status.queries:
            rows = progress.newest(conn, status.name, query.name, JUDGED)
            batches = [
                slow.Batch(r.at, r.rows_in, r.batch_ms or 0.0, r.phases, r.raw) for r in rows
            ]
            found[query.name] = asdict(slow.verdict(batches, cores))
    return found


def history(visit: Visit) -> dict[str, Any]:
    """Every query of a pipeline over one stretch of time, on one axis, with what happened on it."""
    name = known_pipeline(visit.site.work(), visit.path["pipeline"])
    length_s = _range(visit)
    until = visit.number("until", visit.now, 0, 1e11)
    since = until - length_s
    with contextlib.closing(_history(visit)) as conn:
        queries = progress.queries(conn, name, since)
        step_s = length_s / POINTS
        width_s = _step(step_s)
        lines = {
            q: _lines(progress.rolled(conn, name, q, since, until, step_s), width_s, visit.now)
            for q in queries
        }
        marks = [
            {"at": one.at, "kind": one.kind, "text": one.text, "run": one.run}
            for one in recorded.between(conn, name, since, until, MARKED, MARKS_MAX)
        ]
    return {"since": since, "until": until, "step_s": width_s, "queries": lines, "marks": marks}


def _range(visit: Visit) -> float:
    given = visit.query.get("range", "15m")
    if given not in RANGES:
        raise ConfigError(
            f"There is no range {given[:50]!r}.",
            why=f"There is: {', '.join(RANGES)}.",
            fix="?range=15m",
            slug="bad-value",
        )
    return float(RANGES[given])


def _step(step_s: float) -> float:
    """As `progress.rolled` rounds it."""
    for unit in (3600, 60):
        if step_s >= unit:
            return -(-step_s // unit) * unit
    return step_s


def _lines(buckets: Sequence[Bucket], width_s: float, now: float) -> dict[str, list[Any]]:
    """One list a measure, all of the same length: what a chart wants. Where nothing happened for
    long there is a point of nulls, so that no line is drawn over an outage."""
    points: list[tuple[float, dict[str, Any]]] = []
    longest_s = GAP_STEPS * max(width_s, _usual_gap(buckets))
    before: Bucket | None = None
    for one in buckets:
        gap_s = one.start - before.start if before else width_s
        if before is not None and gap_s > longest_s:
            points.append((before.start + width_s, {}))
        points.append((one.start, _point(one, _lasted(one, gap_s, width_s, now))))
        before = one
    found: dict[str, list[Any]] = {"at": [at for at, _ in points]}
    for name in _point(_NOTHING, 1.0):
        found[name] = [point.get(name) for _, point in points]
    return found


def _usual_gap(buckets: Sequence[Bucket]) -> float:
    gaps = sorted(b.start - a.start for a, b in pairwise(buckets))
    return gaps[len(gaps) // 2] if gaps else 0.0


def _lasted(one: Bucket, gap_s: float, width_s: float, now: float) -> float:
    """Over how many seconds its rows came: since the batch before, where batches are rarer than
    steps; the newest step is not over yet."""
    return max(gap_s, 1.0) if gap_s > width_s else max(min(width_s, now - one.start), 1.0)


def _point(b: Bucket, lasted_s: float) -> dict[str, Any]:
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
    watch = visit.site.watch
    assert watch is not None  # noqa: S101 - the app has one
    return watch.shelf.answer(
        "quarantine", lambda: watch.workers.ask("quarantine", QUARANTINE_S, rows=20)
    )


def checkpoints(visit: Visit) -> Response:
    assert visit.site.watch is not None  # noqa: S101 - the app has one
    return visit.site.watch.shelf.answer("checkpoints", lambda: _checkpoints(visit))


def _checkpoints(visit: Visit) -> dict[str, Any]:
    """Of every deployed query: what its checkpoint holds, and what is wrong with it."""
    work = visit.site.work()
    found = []
    for item in desired.listed(work.places):
        definition = definitions.stored(work, item.version, item.profile, item.pipeline)
        for query in definition.queries if definition else ():
            path = query.checkpoint
            about = {"pipeline": item.pipeline, "query": query.name, "path": path}
            place = path.removeprefix(f"{visit.site.folder}/") if path else None
            found.append({**about, "place": place, **_checkpoint(path)})
    return {"checkpoints": found}


def _checkpoint(path: str | None) -> dict[str, Any]:
    if path is None:
        return {"note": "It needs none: it starts anew with every run."}
    if ":" in path.partition("/")[0] and not path.startswith("file:"):
        return {"note": "It is not on a disk of this machine; the page does not look there yet."}
    place = Path(path.removeprefix("file://").removeprefix("file:"))
    seen = layout.read(place)
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
    """Bytes and files; of a huge one only as far as it was counted."""
    total = count = 0
    for folder, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
            count += 1
        if count > SIZE_FILES_MAX:
            break
    return total, count


def alerts(visit: Visit) -> dict[str, Any]:
    seen = alerting.found(visit.site.work(), None, is_all=visit.query.get("all") == "1")
    return {"alerts": [alerting.as_body(one) for one in seen]}


def audit(visit: Visit) -> dict[str, Any]:
    try:
        with contextlib.closing(_history(visit)) as conn:
            return {"audit": [asdict(one) for one in book.listed(conn, None, 500)]}
    except Error as exc:
        if exc.code == "no-store":
            return {"audit": []}
        raise


def _runs(visit: Visit, name: str) -> list[dict[str, Any]]:
    with contextlib.suppress(Error), contextlib.closing(_history(visit)) as conn:
        return [asdict(one) for one in stored_runs.listed(conn, name, 10)]
    return []


def _alerts(visit: Visit, name: str) -> list[dict[str, Any]]:
    path = visit.site.places.alerts
    if not path.exists():
        return []
    with contextlib.suppress(Error), contextlib.closing(db.open_readonly(path)) as conn:
        return [asdict(one) for one in stored_alerts.listed(conn, "open", 50, pipeline=name)]
    return []


def _history(visit: Visit) -> db.Store:
    return db.open_readonly(visit.site.places.history)
