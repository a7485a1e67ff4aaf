"""Every option of the Kafka connector on a real broker, by Spark's own client."""

from __future__ import annotations

import itertools
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import headrace as hr
from brokers.cluster import CONNECTION, PASSWORD, USER, Cluster
from brokers.conftest import HUB, made, received, sent
from headrace.connectors.kafka.connector import Kafka, kafka
from headrace.connectors.kafka.event_hubs import event_hubs
from headrace.driver import exit_report, freshness
from headrace.driver.record_ages import RecordAges
from headrace.driver.running_queries import RunningQuery
from headrace.errors import ConnectorError
from headrace.model.progress import from_spark
from headrace.model.runs import Exit

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def values(frame: Any) -> list[str]:
    return sorted(row["value"] for row in frame.selectExpr("CAST(value AS STRING) value").collect())


def batch(spark: Any, source: Kafka) -> list[str]:
    return values(source.read(spark, streaming=False))


def streamed(spark: Any, source: Any, folder: Path, name: str = "seen") -> list[Any]:
    """All that a stream gives, available now, in a table of memory."""
    query = (
        source.read(spark)
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    return list(spark.table(name).collect())


def test_topics_by_name_by_pattern_and_by_partition(
    spark: Any, broker: Cluster, tmp_path: Path
) -> None:
    one, other = made(broker, 2, "logs-one"), made(broker, 2, "logs-two")
    for partition in (0, 1):
        sent(broker, one, {"value": f"one-{partition}", "partition": partition})
        sent(broker, other, {"value": f"two-{partition}", "partition": partition})
    servers = broker.servers()

    assert batch(spark, kafka(servers, subscribe=one)) == ["one-0", "one-1"]
    both = ["one-0", "one-1", "two-0", "two-1"]
    assert batch(spark, kafka(servers, subscribe=[one, other])) == both
    assert batch(spark, kafka(servers, pattern="logs-.*")) == both
    assert batch(spark, kafka(servers, assign={one: [1]})) == ["one-1"]
    found = streamed(spark, kafka(servers, subscribe=one, starting="earliest"), tmp_path / "c")
    assert {(row["topic"], row["partition"], row["offset"]) for row in found} == {
        (one, 0, 0),
        (one, 1, 0),
    }


def test_every_way_to_begin(spark: Any, broker: Cluster, topic: str, tmp_path: Path) -> None:
    sent(broker, topic, *({"value": f"old-{n}", "partition": 0} for n in range(3)))
    time.sleep(0.05)
    between = datetime.now(UTC).isoformat()
    time.sleep(0.05)
    sent(broker, topic, {"value": "new-0", "partition": 0}, {"value": "new-1", "partition": 1})

    def begun(starting: Any) -> list[str]:
        name = f"begun_{abs(hash(str(starting)))}"
        found = kafka(broker.servers(), subscribe=topic, starting=starting)
        rows = streamed(spark, found, tmp_path / name, name)
        return sorted(bytes(row["value"]).decode() for row in rows)

    assert begun("earliest") == ["new-0", "new-1", "old-0", "old-1", "old-2"]
    assert begun("latest") == []
    assert begun({topic: {0: 2, 1: "latest"}}) == ["new-0", "old-2"]
    assert begun(between) == ["new-0", "new-1"]
    assert begun({topic: {0: between, 1: between}}) == ["new-0", "new-1"]


def test_a_batch_ends_where_it_is_told(spark: Any, broker: Cluster, topic: str) -> None:
    sent(broker, topic, *({"value": f"{n}", "partition": 0} for n in range(5)))
    ends = {topic: {0: 3, 1: "latest"}}

    found = kafka(broker.servers(), subscribe=topic, starting="earliest", ending=ends)

    assert batch(spark, found) == ["0", "1", "2"]


def test_max_rows_bounds_a_batch(spark: Any, broker: Cluster, topic: str, tmp_path: Path) -> None:
    sent(broker, topic, *({"value": f"{n}", "partition": 0} for n in range(10)))
    source = kafka(broker.servers(), subscribe=topic, starting="earliest", max_rows=4)
    query = (
        source.read(spark)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)

    assert [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]] == [4, 4, 2]


@pytest.mark.parametrize(
    ("fields", "tasks"), [({}, 2), ({"min_partitions": 4}, 4), ({"max_partition_rows": 2}, 6)]
)
def test_a_batch_of_a_stream_is_split_into_more_tasks_than_partitions(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path, fields: dict[str, int], tasks: int
) -> None:
    sent(broker, topic, *({"value": f"{n}", "partition": n % 2} for n in range(12)))
    source = kafka(broker.servers(), subscribe=topic, starting="earliest", **fields)
    counted: list[int] = []
    query = (
        source.read(spark)
        .writeStream.foreachBatch(lambda frame, _: counted.append(frame.rdd.getNumPartitions()))
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)

    assert counted == [tasks]


def test_a_batch_read_is_split_by_min_partitions(spark: Any, broker: Cluster, topic: str) -> None:
    sent(broker, topic, *({"value": f"{n}", "partition": n % 2} for n in range(12)))
    source = kafka(broker.servers(), subscribe=topic, min_partitions=4)

    assert source.read(spark, streaming=False).rdd.getNumPartitions() == 4


def test_a_task_waits_for_records_as_long_as_it_is_told(
    spark: Any, broker: Cluster, topic: str
) -> None:
    sent(broker, topic, "there")
    impatient = kafka(broker.servers(), subscribe=topic, poll_timeout=0)

    with pytest.raises(Exception, match="Cannot fetch record for offset 0 in 0 milliseconds"):
        batch(spark, impatient)


def test_a_stream_reads_with_every_option_at_once(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    sent(broker, topic, *({"value": f"{n}", "partition": n % 2} for n in range(6)))
    source = kafka(
        broker.servers(), subscribe=topic, starting="earliest", max_rows=4, min_rows=1,
        max_delay="1 second", min_partitions=4, max_partition_rows=1, group_prefix="team",
        poll_timeout="1 minute", offset_retries=2, offset_retry_delay="10 ms", headers=True,
        options={"kafka.client.id": "reads-with-everything", "failOnDataLoss": "true"},
    )  # fmt: skip

    found = streamed(spark, source, tmp_path / "c", "with_everything")

    assert sorted(bytes(row["value"]) for row in found) == [b"%d" % n for n in range(6)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("update", [("a", 1), ("b", 1), ("a", 2)]),
        ("complete", [("a", 1), ("b", 1), ("a", 2), ("b", 1)]),
    ],
)
def test_counts_are_written_in_update_and_complete_mode(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path, mode: str, expected: list[Any]
) -> None:
    counts = made(broker)
    source = kafka(broker.servers(), subscribe=topic, starting="earliest")
    sink = kafka(broker.servers(), topic=counts)

    def run() -> None:
        rows = source.read(spark).groupBy(F.col("value").cast("string").alias("key")).count()
        rows = rows.select("key", F.col("count").cast("string").alias("value"))
        writer = sink.attach(
            rows.writeStream, query=f"in_{mode}", mode=mode, checkpoint=str(tmp_path / "c")
        )
        assert writer.trigger(availableNow=True).start().awaitTermination(180)

    sent(broker, topic, "a", "b")
    run()
    sent(broker, topic, "a")
    run()

    found = [(m.key().decode(), int(m.value())) for m in received(broker, counts, len(expected))]
    assert sorted(found[:2]) == sorted(expected[:2])
    assert sorted(found[2:]) == sorted(expected[2:])


def test_a_socket_feeds_a_topic_in_update_mode_and_again_after_a_restart(
    spark: Any, broker: Cluster
) -> None:
    counts = made(broker)
    sink = kafka(broker.servers(), topic=counts)
    server = create_server(("127.0.0.1", 0))
    server.settimeout(90)

    def run(word: str) -> None:
        rows = hr.socket("127.0.0.1", server.getsockname()[1]).read(spark)
        rows = rows.groupBy(F.col("value").alias("key")).count()
        rows = rows.select("key", F.col("count").cast("string").alias("value"))
        writer = sink.attach(rows.writeStream, query="words", mode="update", checkpoint=None)
        query = writer.start()
        try:
            connection, _ = server.accept()
            with connection:
                connection.sendall(f"{word}\n".encode())
                received(broker, counts, 1 if word == "a" else 2)
        finally:
            query.stop()

    with server:
        run("a")
        run("b")

    found = [(m.key().decode(), int(m.value())) for m in received(broker, counts, 2)]
    assert sorted(found) == [("a", 1), ("b", 1)]


def test_min_rows_waits_for_more_or_for_max_delay(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    sent(broker, topic, "first")
    source = kafka(
        broker.servers(), subscribe=topic, starting="earliest", min_rows=3, max_delay="6 seconds"
    )
    query = (
        source.read(spark)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    try:
        _until_rows(query, 1)  # the first batch takes what there is
        sent(broker, topic, "second")
        _until_rows(query, 2)
        first, second = _begun(query)
        assert second - first > 3, "one row alone has to wait for max_delay"
        waited = time.time()
        sent(broker, topic, "a", "b", "c")
        _until_rows(query, 5)
        assert _begun(query)[2] - waited < 5, "three rows are enough at once"
    finally:
        query.stop()


def _begun(query: Any) -> list[float]:
    """When each batch with rows began, by Spark: how long it took does not matter."""
    told = [p["timestamp"] for p in query.recentProgress if p["numInputRows"]]
    return [datetime.fromisoformat(at).timestamp() for at in told]


def _until_rows(query: Any, count: int, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while sum(p["numInputRows"] for p in query.recentProgress) < count:
        assert time.monotonic() < deadline, query.recentProgress
        time.sleep(0.05)


def test_headers_keys_and_tombstones_travel_both_ways(
    spark: Any, broker: Cluster, topic: str
) -> None:
    sink = kafka(broker.servers(), topic=topic, headers=True)
    rows = spark.sql(
        "SELECT 'k' AS key, 'v' AS value, array(struct('h' AS key, CAST('x' AS BINARY) AS value))"
        " AS headers UNION ALL SELECT 'gone', NULL, NULL"
    )
    sink.write(rows)

    found = {m.key(): m for m in received(broker, topic, 2)}
    assert found[b"k"].headers() == [("h", b"x")]
    assert found[b"gone"].value() is None
    back = kafka(broker.servers(), subscribe=topic, headers=True).read(spark, streaming=False)
    keyed = {bytes(row["key"]): row for row in back.collect()}
    assert keyed[b"k"]["headers"][0]["key"] == "h"
    assert keyed[b"gone"]["value"] is None


def test_rows_choose_their_topic(spark: Any, broker: Cluster) -> None:
    one, other = made(broker), made(broker)
    rows = spark.createDataFrame([(one, "1"), (other, "2")], "topic string, value string")

    kafka(broker.servers()).write(rows)

    assert [m.value() for m in received(broker, one, 1)] == [b"1"]
    assert [m.value() for m in received(broker, other, 1)] == [b"2"]


BY_REFERENCE = "${env:KAFKA_PASSWORD}"
LOGINS: dict[str, dict[str, Any]] = {
    "tls": {"ca": "ca"},
    "mutual": {"ca": "ca", "certificate": "client", "key": "client-key"},
    "login": {"ca": "ca", "user": USER, "password": BY_REFERENCE},
    "login by scram": {
        "ca": "ca", "user": USER, "password": BY_REFERENCE, "mechanism": "SCRAM-SHA-512",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", LOGINS)
def test_every_way_to_log_in_reads_and_writes(
    spark: Any, broker: Cluster, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    paths = ("ca", "certificate", "key")
    login = {k: broker.pem(v) if k in paths else v for k, v in LOGINS[name].items()}
    servers = broker.servers(name.split()[0])

    kafka(servers, topic=topic, **login).write(spark.sql("SELECT 'hello' AS value"))

    assert batch(spark, kafka(servers, subscribe=topic, **login)) == ["hello"]


def test_event_hubs_by_its_connection_string(
    spark: Any, broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(broker, 2, HUB)
    string = CONNECTION.format(port=broker.ports["login"], hub=HUB)
    monkeypatch.setenv("EVENT_HUBS", string)
    rows = spark.sql("SELECT 'b' AS body, 'p' AS partitionKey, map('color', 'red') AS properties")

    event_hubs("${env:EVENT_HUBS}", ca=broker.pem("ca")).write(rows)

    source = event_hubs("${env:EVENT_HUBS}", starting="start", ca=broker.pem("ca"))
    (row,) = streamed(spark, source, tmp_path / "c", "events")
    assert (bytes(row["body"]), row["partitionKey"]) == (b"b", "p")
    assert row["properties"] == {"color": "red"}
    assert (row["offset"], row["sequenceNumber"]) == ("0", 0)
    assert row["enqueuedTime"] is not None


def test_an_event_hub_is_written_by_a_stream_and_read_from_a_moment_on(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = made(broker, 2, f"{HUB}-streamed")
    string = CONNECTION.format(port=broker.ports["login"], hub=HUB)
    monkeypatch.setenv("EVENT_HUBS", string)
    own: dict[str, Any] = {"hub": hub, "ca": broker.pem("ca"), "consumer_group": "readers"}
    sink = event_hubs("${env:EVENT_HUBS}", **own)
    old = int(time.time() * 1000) - 3_600_000
    sent(broker, hub, {"value": "old", "partition": 1, "timestamp": old})
    sent(broker, topic, "a", "b")

    rows = kafka(broker.servers(), subscribe=topic, starting="earliest").read(spark)
    rows = rows.selectExpr("value AS body", "'1' AS partition")
    writer = sink.attach(
        sink.prepare_frame(rows).writeStream,
        query="hub",
        mode="append",
        checkpoint=str(tmp_path / "w"),
    )
    assert writer.trigger(availableNow=True).start().awaitTermination(180)

    moment = datetime.fromtimestamp(old / 1000, UTC) + timedelta(minutes=30)
    source = event_hubs("${env:EVENT_HUBS}", starting=moment.isoformat(), **own)
    found = streamed(spark, source, tmp_path / "c", "from_a_moment")
    assert sorted(bytes(row["body"]) for row in found) == [b"a", b"b"]
    assert {row["partition"] for row in found} == {"1"}
    assert {row["offset"] for row in found} == {"1", "2"}


def test_rows_are_written_and_read_by_hand(spark: Any, broker: Cluster, topic: str) -> None:
    sink = hr.kafka(broker.servers(), topic=topic)
    source = hr.kafka(broker.servers(), subscribe=topic)

    hr.write(spark.sql("SELECT 'k' AS key, 'by hand' AS value"), sink)

    assert values(hr.read(spark, source)) == ["by hand"]
    assert hr.read(spark, source, stream=True).isStreaming
    with pytest.raises(ConnectorError, match="needs a value column"):
        hr.write(spark.sql("SELECT 1 AS load"), sink)


def test_a_batch_says_when_its_records_came(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    other = made(broker)
    now_ms = int(time.time() * 1000)
    old = ({"value": "old", "partition": 0, "timestamp": now_ms - 3_600_000} for _ in range(98))
    sent(broker, topic, *old)
    sent(broker, other, {"value": "new", "partition": 0, "timestamp": now_ms - 60_000})
    begun = time.time()
    sources = [
        kafka(broker.servers(), subscribe=name, starting="earliest") for name in (topic, other)
    ]
    frames = [source.read(spark) for source in sources]
    both = frames[0].union(frames[1]).union(frames[0])  # also the same one twice
    query = (
        both.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    (progress,) = [json.loads(p.json) for p in query.recentProgress if p["numInputRows"]]

    written = RecordAges(clock=itertools.count(0.0, 0.01).__next__)
    written.note("q", sources)
    known = written.fetch_times("q", from_spark(progress), tmp_path / "c")
    age = freshness.sample(from_spark(progress), None, known)

    assert age is not None
    assert (age["basis"], age["n"]) == ("arrival", 197)
    took_s = time.time() - begun + 10
    assert 60 <= age["newest_ms"] / 1000 <= 60 + took_s
    assert 3_600 <= age["p50_ms"] / 1000 <= age["p99_ms"] / 1000 <= 3_600 + took_s
    assert written.fetch_times("q", from_spark(progress), tmp_path / "c") == {}  # it rests
    assert written.fetch_times("other", from_spark(progress), tmp_path / "c") == {}


def failed(spark: Any, frame: Any, sink: Kafka | None, folder: Path) -> Exit:
    """What is said of a query that fails: the driver's own words."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "c"))
    if sink is not None:
        writer = sink.attach(frame.writeStream, query="q", mode="append", checkpoint=str(folder))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(180)
    return exit_report.from_failed_query(RunningQuery("q", query, str(folder)), None, None, folder)


@pytest.mark.parametrize("starting", [{0: 1}, {0: 1, 1: 0, 7: 0}, {0: "2026-01-31T08:00:00Z"}])
def test_a_beginning_that_names_other_partitions_is_told_in_words(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path, starting: dict[int, Any]
) -> None:
    source = kafka(broker.servers(), subscribe=topic, starting={topic: starting})

    told = failed(spark, source.read(spark), None, tmp_path)

    assert told.failure == "starting-offsets-incomplete"
    assert told.error is not None
    assert f"expected: {topic}-0, {topic}-1." in str(told.error["why"])
    with pytest.raises(ConnectorError) as caught:
        source.check_connection()
    assert caught.value.code == "kafka-offsets"


def test_a_moment_after_which_a_partition_has_nothing_is_its_end(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    moment = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    sent(broker, topic, {"value": "later", "partition": 0})

    found = kafka(broker.servers(), subscribe=topic, starting=moment)

    assert len(streamed(spark, found, tmp_path / "c", "since")) == 1


def test_a_row_too_large_to_be_sent_is_told_with_its_size(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    sent(broker, topic, "one")
    rows = kafka(broker.servers(), subscribe=topic, starting="earliest").read(spark)
    huge = rows.selectExpr("repeat('x', 50000000) AS value")

    told = failed(spark, huge, kafka(broker.servers(), topic=topic), tmp_path)

    assert told.failure == "kafka-row-too-large"
    assert told.error is not None
    assert "50000088 bytes; the limit is 1048576" in str(told.error["what"])
    assert "kafka.max.request.size" in str(told.error["fix"])
