"""When the records of a stretch of a topic were written, asked of a real broker."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from brokers.cluster import Cluster
from brokers.conftest import sent
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.record_lookup import RecordLookup
from headrace.driver.record_ages import REST, WITHIN_S, RecordAges
from headrace.errors import ConnectorError
from headrace.model.progress import from_spark

BEGAN = (round(time.time()) - 3600) * 1000  # what is older than a week, a broker deletes


def at(second: int) -> dict[str, Any]:
    return {"value": f"at {second}", "partition": 0, "timestamp": BEGAN + second * 1000}


def between(broker: Cluster, topic: str, first: int, after: int) -> tuple[float, float] | None:
    with RecordLookup(kafka(broker.servers(), subscribe=topic), 10) as times:
        found = times.between(topic, 0, first, after, 10)
    return None if found is None else (found[0] - BEGAN / 1000, found[1] - BEGAN / 1000)


@pytest.mark.e2e
def test_the_first_and_the_last_record_of_a_stretch(broker: Cluster, topic: str) -> None:
    sent(broker, topic, *map(at, range(100)))

    assert between(broker, topic, 0, 100) == (0, 99)
    assert between(broker, topic, 20, 60) == (20, 59)
    assert between(broker, topic, 7, 8) == (7, 7)


@pytest.mark.e2e
def test_a_few_records_of_a_batch_are_read_from_within_it(broker: Cluster, topic: str) -> None:
    """Of a partition of the batch that has more than enough of them."""
    sent(broker, topic, *map(at, range(100)))
    source = kafka(broker.servers(), subscribe=topic)
    batch = {"startOffset": {topic: {"0": 20}}, "endOffset": {topic: {"0": 60}}}

    few = RecordAges().values(source, from_spark({"sources": [batch]}), None, most=10)
    all_ = RecordAges().values(source, from_spark({"sources": [batch]}), None, most=100)

    first = int(str(few[0]).removeprefix("b'at ").rstrip("'"))
    assert few == [f"at {n}".encode() for n in range(first, first + 10)]
    assert all_ == [f"at {n}".encode() for n in range(20, 60)]


@pytest.mark.e2e
def test_markers_of_transactions_are_passed_over(broker: Cluster, topic: str) -> None:
    """Of two transactions; the last place of each is its marker."""
    producer = Producer(
        {"bootstrap.servers": broker.servers(), "transactional.id": str(uuid.uuid4())}
    )
    producer.init_transactions(60)
    for seconds in (range(3), range(3, 6)):
        producer.begin_transaction()
        for second in seconds:
            producer.produce(topic, **at(second))
        producer.commit_transaction(60)

    assert between(broker, topic, 0, 4) == (0, 2)
    assert between(broker, topic, 3, 8) == (3, 5)
    with RecordLookup(kafka(broker.servers(), subscribe=topic), 10) as times:
        assert times.between(topic, 0, 3, 4, 1) is None  # nothing but a marker


@pytest.mark.e2e
def test_records_that_are_gone_have_no_time(broker: Cluster, topic: str) -> None:
    sent(broker, topic, *map(at, range(10)))
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    for done in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        done.result(30)

    with pytest.raises(ConnectorError, match="deleted records"):
        between(broker, topic, 0, 10)


def test_a_broker_that_is_away_costs_an_age_and_little_time() -> None:
    written = RecordAges()
    written.note("q", [kafka("127.0.0.1:9", subscribe="raw")])
    told = {"sources": [{"startOffset": {"raw": {"0": 0}}, "endOffset": {"raw": {"0": 9}}}]}
    begun = time.monotonic()

    assert written.fetch_times("q", from_spark(told), None).get(0, []) == []
    took_s = time.monotonic() - begun
    assert took_s < 5 * WITHIN_S
    assert written.fetch_times("q", from_spark(told), None) == {}  # not asked again for some time
    assert time.monotonic() - begun < took_s * REST
