"""A consumer group that goes along with each query: Kafka's own tools see where it stands.

The relay's own functions and the broker are real.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    ResourceType,
)

from brokers.cluster import PASSWORD, USER, Cluster, tool
from brokers.conftest import allow, made, sent
from brokers.deployed import committed, workspace
from e2e import rig
from headrace.model.pipeline import Node
from headrace.project.workspace import Workspace
from headrace.relay import main as relay
from headrace.relay.consumer_groups import GroupMirror
from headrace.relay.lag import LagMonitor
from headrace.state import lag

pytestmark = pytest.mark.e2e
UNREADY = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


@pytest.fixture(autouse=True)
def ready(broker: Cluster) -> None:
    """A new broker makes the topic of its groups when first asked for one, which takes a while."""
    consumer = Consumer({"bootstrap.servers": broker.servers(), "group.id": "first"})
    place = TopicPartition(made(broker), 0)

    def is_kept() -> bool:
        try:
            return bool(consumer.committed([place], timeout=60))
        except KafkaException as exc:
            if exc.args[0].code() not in UNREADY:
                raise
            return False

    rig.eventually("groups are kept", is_kept, 60)
    consumer.close()


def group_of(folder: Path) -> str:
    """One for each test."""
    return f"{folder.name}-flow-kept"


def by_the_console(broker: Cluster, group: str) -> dict[tuple[str, int], tuple[str, str]]:
    """CURRENT-OFFSET and LAG of each partition, as Kafka's own tool prints them."""
    said = tool(
        broker, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", broker.servers(), "--describe", "--group", group,
    )  # fmt: skip
    rows = [line.split() for line in said.splitlines() if line.startswith(group)]
    return {(row[1], int(row[2])): (row[3], row[5]) for row in rows}


def measured(work: Workspace, looking: LagMonitor, mirroring: GroupMirror) -> list[str]:
    """One run of both duties, as their threads do it."""
    return [*relay.measure(work, looking, mirroring), *mirroring.tick(work)]


def test_kafkas_own_tool_shows_where_a_query_stands_and_how_far_behind_it_is(
    broker: Cluster, tmp_path: Path
) -> None:
    topic, group = made(broker, 2), group_of(tmp_path)
    sent(broker, topic, *({"value": str(n), "partition": n % 2} for n in range(20)))
    work = workspace(tmp_path, {"servers": broker.servers(), "subscribe": topic})
    looking, mirroring = LagMonitor(), GroupMirror()
    committed(tmp_path, 0, {topic: {"0": 4, "1": 10}})

    assert measured(work, looking, mirroring) == []
    assert by_the_console(broker, group) == {(topic, 0): ("4", "6"), (topic, 1): ("10", "0")}

    committed(tmp_path, 1, {topic: {"0": 9, "1": 10}})
    sent(broker, topic, *({"value": "more", "partition": 1} for _ in range(3)))
    assert measured(work, looking, mirroring) == []
    assert by_the_console(broker, group) == {(topic, 0): ("9", "1"), (topic, 1): ("10", "3")}
    assert lag.read(work.places)["flow", "kept"].group == group
    looking.close()


def test_a_group_is_moved_only_when_the_query_has_moved(broker: Cluster, tmp_path: Path) -> None:
    topic, group = made(broker), group_of(tmp_path)
    sent(broker, topic, *map(str, range(9)))
    work = workspace(tmp_path, {"servers": broker.servers(), "subscribe": topic})
    looking, mirroring = LagMonitor(), GroupMirror()
    committed(tmp_path, 0, {topic: {"0": 4}})
    measured(work, looking, mirroring)

    consumer = Consumer({"bootstrap.servers": broker.servers(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    measured(work, looking, mirroring)
    (untouched,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    committed(tmp_path, 1, {topic: {"0": 9}})
    measured(work, looking, mirroring)
    (moved,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    looking.close()

    assert (untouched.offset, moved.offset) == (1, 9)


def test_a_query_with_two_sources_on_one_cluster_is_not_moved_again_and_again(
    broker: Cluster, tmp_path: Path
) -> None:
    one, other, group = made(broker), made(broker), group_of(tmp_path)
    sources = [{"servers": broker.servers(), "subscribe": name} for name in (one, other)]
    work = workspace(tmp_path, *sources)
    for name in (one, other):
        sent(broker, name, *map(str, range(9)))
    looking, mirroring = LagMonitor(), GroupMirror()
    committed(tmp_path, 0, {one: {"0": 4}}, {other: {"0": 5}})
    assert measured(work, looking, mirroring) == []

    consumer = Consumer({"bootstrap.servers": broker.servers(), "group.id": group})
    both = [TopicPartition(one, 0), TopicPartition(other, 0)]
    moved = [place.offset for place in consumer.committed(both, timeout=30)]
    by_hand = [TopicPartition(one, 0, 1), TopicPartition(other, 0, 2)]
    consumer.commit(offsets=by_hand, asynchronous=False)
    measured(work, looking, mirroring)
    untouched = [place.offset for place in consumer.committed(both, timeout=30)]
    consumer.close()
    looking.close()

    assert (moved, untouched) == ([4, 5], [1, 2])


def test_a_topic_of_the_same_name_that_is_written_elsewhere_gets_no_group(
    broker: Cluster, tmp_path: Path
) -> None:
    topic, group = made(broker), group_of(tmp_path)
    sent(broker, topic, *map(str, range(9)))
    nobody = {"kind": "kafka", "servers": "127.0.0.1:1", "topic": topic}
    copied = Node("copied", "query", "flow.py:3", connector=nobody)
    source = {"servers": broker.servers(), "subscribe": topic}
    work = workspace(tmp_path, source, beside=(copied,))
    looking, mirroring = LagMonitor(), GroupMirror()
    committed(tmp_path, 0, {topic: {"0": 4}})

    measured(work, looking, mirroring)
    assert measured(work, looking, mirroring) == []
    looking.close()

    assert lag.read(work.places)["flow", "kept"].records == 5
    consumer = Consumer({"bootstrap.servers": broker.servers(), "group.id": group})
    (moved,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    assert moved.offset == 4


def test_a_group_with_members_is_left_alone_and_lag_is_known_all_the_same(
    broker: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = made(broker), group_of(tmp_path)
    sent(broker, topic, *map(str, range(9)))
    work = workspace(tmp_path, {"servers": broker.servers(), "subscribe": topic})
    committed(tmp_path, 0, {topic: {"0": 4}})
    member = Consumer({"bootstrap.servers": broker.servers(), "group.id": group,
                       "auto.offset.reset": "earliest", "enable.auto.commit": False})  # fmt: skip
    member.subscribe([topic])
    assert member.consume(1, 30)
    looking, mirroring = LagMonitor(), GroupMirror()

    measured(work, looking, mirroring)
    (problem,) = measured(work, looking, mirroring)
    member.close()
    looking.close()

    assert "has members, so Headrace does not change it" in problem
    found = lag.read(work.places)["flow", "kept"]
    assert (found.records, found.problem, found.group_problem) == (5, None, problem)


def test_a_login_without_the_right_is_told_which_right(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = made(broker), group_of(tmp_path)
    sent(broker, topic, "one")
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    allow(broker, ResourceType.GROUP, group, AclOperation.DESCRIBE)
    work = workspace(tmp_path, {
        "servers": broker.servers("login"), "subscribe": topic, "ca": broker.pem("ca"),
        "user": USER, "password": "${env:KAFKA_PASSWORD}",
    })  # fmt: skip
    committed(tmp_path, 0, {topic: {"0": 0}})
    looking, mirroring = LagMonitor(), GroupMirror()

    measured(work, looking, mirroring)
    (problem,) = measured(work, looking, mirroring)
    looking.close()

    assert f"The login 'ann' is not allowed to change the group '{group}'" in problem
    assert "READ on the group and on the topics" in problem
    assert lag.read(work.places)["flow", "kept"].records == 1


def test_a_problem_is_logged_once_and_once_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = relay.ProblemLog()
    with caplog.at_level(logging.INFO, logger="headrace.relay"):
        for tried_ms in (0, 10, 250):
            log.report([f"nobody answers (after {tried_ms}ms)", "another"])
        log.report(["another"])
        log.report(["another"])

    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "another",
        "nobody answers (after 0ms)",
        "resolved: nobody answers (after 250ms)",
    ]
