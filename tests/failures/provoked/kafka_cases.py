"""Failures of Kafka, on a real broker."""

from __future__ import annotations

import json
import socket
import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from brokers.cluster import PASSWORD, USER, Cluster
from brokers.conftest import allow, made, sent
from headrace.model.runs import Exit
from provoked.case import provoked
from provoked.pipeline_stage import Stage

BROKER = ("spark", "broker")
SHORT = {
    "kafka.default.api.timeout.ms": "4000",
    "kafka.request.timeout.ms": "3000",
    "kafka.max.block.ms": "4000",
    "kafka.delivery.timeout.ms": "5000",
}
READ = """
@hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
def out(raw):
    return raw.selectExpr("CAST(value AS STRING) AS value")
"""
WRITE = """
@hr.stream(to="records", trigger=hr.available_now())
def out(lines):
    return {rows}
"""


def broker_of(stage: Stage) -> Cluster:
    broker: Cluster = stage.broker
    return broker


def read(stage: Stage, *, starting: str = '"earliest"', **fields: str) -> Exit:
    return stage.run_with("sources.raw", READ, {"starting": starting, **_quoted(fields)}, SHORT)


def write(stage: Stage, rows: str, options: dict[str, str] | None = None, **fields: str) -> Exit:
    stage.give("a")
    return stage.run_with(
        "sinks.records", WRITE.format(rows=rows), _quoted(fields), {**SHORT, **(options or {})}
    )


def _quoted(fields: dict[str, str]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in fields.items()}


@provoked("kafka-unreachable", "retry", "`servers`", needs=BROKER)
def broker_down(stage: Stage) -> Exit:
    """Nobody listens on the broker's port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return read(stage, servers=f"127.0.0.1:{port}", subscribe="orders")


@provoked("kafka-unreachable", "retry", needs=BROKER)
def broker_name_unknown(stage: Stage) -> Exit:
    """The broker's host name does not exist."""
    return read(stage, servers="no-such-broker.invalid:9092", subscribe="orders")


@provoked("topic-missing", "retry-then-human", "Create the topic", needs=BROKER)
def topic_missing(stage: Stage) -> Exit:
    """The topic of a source does not exist."""
    return read(stage, servers=broker_of(stage).servers(), subscribe="no-such-topic")


def _login(stage: Stage, **more: str) -> dict[str, str]:
    broker = broker_of(stage)
    given = {"servers": broker.servers("login"), "ca": broker.pem("ca"), "user": USER}
    return {**given, "password": "${file:" + str(stage.folder / "password") + "}", **more}


@provoked("kafka-login-failed", "human", needs=BROKER)
def password_wrong(stage: Stage) -> Exit:
    """The password for Kafka is wrong."""
    (stage.folder / "password").write_text("not-the-password")
    return read(stage, **_login(stage, subscribe="orders"))


@provoked("kafka-login-failed", "human", needs=BROKER)
def certificate_of_a_stranger(stage: Stage) -> Exit:
    """The broker's certificate was issued by an authority that is not trusted."""
    broker = broker_of(stage)
    ca = broker.pem("stranger")
    return read(stage, servers=broker.servers("tls"), ca=ca, subscribe="orders")


@provoked("kafka-not-allowed", "human", needs=BROKER)
def reading_not_allowed(stage: Stage) -> Exit:
    """An access rule gives the topic to a different user."""
    broker = broker_of(stage)
    topic = made(broker)
    allow(broker, ResourceType.TOPIC, topic, AclOperation.READ, user="somebody")
    (stage.folder / "password").write_text(PASSWORD)
    return read(stage, **_login(stage, subscribe=topic))


@provoked("kafka-row-too-large", "data", "2000", needs=BROKER)
def row_too_large(stage: Stage) -> Exit:
    """An output row has 2 MB."""
    topic, rows = (
        made(broker_of(stage)),
        'lines.select(F.repeat("value", 2_000_000).alias("value"))',
    )
    return write(stage, rows, servers=broker_of(stage).servers(), topic=topic)


@provoked("kafka-row-refused", "data", "topic IS NOT NULL", needs=BROKER)
def row_without_topic(stage: Stage) -> Exit:
    """The topic of an output row is null."""
    rows = 'lines.select("value", F.lit(None).cast("string").alias("topic"))'
    return write(stage, rows, servers=broker_of(stage).servers())


@provoked("kafka-transaction-refused", "human", needs=BROKER)
def transaction_timeout_too_long(stage: Stage) -> Exit:
    """A sink with transactions wants a longer timeout than the broker allows."""
    broker, options = broker_of(stage), {"kafka.transaction.timeout.ms": "7200000"}
    toml = {"exactly_once": "true"}
    stage.give("a")
    fields = _quoted({"servers": broker.servers(), "topic": made(broker)}) | toml
    return stage.run_with("sinks.records", WRITE.format(rows="lines"), fields, {**options})


@provoked("kafka-data-lost", "human", needs=BROKER)
def records_deleted(stage: Stage) -> Exit:
    """Records are deleted before they are read, as after their retention time."""
    broker = broker_of(stage)
    topic = made(broker)
    sent(broker, topic, "1", "2")
    assert read(stage, servers=broker.servers(), subscribe=topic).ending == "finished"
    sent(broker, topic, "3", "4", "5")
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    (done,) = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    done.result(90)
    return read(stage, servers=broker.servers(), subscribe=topic)


@provoked("topic-went-back", "retry-then-human", needs=BROKER)
def topic_recreated(stage: Stage) -> Exit:
    """A topic is deleted and created again with fewer records."""
    broker = broker_of(stage)
    topic = made(broker)
    sent(broker, topic, "1", "2", "3")
    assert read(stage, servers=broker.servers(), subscribe=topic).ending == "finished"
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    admin.delete_topics([topic])[topic].result(90)
    deadline = time.monotonic() + 90
    while topic in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline, f"{topic} is still there"
    made(broker, 1, topic)
    sent(broker, topic, "4")
    return read(stage, servers=broker.servers(), subscribe=topic)


@provoked("starting-offsets-incomplete", "human", needs=BROKER)
def starting_offsets_incomplete(stage: Stage) -> Exit:
    """The starting offsets list one of two partitions."""
    broker = broker_of(stage)
    topic = made(broker, 2)
    starting = f'{{ "{topic}" = {{ 0 = 0 }} }}'
    return read(stage, starting=starting, servers=broker.servers(), subscribe=topic)
