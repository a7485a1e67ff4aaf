"""`headrace demo --kafka` whole: a broker of its own, the JVM killed once, counted and measured."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from brokers.cluster import Cluster
from brokers.conftest import made
from e2e import demos, rig
from headrace import process_identity
from headrace.cli.main import main
from headrace.demo import folder as prepared
from headrace.demo import kafka_transport
from headrace.errors import ConfigError
from headrace.model.runs import Process

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

MEASURED = {"history", "logins", "heartbeats", "overloaded", "silent"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo-on-kafka") / "shop"


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    with demos.demo(
        folder, "--kafka", "--for", "20s", "--rate", "100", "--json", HEADRACE_WEB="off"
    ) as run:
        rig.eventually("rows flow in real time", lambda: is_flowing(run.project), 200)
        demos.kill_jvm(run.project)
        return demos.told(run.ended(600))


def is_flowing(project: rig.Project) -> bool:
    if not (project.state / "alerttopics.json").exists():
        return False
    states = {one["name"]: one["state"] for one in project.status("metrics").get("queries", [])}
    return states.get("heartbeats") == "running"


def test_nothing_is_lost_and_only_the_topic_may_have_a_row_twice(told: dict[str, Any]) -> None:
    assert (told["lost"], told["doubled"]) == (0, 0), told
    assert told["quarantined"] == told["malformed"] > 0
    assert told["restarts"] >= 1
    assert told["alerts"]["overloaded"] >= 1
    assert told["alerts"]["silent"] >= 1


def test_every_result_says_how_long_it_took(told: dict[str, Any]) -> None:
    assert told["latency_ms"].keys() >= MEASURED
    for name in MEASURED:
        one = told["latency_ms"][name]
        assert 0 <= one["p50"] <= one["p99"], (name, one)


def test_broker_and_pipeline_are_gone_with_the_demo(told: dict[str, Any], folder: Path) -> None:
    broker = json.loads((folder / ".headrace" / "kafka" / "process.json").read_text())

    assert rig.Project(folder).living() == []
    assert not process_identity.is_alive(Process.from_json(broker))


def test_a_topic_of_several_partitions_is_refused_since_it_would_not_be_counted(
    broker: Cluster,
) -> None:
    wide = made(broker, partitions=2)
    wanted = kafka_transport.DemoTopics(broker.servers(), wide, f"{wide}-beats", f"{wide}-alerts")

    with pytest.raises(ConfigError, match=f"{wide} has 2 partitions") as told:
        kafka_transport.create(wanted)

    assert "profiles.kafka" in str(told.value.fix)


def test_another_program_on_its_port_is_not_taken_for_its_broker(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        prepared.prepare(tmp_path, "kafka", port)

        done = CliRunner().invoke(main, ["demo", "--kafka", "--dir", str(tmp_path)])

    assert done.exit_code == 3
    assert f"Port {port} is in use by another program" in done.stderr
