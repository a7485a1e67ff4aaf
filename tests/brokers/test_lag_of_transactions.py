"""Lag of topics that are written in transactions: what is open, what was aborted, and the markers
at their ends. The relay's own functions on a real broker."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from brokers.cluster import Cluster
from brokers.conftest import made, sent
from brokers.deployed import committed, workspace
from e2e import rig
from headrace.model.lag import QueryLag
from headrace.project import gaps
from headrace.relay.lag import LagMonitor

pytestmark = pytest.mark.e2e


@contextlib.contextmanager
def transaction(broker: Cluster, topic: str, *values: str) -> Iterator[Any]:
    """Open, and its records have arrived; aborted if nobody has ended it."""
    own = {"bootstrap.servers": broker.servers(), "transactional.id": uuid.uuid4().hex}
    producer = Producer(own)
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    try:
        yield producer
    finally:
        producer.abort_transaction(60)


@pytest.mark.parametrize(
    ("options", "stands_at", "records"),
    [({}, 5, 0), ({}, 3, 2), ({"kafka.isolation.level": "read_committed"}, 2, 0)],
)
def test_while_a_transaction_is_open_lag_ends_where_the_source_may_read_to(
    broker: Cluster, tmp_path: Path, options: dict[str, str], stands_at: int, records: int
) -> None:
    topic = made(broker)
    sent(broker, topic, "0", "1")
    source = {"servers": broker.servers(), "subscribe": topic, "options": options}
    work = workspace(tmp_path, source)
    committed(tmp_path, 0, {topic: {"0": stands_at}})
    looking = LagMonitor()

    with transaction(broker, topic, "2", "3", "4"):
        (found,) = looking.measure(work)
        gone = gaps.find(work, "flow")
    looking.close()

    assert (found.problem, found.records, gone) == (None, records, [])


def test_two_sources_of_one_cluster_have_each_its_own_end(broker: Cluster, tmp_path: Path) -> None:
    """One connection for both would give the second the end of the first."""
    plain, strict = made(broker), made(broker)
    sources = [
        {"servers": broker.servers(), "subscribe": plain},
        {"servers": broker.servers(), "subscribe": strict,
         "options": {"kafka.isolation.level": "read_committed"}},
    ]  # fmt: skip
    work = workspace(tmp_path, *sources)
    committed(tmp_path, 0, {plain: {"0": 0}}, {strict: {"0": 0}})
    looking = LagMonitor()

    with transaction(broker, plain, "0", "1"), transaction(broker, strict, "0", "1"):
        (found,) = looking.measure(work)
    looking.close()

    assert behind(found) == {plain: 2, strict: 0}


def test_of_a_partition_with_only_a_marker_ahead_the_records_are_counted_and_no_age_told(
    broker: Cluster, tmp_path: Path
) -> None:
    topic = made(broker)
    with transaction(broker, topic, "0", "1"):
        pass  # it is aborted: two records that nobody may read, and a marker
    strict = {"kafka.isolation.level": "read_committed"}
    source = {"servers": broker.servers(), "subscribe": topic, "options": strict}
    work = workspace(tmp_path, source)
    committed(tmp_path, 0, {topic: {"0": 0}})
    looking = LagMonitor()

    def seen(records: int) -> QueryLag | None:
        (found,) = looking.measure(work)
        return found if found.records == records else None

    found = rig.eventually("its end is known", lambda: seen(3), 30)
    sent(broker, topic, "2")
    # A busy broker may miss the two seconds, and is then asked again after a minute.
    rig.eventually("and how old", lambda: (one := seen(4)) and one.seconds is not None, 90)
    looking.close()

    assert (found.problem, found.seconds) == (None, None)


def behind(found: QueryLag) -> dict[str, int]:
    assert found.problem is None
    return {one.topic: one.records for one in found.partitions}
