"""A driver without Spark that tells exactly what a real one tells when nothing goes wrong.

Called as the real one, `quiet_driver.py RUN_DIR`. HEADRACE_BENCH_BATCHES_S is the time between two
batches; 0: there is no data, only the heartbeat every 5 s and Spark's idle event every 10 s.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headrace import process_identity
from headrace.json_file import read_json, write_json
from headrace.model.events import Event, EventKind
from headrace.model.runs import Ending, Exit, RunSpec

BEAT_S, IDLE_S = 5.0, 10.0
STATUS = {"message": "Waiting for data to arrive", "data_available": False, "trigger_active": False}
COSTS = {
    "memory": 900_000_000, "driver_memory": 120_000_000, "jvm_memory": 780_000_000,
    "cpu_s": 12.5, "heap_max": 1_000_000_000, "heap_committed": 400_000_000,
    "heap_used": 200_000_000, "heap_after_gc": 90_000_000,
}  # fmt: skip


def main() -> None:
    run_dir = Path(sys.argv[1])
    spec = RunSpec.from_json(read_json(run_dir / "run.json") or {})
    batches_s = float(os.environ.get("HEADRACE_BENCH_BATCHES_S", "0"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    me = process_identity.identify(os.getpid())
    write_json(run_dir / "process.json", me.to_json() if me else {})
    events = (run_dir / "events.jsonl").open("a", buffering=1)

    def tell(kind: EventKind, on: str | None = None, **data: Any) -> None:
        events.write(Event(time.time(), kind, on, data).to_line() + "\n")

    tell(EventKind.RUN_STARTED, pid=os.getpid(), jvm_pid=None, version=spec.version, profile="dev")
    tell(EventKind.DEFINED, queries=["kept"])
    tell(EventKind.QUERY_STARTED, "kept", id="1", run_id="1", guarantee="exactly-once")
    due = {"beat": 0.0, "idle": time.monotonic() + IDLE_S, "batch": 0.0}
    batch = 0
    while not stop.wait(min(batches_s or 1.0, 1.0)):
        now = time.monotonic()
        if now >= due["beat"]:
            due["beat"] = now + BEAT_S
            tell(EventKind.SAMPLED, None, queries={"kept": STATUS}, **COSTS)
        if batches_s and now >= due["batch"]:
            due["batch"] = now + batches_s
            tell(EventKind.PROGRESSED, "kept", progress=progress(batch))
            batch += 1
        elif not batches_s and now >= due["idle"]:
            due["idle"] = now + IDLE_S
            tell(EventKind.IDLED, "kept")
    how = {"kept": {"batch": batch, "how": "clean"}}
    exit_ = Exit(Ending.DRAINED, 0, time.time(), queries=how)
    tell(EventKind.EXITED, **exit_.to_json())
    write_json(run_dir / "exit.json", exit_.to_json())


def progress(batch: int) -> dict[str, Any]:
    """As large as Spark's own for one file source and one stateful operator."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    parts = ("addBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "walCommit")
    source = {
        "description": "FileStreamSource[file:/data/incoming]",
        "startOffset": {"logOffset": batch - 1}, "endOffset": {"logOffset": batch},
        "latestOffset": None, "numInputRows": 1000, "inputRowsPerSecond": 1000.0,
        "processedRowsPerSecond": 4000.0, "metrics": {"numFilesOutstanding": "0"},
    }  # fmt: skip
    custom = {f"rocksdbMetricNumber{n}": n for n in range(30)}
    state = {
        "operatorName": "stateStoreSave", "numRowsTotal": 1000, "numRowsUpdated": 10,
        "allUpdatesTimeMs": 10, "numRowsRemoved": 0, "memoryUsedBytes": 1_000_000,
        "numRowsDroppedByWatermark": 0, "numShufflePartitions": 8, "customMetrics": custom,
    }  # fmt: skip
    return {
        "id": "00000000-0000-0000-0000-000000000001", "runId": "1", "name": "kept",
        "timestamp": now, "batchId": batch, "batchDuration": 250, "numInputRows": 1000,
        "inputRowsPerSecond": 1000.0, "processedRowsPerSecond": 4000.0,
        "durationMs": dict.fromkeys((*parts, "triggerExecution"), 40),
        "eventTime": {"watermark": now}, "stateOperators": [state], "sources": [source],
        "sink": {"description": "FileSink[file:/data/kept]", "numOutputRows": -1},
    }  # fmt: skip


if __name__ == "__main__":
    main()
