from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    TopicMetadata,
)

from brokers.cluster import USER, Cluster, cluster
from headrace.connectors.kafka import broker_client
from headrace.connectors.kafka.connector import kafka

HUB = "hub"
EVENT_HUBS_USER = "$ConnectionString"
_NONE = TopicMetadata()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests of a worker: topics are what keeps them apart."""
    with cluster(tmp_path_factory.mktemp("kafka"), hubs=(HUB,)) as found:
        yield found


@pytest.fixture
def topic(broker: Cluster) -> str:
    return made(broker, partitions=2)


def made(broker: Cluster, partitions: int = 1, name: str = "", **settings: str) -> str:
    """A new topic."""
    name = name or f"t-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    wish = NewTopic(
        name, partitions, 1, config={k.replace("_", "."): v for k, v in settings.items()}
    )
    admin.create_topics([wish])[name].result(90)
    deadline = time.monotonic() + 90
    while len(admin.list_topics(timeout=10).topics.get(name, _NONE).partitions) < partitions:
        assert time.monotonic() < deadline, f"{name} is not known to the broker"
    return name


def allow(
    broker: Cluster, kind: ResourceType, name: str, what: AclOperation, user: str = USER
) -> None:
    """The user may do that, and from then on nothing else there."""
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    rule = (kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", what)
    (done,) = admin.create_acls([AclBinding(*rule, AclPermissionType.ALLOW)]).values()
    done.result(90)
    # The controller has it; the broker that is asked learns of it a moment later.
    same = AclBindingFilter(*rule, AclPermissionType.ALLOW)
    deadline = time.monotonic() + 90
    while not admin.describe_acls(same).result(90):
        assert time.monotonic() < deadline, f"the broker does not know who may do what to {name}"


def sent(
    broker: Cluster, topic: str, *records: Any, settings: dict[str, Any] | None = None
) -> None:
    """Texts, or dictionaries of what a producer takes."""
    own = {"bootstrap.servers": broker.servers(), "linger.ms": 0}
    producer = Producer(own | (settings or {}))
    refused: list[Any] = []
    for one in records:
        fields = one if isinstance(one, dict) else {"value": one}
        producer.produce(topic, on_delivery=lambda e, _: e and refused.append(e), **fields)
    assert (producer.flush(90), refused) == (0, [])


def received(broker: Cluster, topic: str, count: int, timeout_s: float = 90) -> list[Any]:
    """The first so many messages of all partitions, by a client that is not Spark's."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers(),
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        found: list[Any] = []
        for _ in range(int(timeout_s * 10)):
            found += consumer.consume(count - len(found), 0.1)
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} of {count} records of {topic}")
    finally:
        consumer.close()


def everything(broker: Cluster, topic: str) -> list[Any]:
    """All messages that are there now."""
    with broker_client.BrokerClient(kafka(broker.servers(), subscribe=topic)) as asked:
        ends = asked.ends(asked.find_partitions())
    return received(broker, topic, sum(one.records for one in ends.values()))
