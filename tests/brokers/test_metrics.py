"""Progress events in a topic, on a real broker, from a real pipeline: all of them, also after the
relay was killed and while the broker was down.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import (
    AclOperation,
    ResourceType,
)

from brokers.cluster import PASSWORD, USER, Cluster
from brokers.conftest import allow, everything, made
from e2e import rig
from headrace.cli import check
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.producer import Producer
from headrace.driver.events import EventsFile
from headrace.errors import Error
from headrace.model.events import EventKind
from headrace.model.runs import RunSpec, run_name
from headrace.model.state_paths import StatePaths
from headrace.project import system_topics
from headrace.project.workspace import open_workspace
from headrace.relay import progress_export
from headrace.relay.metrics_topic import MetricsTopic
from headrace.relay.progress_export import Exporter
from headrace.state import run_folders

pytestmark = pytest.mark.e2e

PIPELINE = """
import headrace as hr


@hr.source
def ticks():
    return hr.rate(5)


@hr.stream(to=hr.parquet("data/kept"), every="500 milliseconds")
def kept(ticks):
    return ticks


@hr.stream(to=hr.parquet("data/also"), every="700 milliseconds")
def also(ticks):
    return ticks
"""
SETTINGS = """
[metrics.kafka]
servers = "{servers}"
topic = "{topic}"
[spark]
"spark.master" = "local[2]"
"""

STOPPED_AT = 3  # looks at the clock: of the whole, of its flush, of the first record's own flush


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, broker: Cluster) -> Iterator[rig.Project]:
    folder = tmp_path_factory.mktemp("metrics-project")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "flow.py").write_text(PIPELINE)
    settings = SETTINGS.format(servers=broker.servers(), topic=made(broker, 2))
    (folder / "headrace.toml").write_text(settings)
    found = rig.Project(folder)
    found.headrace("up")
    yield found
    with contextlib.suppress(AssertionError):
        found.headrace("down")


def topic(project: rig.Project) -> str:
    asked = system_topics.metrics(open_workspace(project.folder, "dev").settings)
    assert asked is not None
    return str(asked.topic)


def records(project: rig.Project, broker: Cluster) -> list[tuple[str, dict[str, Any]]]:
    found = everything(broker, topic(project))
    return [(message.key().decode(), json.loads(message.value())) for message in found]


def rows(project: rig.Project, broker: Cluster) -> dict[tuple[str, int], int]:
    """Of each query and batch, its number of rows, by the topic."""
    return {
        (body["query"], body["progress"]["batchId"]): body["progress"]["numInputRows"]
        for _, body in records(project, broker)
    }


def batches(project: rig.Project) -> int:
    return sum(query["batches"] or 0 for query in project.status("flow").get("queries", []))


def goes_on(project: rig.Project) -> None:
    before = batches(project)
    rig.eventually("batches are done", lambda: batches(project) > before + 10, 60)


def export(project: rig.Project) -> dict[str, Any]:
    (found,) = json.loads(project.headrace("status", "--json"))["exports"]
    return dict(found)


def relay(project: rig.Project) -> psutil.Process | None:
    found = rig.processes_in(project.folder)
    return next((one for one in found if "headrace.relay.main" in rig.words(one)), None)


def test_every_batch_is_there_also_after_the_relay_was_killed_and_the_broker_was_down(
    project: rig.Project, broker: Cluster
) -> None:
    rig.eventually("records arrive", lambda: records(project, broker), 90)
    for _ in range(3):  # rounds of one relay
        before = len(records(project, broker))
        rig.eventually("more arrive", lambda n=before: len(records(project, broker)) > n, 30)
        assert export(project)["problem"] is None

    killed = rig.eventually("the relay runs", lambda: relay(project), 30)
    os.kill(killed.pid, signal.SIGKILL)
    goes_on(project)
    again = rig.eventually("it runs again", lambda: relay(project), 30)
    assert again.pid != killed.pid

    broker.stop()
    goes_on(project)
    rig.eventually("it says so", lambda: "does not answer" in str(export(project)["problem"]), 60)
    assert "waiting. " in project.headrace("status")
    os.kill(again.pid, signal.SIGKILL)
    goes_on(project)
    broker.start()
    rig.eventually("it is well again", lambda: export(project)["problem"] is None, 90)
    goes_on(project)
    project.headrace("down")

    body = json.loads(project.headrace("progress", "flow", "-n", "100000", "--json"))
    expected = {
        (one["query"], one["progress"]["batchId"]): one["progress"]["numInputRows"]
        for one in body["progress"]
    }
    assert len(expected) > 40
    assert rows(project, broker) == expected
    assert export(project)["dropped"] == 0


def test_a_record_says_whose_it_is(project: rig.Project, broker: Cluster) -> None:
    key, body = records(project, broker)[0]

    assert key == f"flow/{body['query']}"
    assert body["pipeline"] == "flow"
    assert body["run"] in {path.name for path in (project.state / "runs").iterdir()}
    assert (body["profile"], body["dropped"], body["host"]) == ("dev", 0, os.uname().nodename)
    assert body["progress"]["sources"]


def test_more_than_may_wait_while_the_broker_is_down_is_dropped_and_counted_in_the_records(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_export, "WAITING_MAX", 10)
    places, name, to = StatePaths(tmp_path), run_name("flow", 1e6, "ab12"), made(broker)
    spec = RunSpec(name, "flow", str(tmp_path), str(tmp_path), "v1", "dev", "flow.py", at=1e6)
    run_folders.write_spec(places, spec)
    told = EventsFile(places.events(name))
    going, sink = Exporter("kafka", places), MetricsTopic(kafka(broker.servers(), topic=to))
    broker.stop()
    for number in range(25):
        told.tell(EventKind.PROGRESSED, "kept", {"progress": {"batchId": number}})
    assert "does not answer" in str(going.tick(sink, time.time()))
    broker.start()
    rig.eventually("it is delivered", lambda: going.tick(sink, time.time()) is None, 60)
    sink.close()

    found = [json.loads(message.value()) for message in everything(broker, to)]
    assert {body["progress"]["batchId"] for body in found} == set(range(15, 25))
    assert {body["dropped"] for body in found} == {15}


def test_a_record_that_is_too_large_does_not_take_others_with_it(broker: Cluster) -> None:
    small = made(broker, 1, max_message_bytes="2000")
    sending = Producer(kafka(broker.servers(), topic=small), 60.0)

    done = sending.send([("a", b"x"), ("b", b"x" * 5_000), ("c", b"y" * 2_000_000), ("d", b"z")])
    sending.close()

    assert (done.arrived, done.too_large, done.problem) == ({0, 3}, {1, 2}, None)
    assert [message.value() for message in everything(broker, small)] == [b"x", b"z"]


def test_for_records_to_be_tried_alone_there_is_one_time_in_all(broker: Cluster) -> None:
    small = made(broker, 1, max_message_bytes="2000")
    steady = iter(range(0, 10_000, 20))  # each look at it is twenty seconds later
    sending = Producer(kafka(broker.servers(), topic=small), 100.0, lambda: float(next(steady)))
    records = [("a", b"%d" % n + b"x" * 1_500) for n in range(20)]  # two together are too large

    done = sending.send(records)
    rest = [one for number, one in enumerate(records) if number not in done.arrived]
    sending.close()

    assert (done.too_large, done.problem) == (frozenset(), None)
    # There is time for two; the first may have left alone, before the others were in its batch.
    assert done.arrived == set(range(len(done.arrived)))
    assert 2 <= len(done.arrived) < 10
    again = Producer(kafka(broker.servers(), topic=small), 60.0)
    assert len(again.send(rest).arrived) == len(rest)
    again.close()
    assert [message.value() for message in everything(broker, small)] == [v for _, v in records]


def test_a_broker_that_goes_away_meanwhile_is_waited_for_once(broker: Cluster) -> None:
    small = made(broker, 1, max_message_bytes="2000")
    looks: list[int] = []

    def steady() -> float:
        """A moment at which something happens: the next record is about to be tried alone."""
        if len(looks) == STOPPED_AT:
            broker.stop()
        looks.append(1)
        return 0.0  # that takes no time: how fast this machine is does not matter

    sending = Producer(kafka(broker.servers(), topic=small), 8.0, steady)
    records = [("a", b"%d" % n + b"x" * 1_500) for n in range(20)]  # two together are too large
    done = sending.send(records)
    sending.close()
    broker.start()

    assert done.too_large == frozenset()
    assert 1 <= len(done.arrived) < 10
    assert done.problem is not None
    assert done.problem.code == "kafka-unreachable"
    assert len(looks) < STOPPED_AT + 6  # not once a record
    there = [message.value() for message in everything(broker, small)]
    assert there == [records[number][1] for number in sorted(done.arrived)]


def test_a_login_that_may_not_write_is_told(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    name = made(broker)
    allow(broker, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    by_login = {"ca": broker.pem("ca"), "user": USER, "password": "${env:KAFKA_PASSWORD}"}
    connector = kafka(broker.servers("login"), topic=name, **by_login)  # type: ignore[arg-type]
    sending = Producer(connector, 20.0)

    done = sending.send([("a", b"x")])
    sending.close()

    assert done.arrived == frozenset()
    assert done.problem is not None
    assert done.problem.code == "kafka-acl"


def test_check_connect_asks_the_topic_of_metrics(broker: Cluster, tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text(
        f'[metrics.kafka]\nservers = "{broker.servers()}"\ntopic = "{made(broker, 2)}"\n'
    )
    settings = open_workspace(tmp_path, "dev").settings

    (said,) = check.check_connections(settings, [])

    assert (said["name"], said["kind"]) == ("metrics.kafka", "kafka")
    assert said["found"].endswith("2 partitions, with permission to write")


def test_check_connect_says_where_the_topic_of_metrics_is_wrong(
    broker: Cluster, tmp_path: Path
) -> None:
    made(broker, 1, "metricsOfAll")
    text = f'[lag]\n[metrics.kafka]\nservers = "{broker.servers()}"\ntopic = "metricsofall"\n'
    (tmp_path / "headrace.toml").write_text(text)

    with pytest.raises(Error) as caught:
        check.check_connections(open_workspace(tmp_path, "dev").settings, [])

    assert (caught.value.code, caught.value.where) == ("kafka-no-topic", "headrace.toml:2")
    assert caught.value.fix == "Did you mean 'metricsOfAll'?"
