"""Unusual Kafka input: huge and empty records, a topic deleted and recreated under a running
pipeline. End to end, with one project on a real broker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from brokers.cluster import Cluster
from brokers.conftest import made, sent
from e2e import rig
from headrace.checkpoints import committed_files
from headrace.errors import ConnectorError

pytestmark = pytest.mark.e2e
HUGE = 50_000_000
TOPIC = "bad-input"

PIPELINE = """
import headrace as hr


@hr.view
def parsed(raw):
    return hr.parse_json(raw, "id int")


@hr.stream(to=hr.parquet("data/kept"), every="500 milliseconds")
def kept(parsed):
    return parsed
"""
SETTINGS = """
[restart]
retries = 0
[sources.raw]
kind = "kafka"
servers = "{servers}"
subscribe = "{topic}"
starting = "earliest"
[pipelines.flow.queries."parsed.quarantine"]
every = "500 milliseconds"
[spark]
"spark.master" = "local[2]"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, broker: Cluster) -> Iterator[rig.Project]:
    folder = tmp_path_factory.mktemp("bad-topics")
    new_topic(broker)
    (folder / "flow.py").write_text(PIPELINE)
    (folder / "headrace.toml").write_text(SETTINGS.format(servers=broker.servers(), topic=TOPIC))
    found = rig.Project(folder)
    yield found
    with contextlib.suppress(AssertionError):
        found.headrace("down")


def new_topic(broker: Cluster) -> None:
    made(broker, 1, TOPIC, max_message_bytes=str(HUGE + 1_000_000))


def state(project: rig.Project) -> str:
    return str(project.status("flow").get("state"))


def rows(folder: Path) -> list[dict[str, Any]]:
    try:
        files = committed_files.files(folder)
    except ConnectorError:
        return []
    return [row for one in files for row in pq.read_table(one.path).to_pylist()]


def kept(project: rig.Project) -> list[int]:
    return sorted(row["id"] for row in rows(project.folder / "data" / "kept"))


def aside(project: rig.Project) -> list[dict[str, Any]]:
    found = rows(project.folder / "quarantine" / "flow" / "parsed")
    return sorted(found, key=lambda row: row["offset"])


def test_huge_records_tombstones_and_bare_headers_are_set_aside(
    project: rig.Project, broker: Cluster
) -> None:
    project.headrace("up")
    huge = b'{"id": 7, "text": "' + b"x" * HUGE + b'"}'
    limit = {"message.max.bytes": HUGE + 1_000_000}
    sent(
        broker, TOPIC, '{"id": 1}', {"value": huge}, {"key": "gone", "value": None},
        {"key": None, "value": None, "headers": [("trace", b"abc")]}, '{"id": 2}', settings=limit,
    )  # fmt: skip

    rig.eventually("what is good is kept", lambda: kept(project) == [1, 2], 90)

    rig.eventually("what is not is set aside", lambda: len(aside(project)) == 3, 60)
    found = aside(project)
    assert [(one["reason"], one["bytes"]) for one in found] == [
        ("too-large", len(huge)),
        ("null", None),
        ("null", None),
    ]
    assert len(found[0]["raw"]) < 100_000, "its beginning is enough to know it by"
    assert state(project) == "running"


def test_a_topic_deleted_and_made_anew_stops_it_and_is_told(
    project: rig.Project, broker: Cluster
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    admin.delete_topics([TOPIC])[TOPIC].result(30)
    rig.eventually("it needs attention", lambda: state(project) == "needs-attention", 60)
    gone = f"gone: kept: {TOPIC}, partition 0 no longer exists (position 5)"
    assert gone in project.headrace("why", "flow")
    rig.eventually(
        "the lag says so",
        lambda: lag_problem(project) == f"partitions that no longer exist: {TOPIC} 0",
        30,
    )
    told = project.headrace("start", "flow", "--accept-gap", "--yes", code=3)
    assert f"Topic not found: {TOPIC}." in told

    new_topic(broker)
    sent(broker, TOPIC, '{"id": 11}')
    project.headrace("start", "flow")
    words = "The end offset of a Kafka topic moved backwards"
    rig.eventually("it is told", lambda: words in project.headrace("why", "flow"), 90, every_s=1)
    why = project.headrace("why", "flow")
    assert state(project) == "needs-attention"
    recreated = (
        f"kept: {TOPIC}, partition 0 was recreated: the query is at 5, but the partition ends at 1"
    )
    left_out = "its current records (1) are skipped too"
    assert f"gone: {recreated}; {left_out}" in why

    assert recreated in project.headrace("start", "flow", "--accept-gap", "--yes")
    rig.eventually("it runs", lambda: state(project) == "running", 60)
    sent(broker, TOPIC, '{"id": 12}')
    rig.eventually("it goes on", lambda: kept(project) == [1, 2, 12], 60)


def lag_problem(project: rig.Project) -> str | None:
    found = json.loads(project.headrace("lag", "flow", "--json"))["queries"]
    return found[0]["problem"] if found else None


def test_a_broker_that_is_down_at_the_start_is_waited_for_and_told(
    tmp_path: Path, broker: Cluster
) -> None:
    topic = made(broker)
    short = '{ "kafka.default.api.timeout.ms" = "5000", "kafka.request.timeout.ms" = "4000" }'
    settings = SETTINGS.format(servers=broker.servers(), topic=topic).replace(
        "retries = 0", "retries = 'unlimited'"
    )
    (tmp_path / "flow.py").write_text(PIPELINE)
    (tmp_path / "headrace.toml").write_text(
        settings.replace('starting = "earliest"', f'starting = "earliest"\noptions = {short}')
    )
    project = rig.Project(tmp_path)
    broker.stop()
    try:
        said = project.headrace("up", code=1)
        assert "starts again in" in said
        assert "because Kafka did not answer in time" in said
        broker.start()
        sent(broker, topic, '{"id": 1}')
        rig.eventually("it goes on by itself", lambda: kept(project) == [1], 120)
        rig.eventually("it runs", lambda: state(project) == "running", 60)
    finally:
        project.headrace("down")
        if broker.process.poll() is not None:
            broker.start()
