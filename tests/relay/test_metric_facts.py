"""The facts behind the metrics: from a real history, real events files and a status."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from headrace import process_identity
from headrace.json_file import write_json
from headrace.metrics import prometheus_text, table
from headrace.metrics.metric import Family
from headrace.model.alerts import OpenAlert
from headrace.model.events import Event, EventKind
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.progress import from_spark
from headrace.model.runs import Desired
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay import metric_facts
from headrace.relay.metric_facts import Heartbeats, MetricSource
from headrace.state import desired, lag
from headrace.store import alerts, db, pipeline_status, progress
from metrics import pages

RUN = "flow-20260101T000000-ab"


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """A supervised project with one pipeline; this process stands for the supervisor."""
    work = open_workspace(tmp_path, "dev")
    desired.write(work.places, Desired("flow", "running", "v1", "dev", "flow.py"))
    me = process_identity.identify(os.getpid())
    assert me is not None
    write_json(work.places.supervisor_process, me.to_json())
    queries = (QueryStatus("kept", "running", lag_rows=3),)
    status = PipelineStatus("flow", "running", "", run=RUN, pid=os.getpid(), queries=queries)
    with closing(db.open_history(work.places.history)) as conn:
        pipeline_status.put(conn, status)
    return work


def add_batches(work: Workspace, query: str, *numbers: int, at: float | None = None) -> None:
    with closing(db.open_history(work.places.history)) as conn:
        for number in numbers:
            done = from_spark({"batchId": number, "numInputRows": 10})
            progress.add(conn, "flow", RUN, query, at or time.time(), done)


def beat(work: Workspace, **costs: float) -> None:
    path = work.places.events(RUN)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(Event(time.time(), EventKind.SAMPLED, data={"queries": {}, **costs}).to_line())
        file.write("\n")


def page(families: list[Family]) -> pages.Page:
    return pages.parse(prometheus_text.page(families, "")[0].decode())


def look(work: Workspace) -> pages.Page:
    facts, problems = metric_facts.collect(work, Heartbeats(), time.time())
    assert problems == []
    return page(table.read_all(facts))


def test_counts_come_from_the_history_and_gauges_from_the_status(work: Workspace) -> None:
    add_batches(work, "kept", 0, 1, 2)
    found = look(work)

    of = {"pipeline": "flow", "query": "kept"}
    assert pages.value(found, "headrace_supervisor_up") == 1
    assert pages.value(found, "headrace_pipeline_up", pipeline="flow") == 1
    assert pages.value(found, "headrace_query_batches_total", **of) == 3
    assert pages.value(found, "headrace_query_input_rows_total", **of) == 30
    assert pages.value(found, "headrace_query_lag_rows", **of) == 3
    assert pages.value(found, "headrace_query_lag_seconds", **of) is None


def test_a_query_that_is_gone_for_a_week_is_left_out(work: Workspace) -> None:
    add_batches(work, "gone", 0, at=time.time() - 8 * 86_400)
    add_batches(work, "paused", 0, at=time.time() - 86_400)
    add_batches(work, "kept", 0, at=time.time() - 8 * 86_400)
    found = look(work)

    names = {dict(labels)["query"] for name, labels in found if name.endswith("_batches_total")}
    assert names == {"kept", "paused"}


def test_lag_is_that_of_the_relay_while_it_is_fresh(work: Workspace) -> None:
    part = PartitionLag("t", 0, next=1, low=0, high=9, waits_s=5.0, kept_s=65.0)
    of = {"pipeline": "flow", "query": "kept"}
    lag.write(work.places, [QueryLag("flow", "kept", time.time(), (part,))])
    fresh = look(work)
    lag.write(work.places, [QueryLag("flow", "kept", time.time() - 3600, (part,))])
    old = look(work)

    assert pages.value(fresh, "headrace_query_lag_rows", **of) == 8
    assert pages.value(fresh, "headrace_query_lag_seconds", **of) == 5
    assert pages.value(fresh, "headrace_query_time_to_data_loss_seconds", **of) == 60
    assert pages.value(old, "headrace_query_lag_seconds", **of) is None


def test_open_alerts_are_counted_by_severity(work: Workspace) -> None:
    with closing(db.open_alerts(work.places.alerts)) as conn:
        for key, pipeline in (("a", "flow"), ("b", "flow"), ("c", "")):
            alerts.open_once(conn, OpenAlert(key, "row", pipeline, key, "error"), 1.0)
        alerts.resolve(conn, "b", 2.0)
    found = look(work)

    name = "headrace_alerts_open"
    assert pages.value(found, name, pipeline="flow", severity="error") == 1
    assert pages.value(found, name, pipeline="flow", severity="critical") == 0
    assert pages.value(found, name, pipeline="", severity="error") == 1


def test_memory_and_cpu_come_from_the_newest_heartbeat_with_them(work: Workspace) -> None:
    heartbeats = Heartbeats()
    places = work.places
    beat(work, memory=10, cpu_s=1.0, heap_used=1)
    beat(work)
    first = heartbeats.read(places, [RUN])[RUN]
    beat(work, memory=20, cpu_s=2.0)
    with places.events(RUN).open("a") as file:
        file.write('{"at":1.0,"event":"sampled","memo')
    second = heartbeats.read(places, [RUN])[RUN]

    assert (first.memory, first.cpu_s, first.heap_used, first.heap_max) == (10, 1.0, 1, None)
    assert (second.memory, second.cpu_s, second.heap_used) == (20, 2.0, None)
    assert heartbeats.read(places, []) == {}


def test_of_a_long_events_file_only_the_end_is_read(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_facts, "TAIL_BYTES", 300)
    beat(work, memory=1)
    for _ in range(50):
        beat(work)
    assert Heartbeats().read(work.places, [RUN]) == {}
    beat(work, memory=2)

    assert Heartbeats().read(work.places, [RUN])[RUN].memory == 2


def test_a_damaged_history_is_a_problem_and_what_is_known_is_still_shown(work: Workspace) -> None:
    work.places.history.write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    facts, problems = metric_facts.collect(work, Heartbeats(), time.time())
    found = page(table.read_all(facts))

    assert [text for text in problems if "history.db" in text]
    assert pages.value(found, "headrace_supervisor_up") == 1
    assert not [name for name, _ in found if name.endswith("_total")]


def test_exporters_that_ask_at_the_same_time_share_one_collection(work: Workspace) -> None:
    now = [100.0]
    source = MetricSource(lambda: now[0])
    add_batches(work, "kept", 0)
    first = source.families(work)
    add_batches(work, "kept", 1)
    now[0] += metric_facts.FRESH_S / 2
    assert source.families(work) is first
    now[0] += metric_facts.FRESH_S

    of = {"pipeline": "flow", "query": "kept"}
    assert pages.value(page(source.families(work)), "headrace_query_batches_total", **of) == 2
