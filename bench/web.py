"""What a call of the page's API costs when there is much to tell: 200 pipelines and five million
stored batches, over the same call with one pipeline and a thousand.

Two real web processes, asked in turns by a program's key. Stored rows are made by SQL, as the store
itself would keep them: raw rows of the newest hours, roll-ups of a month. Answers are checked.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

from headrace.json_file import read_json, write_json
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.runs import Desired, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.state import api_keys, desired
from headrace.state.api_keys import KeyKind, Role
from headrace.store import db, pipeline_status, runs

SMALL = (1, 1_000)
LARGE = (200, 5_000_000)
CALLS = 120  # of each side, a round
NAME = "pipeline-000"
RUN = f"{NAME}-20260101T000000-ab00"
PATHS = {
    "overview": "/api/overview",
    "pipeline": f"/api/pipelines/{NAME}",
    "history, 15 minutes": f"/api/pipelines/{NAME}/history?range=15m",
    "history, a day": f"/api/pipelines/{NAME}/history?range=24h",
    "history, 30 days": f"/api/pipelines/{NAME}/history?range=30d",
    "runs": f"/api/pipelines/{NAME}/runs",
    "run": f"/api/runs/{RUN}",
    "alerts": "/api/alerts",
    "audit": "/api/audit",
    "live tables": "/api/live",
    "tables for SQL": "/api/sql",
    "checkpoints": "/api/checkpoints",
}


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    found = []
    small, large = made(folder / "small", *SMALL), made(folder / "large", *LARGE)
    with served(small) as one, served(large) as other:
        for side in (one, other):
            for path in PATHS.values():
                side.ask(path)
        for number in range(1, rounds + 1):
            for name, path in PATHS.items():
                took: dict[str, list[float]] = {"small": [], "large": []}
                for turn in range(CALLS):
                    sides = [("small", one), ("large", other)]
                    for label, side in sides if turn % 2 else sides[::-1]:
                        took[label].append(side.ask(path))
                result = {f"{k}_p95_ms": round(p95(v) * 1000, 3) for k, v in took.items()}
                told = {"round": number, "call": name, **result, "bytes": other.size(path)}
                told["memory_mb"] = round(other.memory_mb(), 1)
                print(f"web {number}: {told}", flush=True)
                found.append(told)
    return found


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


@dataclass
class Side:
    http: httpx2.Client
    process: psutil.Process

    def ask(self, path: str) -> float:
        begin = time.perf_counter()
        done = self.http.get(path)
        took = time.perf_counter() - begin
        if done.status_code != 200:
            raise AssertionError(f"{path}: {done.status_code} {done.text[:500]}")
        return took

    def size(self, path: str) -> int:
        return len(self.http.get(path).content)

    def memory_mb(self) -> float:
        return float(self.process.memory_info().rss / 1e6)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Side]:
    places = StatePaths(folder / ".headrace")
    command = [sys.executable, "-m", "headrace.web.main", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while (told := read_json(places.web)) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the page does not listen")
            time.sleep(0.1)
        secret = api_keys.make(places, KeyKind.PROGRAM, "bench", Role.VIEW, time.time(), None)
        headers = {"authorization": f"Bearer {secret}"}
        with httpx2.Client(base_url=told["url"], headers=headers, timeout=60) as http:
            yield Side(http, psutil.Process(process.pid))
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(30)


def made(folder: Path, count: int, batches: int) -> Path:
    """A project with so many deployed pipelines, and their history."""
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text('[project]\nname = "bench"\n')
    places = StatePaths(folder / ".headrace")
    now = time.time()
    conn = db.open_history(places.history)
    for number in range(count):
        _pipeline(folder, places, conn, f"pipeline-{number:03d}", now)
    _history(conn, count, batches, now)
    conn.close()
    db.open_alerts(places.alerts).close()
    me = psutil.Process()
    from headrace import process_identity

    alive = process_identity.identify(me.pid)
    if alive is not None:  # as if this were the supervisor: then the store is believed
        write_json(places.supervisor_process, alive.to_json())
    return folder


def _pipeline(folder: Path, places: StatePaths, conn: db.Store, name: str, now: float) -> None:
    desired.write(
        places,
        Desired(name, "running", "v1", "dev", f"pipelines/{name}.py", by="bench", at=now),
    )
    checkpoint = folder / "checkpoints" / name / "kept" / "v1"
    sink = {"kind": "parquet", "path": str(folder / "data" / name)}
    query = Query("kept", "p.py:1", ("s",), sink, "append", {}, str(checkpoint), "exactly-once", "")
    node = Node("s", "source", "p.py:1", (), {"kind": "json"})
    body = Definition(name, "dev", "v1", f"pipelines/{name}.py", (node,), (query,))
    write_json(places.definition("v1", "dev", name), body.to_json())
    run_name = f"{name}-20260101T000000-ab00"
    spec = RunSpec(run_name, name, str(folder), str(places.state), "v1", "dev", "p.py", at=now)
    write_json(places.spec(run_name), spec.to_json())
    runs.record_start(conn, spec)
    status = QueryStatus("kept", "running", rows_in=10, batches=5, input_rate=10.0,
                         processing_rate=100.0, last_progress_at=now)  # fmt: skip
    pipeline_status.put(
        conn,
        PipelineStatus(name, "running", "1 query", run=run_name, version="v1", profile="dev",
                       pid=1, since=now, queries=(status,)),
    )  # fmt: skip


_RAW = json.dumps(
    {"batchId": 1, "numInputRows": 100, "durationMs": {"addBatch": 150, "walCommit": 20},
     "stateOperators": [], "sources": []}
)  # fmt: skip
_PHASES = json.dumps({"triggerExecution": 200, "addBatch": 150, "walCommit": 20})


def _history(conn: db.Store, count: int, batches: int, now: float) -> None:
    """Batch n of all is of pipeline n % count, spread over the last day; roll-ups over a month."""
    with db.transaction(conn):
        conn.execute(
            """INSERT INTO progress (pipeline, run, query, batch, at, rows_in, rows_out, input_rate,
                 processing_rate, batch_ms, phases, dropped_by_watermark, raw, fresh_n)
               WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
               SELECT printf('pipeline-%03d', i % ?2),
                 printf('pipeline-%03d-20260101T000000-ab00', i % ?2), 'kept', i / ?2,
                 ?3 - 86400.0 * (?1 - i) / ?1, 100, 100, 50.0, 500.0, 200.0, ?4, 0, ?5, 0 FROM n""",
            (batches, count, now, _PHASES, _RAW),
        )
    for table, width, length in (("minute", 60, 86_400), ("hour", 3600, 30 * 86_400)):
        with db.transaction(conn):
            conn.execute(
                f"""INSERT OR IGNORE INTO progress_{table} (pipeline, query, start, batches,
                      rows_in, rows_in_min, rows_in_max, rows_out, batch_ms, batch_ms_max, dropped,
                      add_batch_ms)
                    WITH RECURSIVE
                      p(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM p WHERE i + 1 < ?1),
                      t(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM t WHERE i + 1 < ?2)
                    SELECT printf('pipeline-%03d', p.i), 'kept', (CAST(?3 / ?4 AS INT) - t.i) * ?4,
                      20, 2000, 100, 100, 2000, 4000.0, 200.0, 0, 3000.0 FROM p, t""",  # noqa: S608
                (count, length // width, now, width),
            )
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
