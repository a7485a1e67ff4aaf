"""A batch of 2,000 Kafka partitions is visible everywhere, though its event has 100 kB."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from cli.stage import Project, started
from headrace.model.events import Event, EventKind
from headrace.relay.progress_export import Exporter, SendResult
from headrace.supervisor.store_writer import StoreWriter
from web.conftest import Visitor

TOPICS, PARTITIONS = 8, 250


def offsets(at: int) -> dict[str, dict[str, int]]:
    return {f"orders-{t}": {str(p): at for p in range(PARTITIONS)} for t in range(TOPICS)}


def batches() -> list[Event]:
    source = {
        "description": "KafkaV2[Subscribe[orders-0, …]]", "numInputRows": 4_000,
        "startOffset": offsets(1_000_000_000), "endOffset": offsets(1_000_000_002),
        "latestOffset": offsets(1_000_000_005),
    }  # fmt: skip
    body = {"name": "kept", "numInputRows": 4_000, "inputRowsPerSecond": 2_000.0}
    took = {"durationMs": {"triggerExecution": 500}, "sources": [source]}
    now = time.time() - 10
    return [
        Event(now + n, EventKind.PROGRESSED, "kept", {"progress": {**body, **took, "batchId": n}})
        for n in range(3)
    ]


class Records:
    to = "elsewhere"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def send(self, records: Sequence[tuple[str, dict[str, Any]]]) -> SendResult:
        self.bodies += [body for _, body in records]
        return SendResult(set(range(len(records))))


def test_progress_of_2000_partitions_is_visible_everywhere(
    project: Project, inside: Visitor
) -> None:
    events = batches()
    assert len(events[0].to_line()) > 90_000
    project.deployed()
    run = project.ran(events=(*started()[:3], *events), is_live=True)

    shown = json.loads(project.headrace("progress", "hello", "--json").stdout)["progress"]
    table = project.headrace("progress", "hello").stdout
    status = json.loads(project.headrace("status", "--json").stdout)["pipelines"][0]
    overview = inside.get("/api/overview")["pipelines"][0]
    records = Records()
    Exporter("x", project.places).tick(records, time.time())

    assert shown[0]["progress"] == events[-1].data["progress"]
    assert "4,000" in table
    for seen in (status, overview):
        kept = next(query for query in seen["queries"] if query["name"] == "kept")
        assert (kept["batches"], kept["rows_in"], kept["lag_rows"]) == (3, 12_000, 6_000)
    assert [body["progress"] for body in records.bodies] == [e.data["progress"] for e in events]

    store = StoreWriter(project.places)
    store.record_progress("hello", run, events, time.time())
    store.close()
    history = inside.get("/api/pipelines/hello/history?range=15m")
    assert sum(rows or 0 for rows in history["queries"]["kept"]["rows_in"]) == 12_000
