"""`headrace kafka up` and `down`: a real broker for development, as a person uses it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from confluent_kafka import Producer

from e2e import rig
from headrace.connectors.kafka.connector import kafka
from headrace.model.state_paths import StatePaths

pytestmark = pytest.mark.e2e


def records(servers: str) -> str:
    return kafka(servers, subscribe="mine").check_connection()


def test_it_keeps_its_topics_until_they_are_deleted(tmp_path: Path) -> None:
    project = rig.Project(tmp_path)
    with socket.socket() as free:  # not one of those that other brokers look for
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    try:
        first = json.loads(project.headrace("kafka", "up", "--port", port, "--json"))
        assert first["servers"].endswith(f":{port}")
        producer = Producer({"bootstrap.servers": first["servers"]})
        producer.produce("mine", "hello")  # the broker makes the topic
        assert producer.flush(60) == 0
        again = json.loads(project.headrace("kafka", "up", "--json"))
        assert again == first, "it runs already"

        assert project.headrace("kafka", "down").strip() == "Kafka has stopped"
        back = json.loads(project.headrace("kafka", "up", "--port", port, "--json"))
        assert back["servers"] == first["servers"]
        assert records(back["servers"]).endswith("1 records")

        said = project.headrace("kafka", "down", "--delete").strip()
        assert said == "Kafka has stopped; its data was deleted"
        assert not StatePaths(project.state).broker.parent.exists()
        assert project.headrace("kafka", "down").strip() == "Kafka was not running"
    finally:
        project.headrace("kafka", "down", code=None)
