"""Exactly once into a topic, tried by kills: what a reader of committed records gets is the
multiset of what was produced."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.cluster import Cluster
from brokers.conftest import made
from brokers.numbered import Numbers
from brokers.reader import committed, reading
from e2e import rig
from headrace.testing import row_comparison

pytestmark = pytest.mark.e2e

PIPELINE = """
from pyspark.sql import functions as F

import headrace as hr


@hr.stream(to="copies", every="200 milliseconds")
def copied(raw):
    slowly = F.expr("java_method('java.lang.Thread', 'sleep', 4L) IS NOT NULL")
    return raw.where(slowly).select("key", F.col("value").cast("string").alias("value"))
"""
SETTINGS = """
[restart]
delay_s_min = 0.2
[sources.raw]
kind = "kafka"
servers = "{servers}"
subscribe = "{topic}"
starting = "earliest"
max_rows = 400
[sinks.copies]
kind = "kafka"
servers = "{servers}"
topic = "{copies}"
exactly_once = true
[spark]
"spark.master" = "local[2]"
"""


class Flow:
    """A pipeline that copies a topic, slowly, and what may happen to it."""

    def __init__(self, folder: Path, broker: Cluster) -> None:
        self.topic, self.copies = made(broker, 6), made(broker, 2)
        self.broker = broker
        (folder / "flow.py").write_text(PIPELINE)
        (folder / "headrace.toml").write_text(
            SETTINGS.format(servers=broker.servers(), topic=self.topic, copies=self.copies)
        )
        self.project = rig.Project(folder)

    def status(self) -> dict[str, Any]:
        return self.project.status("flow")

    def kill_jvm(self) -> None:
        rig.kill(self.status().get("jvm_pid"))

    def kill_driver(self) -> None:
        found = self.status()
        rig.kill(found.get("pid"), found.get("jvm_pid"))

    def kill_broker(self) -> None:
        self.broker.stop()
        self.broker.start()

    def in_a_transaction(self) -> None:
        """Until a record is there that is not committed yet."""
        with (
            reading(self.broker, self.copies, "read_uncommitted") as all_,
            reading(self.broker, self.copies) as done,
        ):
            deadline = time.monotonic() + 90
            while time.monotonic() < deadline:
                newest = all_.more()
                if newest is not None and newest.offset() >= done.end(newest.partition()):
                    return
            raise AssertionError("no transaction was seen in 90 s")


@pytest.fixture
def flow(tmp_path: Path, broker: Cluster) -> Iterator[Flow]:
    found = Flow(tmp_path, broker)
    yield found
    with contextlib.suppress(AssertionError):
        found.project.headrace("down")


def tried(flow: Flow, faults: list[Callable[[], None]], pause_s: Callable[[], float]) -> None:
    numbers = Numbers(flow.broker, flow.topic, every_s=0.01)
    flow.project.headrace("up")
    for fault in faults:
        flow.in_a_transaction()
        time.sleep(pause_s())  # where in the batch it hits is left to chance
        fault()
    flow.in_a_transaction()
    numbers.stop()
    expected = numbers.taken
    found = committed(flow.broker, flow.copies, len(expected), 120)

    assert len(expected) > 1000
    difference = row_comparison.compare(expected, found)
    assert difference.is_empty, difference
    seeded = row_comparison.compare(expected, [*found, expected[7]])
    assert seeded.doubled.total() == 1, "the comparison sees a record that is there twice"


def test_a_killed_driver_and_broker_lose_and_double_nothing(flow: Flow) -> None:
    tried(flow, [flow.kill_driver, flow.kill_broker], lambda: 0.0)


@pytest.mark.chaos
def test_many_kills_lose_and_double_nothing(flow: Flow) -> None:
    rng = random.Random(6)
    faults = [flow.kill_jvm, flow.kill_driver, flow.kill_jvm, flow.kill_broker] * 3

    tried(flow, faults, lambda: rng.uniform(0, 1))
