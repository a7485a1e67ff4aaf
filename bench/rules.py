"""What all default rules cost for 200 pipelines, in this process and on a simulated clock.

Real are the watch, its engine, the store, the keepers with an hour of events, and lag.json with
three queries of each pipeline, which is written again every five seconds. The states of the
pipelines are given: the supervisor works them out anyway. `findings_percent` is the part of the
checks for silent problems, on which many rules are based.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace import config
from headrace.driver import progress_counts
from headrace.health.run_view import RunView, fold
from headrace.model.events import Event, EventKind
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.pipeline import Definition
from headrace.model.progress import from_spark
from headrace.model.runs import Desired, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import definitions, lag
from headrace.supervisor import pipeline_status
from headrace.supervisor.pipeline_keeper import Keeper
from headrace.supervisor.rule_watch import RuleWatch
from headrace.supervisor.running_driver import NOBODY, RunningDriver, Shared
from headrace.supervisor.situation import PolicyLimits
from headrace.supervisor.store_writer import StoreWriter

PIPELINES, QUERIES, PARTITIONS = 200, 3, 4
TICK_S = 0.25
LAG_S = 5.0
HISTORY_S, BATCH_S = 3600.0, 10.0
WARM_UP_S = 10.0
TICKS = int(BATCH_S / TICK_S)
T0 = 1_900_000_000.0


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    found = []
    with watched(folder) as (watch, keepers, places):
        now = T0 + HISTORY_S
        measure(watch, keepers, places, now, WARM_UP_S)  # the first judgement of all
        now += WARM_UP_S
        for number in range(1, rounds + 1):
            one = {"round": number, "pipelines": PIPELINES, "seconds": seconds}
            one |= measure(watch, keepers, places, now, seconds)
            now += seconds
            print(f"rules {number}: {one}", flush=True)
            found.append(one)
    return found


def measure(
    watch: RuleWatch, keepers: list[Keeper], places: StatePaths, now: float, seconds: float
) -> dict[str, Any]:
    """CPU time per second of simulated time."""
    end, lag_due, tick = now + seconds, now, int(now / TICK_S)
    spent = findings = 0.0
    while now < end:
        now += TICK_S
        tick += 1
        for number in range(tick % TICKS, len(keepers), TICKS):  # each has a batch every 10 s
            live = keepers[number].live
            assert live is not None
            live.view = next_batch(live.view, tick, now)
        if now >= lag_due:
            lag_due = now + LAG_S
            lag.write(places, lags(now))
        begin = time.process_time()
        for keeper in keepers:
            live = keeper.live
            assert live is not None
            live.findings(keeper.limits.health, now)
        findings += time.process_time() - begin
        statuses = [pipeline_status.status_of(keeper, now, now) for keeper in keepers]
        begin = time.process_time()
        for keeper, status in zip(keepers, statuses, strict=True):
            watch.watch(keeper, status, now)
        watch.watch_project([keeper.name for keeper in keepers], now)
        spent += time.process_time() - begin
    return {
        "cpu_percent": round(100 * (spent + findings) / seconds, 2),
        "findings_percent": round(100 * findings / seconds, 2),
    }


@contextmanager
def watched(folder: Path) -> Iterator[tuple[RuleWatch, list[Keeper], StatePaths]]:
    (folder / "headrace.toml").write_text('[project]\nname = "bench"\n')
    places = StatePaths(folder / ".headrace")
    places.state.mkdir(mode=0o700)
    clock = [T0 + HISTORY_S]
    history = StoreWriter(places)
    shared = Shared(folder, places, history, lambda: clock[0])
    view = view_of_an_hour()
    keepers = [keeper_of(shared, f"pipeline-{number:03d}", view) for number in range(PIPELINES)]
    try:
        yield RuleWatch(config.load(folder), places, history, lambda: clock[0]), keepers, places
    finally:
        history.close()


def define(places: StatePaths, name: str) -> None:
    query = {"name": "", "place": "p.py:1", "inputs": [], "sink": {"kind": "parquet", "path": "/o"},
             "mode": "append", "trigger": {"kind": "every", "seconds": BATCH_S},
             "checkpoint": None, "guarantee": "exactly-once", "guarantee_why": ""}  # fmt: skip
    queries = [{**query, "name": f"query-{number}"} for number in range(QUERIES)]
    body = {"pipeline": name, "profile": "dev", "version": "v1", "file": "p.py", "nodes": [],
            "queries": queries}  # fmt: skip
    definitions.write(places, Definition.from_json(body))


def keeper_of(shared: Shared, name: str, view: RunView) -> Keeper:
    define(shared.places, name)
    desired = Desired(name, "running", "v1", "dev", f"{name}.py")
    keeper = Keeper(shared, desired, PolicyLimits())
    spec = RunSpec(f"{name}-1", name, "/p", str(shared.places.state), "v1", "dev", desired.file)
    keeper.live = RunningDriver(shared, spec, NOBODY, T0)
    keeper.live.view = view
    return keeper


def view_of_an_hour() -> RunView:
    view = RunView()
    names = [f"query-{number}" for number in range(QUERIES)]
    for name in names:
        view = fold(view, Event(T0, EventKind.QUERY_STARTED, name, {"id": name}), T0)
    for batch in range(int(HISTORY_S / BATCH_S)):
        at = T0 + (batch + 1) * BATCH_S
        for name in names:
            view = fold(view, Event(at, EventKind.PROGRESSED, name, progressed(batch)), at)
        sample = {"queries": {}, "heap_used": 300, "heap_max": 1000, "memory": 10**9, "cpu_s": at}
        view = fold(view, Event(at, EventKind.SAMPLED, data=sample), at)
    return view


def next_batch(view: RunView, batch: int, at: float) -> RunView:
    for name in view.queries:
        event = Event(at, EventKind.PROGRESSED, name, progressed(batch))
        view = fold(view, event, at)
    return view


def progressed(batch: int) -> dict[str, Any]:
    operator = {
        "operatorName": "stateStoreSave",
        "numRowsTotal": 5000 + batch % 50,
        "numRowsUpdated": 500,
        "numRowsDroppedByWatermark": 5,
        "numRowsRemoved": 40,
    }
    body = {
        "batchId": batch,
        "numInputRows": 1000,
        "durationMs": {"triggerExecution": 4000, "addBatch": 3500},
        "sources": [{"description": "KafkaV2[Subscribe[t]]", "numInputRows": 1000,
                     "endOffset": {"t": {"0": batch * 1000}},
                     "latestOffset": {"t": {"0": batch * 1000 + 10}}}],
        "stateOperators": [operator],
        "observedMetrics": {"headrace_quarantine": {"rows": 1000, "bad": 5}},
    }  # fmt: skip
    return {"progress": body, **progress_counts.from_progress(from_spark(body))}


def lags(at: float) -> list[QueryLag]:
    partitions = tuple(
        PartitionLag("t", number, 990, 0, 1000, 1.0, 604_800.0) for number in range(PARTITIONS)
    )
    return [
        QueryLag(f"pipeline-{number:03d}", f"query-{query}", at, partitions)
        for number in range(PIPELINES)
        for query in range(QUERIES)
    ]
