"""`check --connect` on a real broker: what it finds, and each failure in words."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclOperation,
    ResourceType,
)

from brokers import cluster
from brokers.cluster import CONNECTION, PASSWORD, USER, Cluster
from brokers.conftest import EVENT_HUBS_USER, HUB, allow, made, sent
from headrace.cli import check
from headrace.connectors.kafka import broker_client, client_errors
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.event_hubs import event_hubs
from headrace.connectors.kafka.topic_follower import TopicFollower
from headrace.errors import Error
from headrace.project.workspace import open_workspace

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setenv("WRONG", "not that")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what fails only when its time is over."""
    monkeypatch.setattr(broker_client, "WITHIN_S", 6.0)


def by_login(broker: Cluster, **more: Any) -> dict[str, Any]:
    return {
        "servers": broker.servers("login"),
        "ca": broker.pem("ca"),
        "user": USER,
        "password": "${env:KAFKA_PASSWORD}",
        **more,
    }


def failure(**fields: Any) -> Error:
    with pytest.raises(Error) as caught:
        kafka(**fields).check_connection()
    return caught.value


def test_it_says_what_a_source_has(broker: Cluster, topic: str) -> None:
    sent(broker, topic, "one", "two", "three")

    found = kafka(**by_login(broker, subscribe=topic)).check_connection()

    assert found == f"{topic}: 2 partitions, 3 records"


def test_it_says_where_a_sink_would_write(broker: Cluster, topic: str) -> None:
    found = kafka(broker.servers(), topic=topic).check_connection()

    assert found == f"{topic}: 2 partitions, with permission to write"
    assert kafka(broker.servers()).check_connection().endswith("topics; each row names its topic")


def test_when_the_newest_record_of_a_topic_was_written(broker: Cluster, topic: str) -> None:
    with broker_client.BrokerClient(kafka(broker.servers(), topic=topic)) as asked:
        assert asked.newest(topic) is None
        at = int(time.time() * 1000)  # not long ago: the broker keeps a record for a week
        sent(broker, topic, *({"value": "x", "partition": n, "timestamp": at + n} for n in (0, 1)))
        assert asked.newest(topic) == (at + 1) / 1000
        assert asked.newest("no-such-topic") is None


def test_a_broker_that_starts_again_is_asked_until_it_leads(broker: Cluster) -> None:
    """It listens, and knows its topics, before it has opened all their partitions."""
    many = made(broker, 100)
    sent(broker, many, *({"value": "x", "partition": n} for n in range(100)))
    broker.stop()

    with ThreadPoolExecutor(1) as beside:
        begun = beside.submit(broker.start)
        while not begun.done() and not cluster.listens(broker.ports["plain"]):
            time.sleep(0.01)
        with broker_client.BrokerClient(kafka(broker.servers(), subscribe=many), 90) as asked:
            ends = asked.ends({many: range(100)})
            newest = asked.newest(many)
        begun.result()

    assert {one.records for one in ends.values()} == {1}
    assert newest is not None


def test_who_follows_a_topic_may_ask_beside_it(broker: Cluster, topic: str) -> None:
    """Reading waits at the broker for the next record, half a second each time; no question may
    wait there behind it, since the next record would be taken only after the answer."""
    with TopicFollower(kafka(broker.servers(), topic=topic)) as following:
        following.follow(topic, {0: 0, 1: 0})
        assert following.next(0.5) == []
        begin = time.monotonic()
        for _ in range(20):
            following.ends({topic: following.partitions(topic)})
        took_s = time.monotonic() - begin

    assert took_s < 15.0  # 20 s at least, if each of them waits once


def test_a_pattern_finds_its_topics(broker: Cluster) -> None:
    one, other = made(broker, 1, "found-one"), made(broker, 1, "found-two")

    assert kafka(broker.servers(), pattern="found-.*").check_connection() == (
        f"{one}, {other}: 2 partitions, 0 records"
    )


def test_event_hubs_by_its_connection_string(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = made(broker, 1, f"{HUB}-asked")
    string = CONNECTION.format(port=broker.ports["login"], hub=HUB)
    monkeypatch.setenv("EVENT_HUBS", string)

    found = event_hubs("${env:EVENT_HUBS}", hub=hub, ca=broker.pem("ca")).check_connection()

    assert found == f"{hub}: 1 partition, 0 records"


@pytest.mark.usefixtures("quick")
def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        told = failure(servers=f"127.0.0.1:{free.getsockname()[1]}", subscribe="t")

    assert told.code == "kafka-unreachable"
    assert told.exit_code == 3


def test_a_partition_that_nobody_leads_is_no_silent_broker() -> None:
    code = KafkaError.NOT_LEADER_FOR_PARTITION

    told = client_errors.explain_error("k:9092", code, "Not leader", kafka("k:9092", subscribe="t"))

    assert str(told).startswith("A partition on k:9092 has no leader.\n")
    assert (told.code, told.exit_code) == ("kafka-unreachable", 3)


def test_a_missing_permission_on_the_group_is_not_blamed_on_the_topic() -> None:
    code = KafkaError.GROUP_AUTHORIZATION_FAILED

    error = client_errors.explain_error("k:9092", code, "Denied", kafka("k:9092", subscribe="t"))

    assert error.code == "kafka-acl"
    assert error.fix == "Grant READ and DESCRIBE on the consumer group."


@pytest.mark.usefixtures("quick")
def test_an_authority_that_did_not_sign(broker: Cluster) -> None:
    told = failure(**by_login(broker, ca=broker.pem("stranger"), subscribe="t"))

    assert (told.code, told.exit_code) == ("kafka-tls", 2)
    assert "Set ca to the PEM file of the authority" in str(told.fix)


@pytest.mark.usefixtures("quick")
def test_a_listener_that_wants_a_certificate(broker: Cluster) -> None:
    told = failure(servers=broker.servers("mutual"), ca=broker.pem("ca"), subscribe="t")

    assert told.code == "kafka-tls"
    assert "certificate and key" in str(told.fix)


def test_our_own_client_comes_in_by_a_certificate_and_by_scram(broker: Cluster, topic: str) -> None:
    mutual = kafka(
        broker.servers("mutual"), subscribe=topic, ca=broker.pem("ca"),
        certificate=broker.pem("client"), key=broker.pem("client-key"),
    )  # fmt: skip
    scram = kafka(**by_login(broker, subscribe=topic, mechanism="SCRAM-SHA-512"))

    assert (
        mutual.check_connection() == scram.check_connection() == f"{topic}: 2 partitions, 0 records"
    )


@pytest.mark.usefixtures("quick")
def test_a_certificate_of_a_stranger(broker: Cluster) -> None:
    told = failure(
        servers=broker.servers("mutual"), ca=broker.pem("ca"), subscribe="t",
        certificate=broker.pem("stranger"), key=broker.pem("stranger-key"),
    )  # fmt: skip

    assert told.code == "kafka-tls"
    assert "that the broker trusts" in str(told.fix)


@pytest.mark.usefixtures("quick")
def test_a_name_that_the_certificate_has_not(broker: Cluster) -> None:
    elsewhere = f"127.1:{broker.ports['tls']}"  # the same address, written otherwise

    told = failure(servers=elsewhere, ca=broker.pem("ca"), subscribe="t")

    assert told.code == "kafka-tls"
    assert "host name from that certificate in servers" in str(told.fix)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("listener", "login"), [("tls", {}), ("plain", {"ca": "ca"})])
def test_plain_against_tls_and_tls_against_plain(
    broker: Cluster, listener: str, login: dict[str, str]
) -> None:
    login = {name: broker.pem(file) for name, file in login.items()}

    told = failure(servers=broker.servers(listener), subscribe="t", **login)

    assert told.code in ("kafka-tls", "kafka-unreachable")
    assert "TLS" in str(told.fix)


@pytest.mark.usefixtures("quick")
def test_a_connection_string_with_another_key(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    string = CONNECTION.format(port=broker.ports["login"], hub=HUB)
    monkeypatch.setenv("EVENT_HUBS", string.replace("a1b2=", "else="))

    with pytest.raises(Error) as caught:
        event_hubs("${env:EVENT_HUBS}", ca=broker.pem("ca")).check_connection()

    assert caught.value.code == "kafka-refused"
    assert "else=" not in str(caught.value)


def test_a_certificate_that_is_not_there(broker: Cluster) -> None:
    told = failure(**by_login(broker, ca="/no/such/ca.pem", subscribe="t"))

    assert told.code == "kafka-login"
    assert "/no/such/ca.pem" in told.what


@pytest.mark.usefixtures("quick")
def test_a_wrong_password(broker: Cluster) -> None:
    told = failure(**by_login(broker, password="${env:WRONG}", subscribe="t"))  # noqa: S106

    assert told.code == "kafka-refused"
    assert "'ann'" in told.what
    assert "not that" not in str(told)


@pytest.mark.usefixtures("quick")
def test_a_mechanism_that_the_listener_has_not(broker: Cluster) -> None:
    told = failure(**by_login(broker, mechanism="SCRAM-SHA-256", subscribe="t"))

    assert told.code == "kafka-refused"


def test_a_topic_that_is_not_there_and_the_near_miss(broker: Cluster) -> None:
    made(broker, 1, "rawLogs")

    told = failure(servers=broker.servers(), subscribe="rawlogs")

    assert told.code == "kafka-no-topic"
    assert told.fix == "Did you mean 'rawLogs'?"


def test_a_login_that_may_not_read_or_write(broker: Cluster, topic: str) -> None:
    sent(broker, topic, "one")
    allow(broker, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)

    reading = failure(**by_login(broker, subscribe=topic))
    writing = failure(**by_login(broker, topic=topic))

    assert {reading.code, writing.code} == {"kafka-acl"}
    assert "READ and DESCRIBE" in str(reading.fix)
    assert f"{topic}: DESCRIBE. Missing: WRITE." in str(writing.why)


def test_a_login_that_may_not_read_is_told_also_where_there_is_nothing_to_read(
    broker: Cluster, topic: str
) -> None:
    allow(broker, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)

    told = failure(**by_login(broker, subscribe=topic))

    assert told.code == "kafka-acl"
    assert f"{topic}: DESCRIBE. Missing: READ." in str(told.why)
    other = made(broker)
    sent(broker, other, "one")
    sent(broker, topic, "one")
    of_two = failure(**by_login(broker, subscribe=[other, topic]))
    assert f"{topic}: DESCRIBE. Missing: READ." in str(of_two.why)


def test_a_hub_that_may_only_be_read_is_no_sink(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = made(broker, 1, f"{HUB}-read-only")
    allow(broker, ResourceType.TOPIC, hub, AclOperation.READ, EVENT_HUBS_USER)
    string = CONNECTION.format(port=broker.ports["login"], hub=HUB)
    monkeypatch.setenv("EVENT_HUBS", string)
    asked = event_hubs("${env:EVENT_HUBS}", hub=hub, ca=broker.pem("ca"))

    assert asked.check_connection() == f"{hub}: 1 partition, 0 records"
    with pytest.raises(Error) as caught:
        asked.check_connection(as_sink=True)
    assert caught.value.code == "kafka-acl"
    assert "Missing: WRITE." in str(caught.value.why)


def test_the_topic_of_alerts_has_to_be_written_and_read(
    broker: Cluster, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "headrace.toml").write_text(
        f'[alerts]\nservers = "{broker.servers("login")}"\ntopic = "{topic}"\n'
        f'user = "{USER}"\npassword = "${{env:KAFKA_PASSWORD}}"\nca = "{broker.pem("ca")}"\n'
    )
    settings = open_workspace(tmp_path, "dev").settings
    allow(broker, ResourceType.TOPIC, topic, AclOperation.WRITE)

    with pytest.raises(Error) as caught:
        check.check_connections(settings, [])
    allow(broker, ResourceType.TOPIC, topic, AclOperation.READ)
    (said,) = check.check_connections(settings, [])

    assert caught.value.code == "kafka-acl"
    assert "Missing: READ." in str(caught.value.why)
    assert said["found"] == f"{topic}: 2 partitions, with permission to read and write"
