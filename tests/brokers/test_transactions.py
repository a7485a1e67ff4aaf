"""The sink of exactly once by itself: batches that come again, that fail half-way, that are empty,
and a predecessor that still lives. On a real broker, by Spark's own frames."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from pyspark.errors import StreamingQueryException

from brokers.cluster import PASSWORD, USER, Cluster
from brokers.conftest import made, received, sent
from brokers.reader import committed
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.transactions import Transactions
from headrace.errors import ConnectorError
from headrace.failures.classifier import Classification, FailureText, classify

pytestmark = [pytest.mark.spark, pytest.mark.e2e]
_QUERY_ID = "sql.streaming.queryId"


@pytest.fixture
def sink(spark: Any, broker: Cluster) -> Any:
    """Makes sinks of one query, as one run after the other has them."""
    spark.sparkContext.setLocalProperty(_QUERY_ID, str(uuid.uuid4()))

    def made_(topic: str | None, **options: str) -> Transactions:
        return Transactions({"bootstrap.servers": broker.servers()}, options, topic)

    yield made_
    spark.sparkContext.setLocalProperty(_QUERY_ID, None)


Sinks = Callable[..., Transactions]


def numbers(spark: Any, *values: int) -> Any:
    return spark.createDataFrame([(str(v),) for v in values], "value string")


def test_a_batch_that_comes_again_is_not_written_again(
    spark: Any, broker: Cluster, topic: str, sink: Sinks
) -> None:
    first = sink(topic)
    first.take(numbers(spark, 0, 1), 0)
    first.take(numbers(spark, 2, 3), 1)

    again = sink(topic)
    again.take(numbers(spark, 2, 3), 1)
    again.take(numbers(spark, 4), 2)

    assert sorted(committed(broker, topic, 5)) == ["0", "1", "2", "3", "4"]


def test_a_run_that_ended_before_spark_knew_repeats_nothing(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    """The narrow place: committed in Kafka, not yet in the checkpoint."""
    target = made(broker, 2)
    sent(broker, topic, *(str(n) for n in range(20)))

    copy(spark, broker, topic, target, tmp_path / "c")
    forget(tmp_path / "c" / "commits", 0)
    copy(spark, broker, topic, target, tmp_path / "c")
    sent(broker, topic, "later")
    copy(spark, broker, topic, target, tmp_path / "c")

    expected = sorted([*(str(n) for n in range(20)), "later"])
    assert sorted(committed(broker, target, 21)) == expected
    back = kafka(broker.servers(), topic=target, exactly_once=True).read(spark)
    seen = back.writeStream.format("memory").queryName("back").trigger(availableNow=True)
    query = seen.option("checkpointLocation", str(tmp_path / "b")).start()
    assert query.awaitTermination(180)
    assert spark.table("back").count() == 21


def test_a_checkpoint_that_was_set_back_by_one_batch_is_refused(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    """The number is the one that Kafka has, and the batch is another: it reads more."""
    target = made(broker, 2)
    sent(broker, topic, "0")
    copy(spark, broker, topic, target, tmp_path / "c")
    sent(broker, topic, "1")
    for log in ("offsets", "commits"):
        forget(tmp_path / "c" / log, 0)

    with pytest.raises(StreamingQueryException, match=r"continues with a different batch \d"):
        copy(spark, broker, topic, target, tmp_path / "c")

    assert committed(broker, target, 1) == ["0"]


def test_a_batch_that_was_written_before_there_were_marks_is_not_written_again(
    spark: Any, broker: Cluster, topic: str, sink: Sinks, tmp_path: Path
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    sink(topic).take(numbers(spark, 0), 0)

    again = sink(topic)
    again.checkpoint = str(tmp_path)
    again.take(numbers(spark, 0), 0)
    again.take(numbers(spark, 1), 1)

    assert sorted(committed(broker, topic, 2)) == ["0", "1"]


def copy(spark: Any, broker: Cluster, source: str, target: str, checkpoint: Path) -> None:
    """One run: all that is there, from one topic into the other."""
    rows = kafka(broker.servers(), subscribe=source, starting="earliest").read(spark)
    writer = rows.select("value").writeStream
    made_ = kafka(broker.servers(), topic=target, exactly_once=True)
    attached = made_.attach(writer, query="q", mode="append", checkpoint=str(checkpoint))
    query = attached.trigger(availableNow=True).start()
    assert query.awaitTermination(180)


def forget(log: Path, batch: int) -> None:
    (log / str(batch)).unlink()
    (log / f".{batch}.crc").unlink(missing_ok=True)


def test_of_a_batch_that_fails_half_way_nobody_sees_a_row(
    spark: Any, broker: Cluster, topic: str, sink: Sinks
) -> None:
    rows = spark.range(0, 100, numPartitions=4).selectExpr(
        "IF(id = 90, raise_error('bad row'), CAST(id AS STRING)) AS value"
    )
    with pytest.raises(Exception, match="bad row"):
        sink(topic).take(rows, 0)

    sink(topic).take(numbers(spark, 1), 0)

    assert committed(broker, topic, 1) == ["1"]


def test_a_predecessor_that_still_lives_can_commit_nothing(
    spark: Any, broker: Cluster, topic: str, sink: Sinks
) -> None:
    older = sink(topic)
    older.take(numbers(spark, 0), 0)
    sink(topic).take(numbers(spark, 1), 1)

    with pytest.raises(KafkaException) as caught:
        older.take(numbers(spark, 99), 1)

    assert slug(caught.value) == "kafka-fenced"
    assert sorted(committed(broker, topic, 2)) == ["0", "1"]


def test_after_a_transaction_that_the_broker_has_ended_the_next_run_goes_on(
    spark: Any, broker: Cluster, topic: str, sink: Sinks
) -> None:
    """As after an outage of the broker that was longer than a transaction may take."""
    run = sink(topic, **{"kafka.transaction.timeout.ms": "5000"})
    run.take(numbers(spark, 0), 0)
    # The broker looks for what took too long every 10 seconds.
    slow = "SELECT CAST(id + 1 AS STRING) AS value FROM range(0, 2, 1, 2) WHERE id = 0 OR "
    late = slow + "java_method('java.lang.Thread', 'sleep', 20000L) IS NULL"

    with pytest.raises(KafkaException) as caught:
        run.take(spark.sql(late), 1)
    sink(topic).take(numbers(spark, 1, 2), 1)

    verdict = told(caught.value)
    assert (verdict.slug, verdict.retries) == ("kafka-fenced", 3)
    assert sorted(committed(broker, topic, 3)) == ["0", "1", "2"]


def test_a_checkpoint_that_was_set_back_is_refused(spark: Any, topic: str, sink: Sinks) -> None:
    sink(topic).take(numbers(spark, 1), 7)

    with pytest.raises(ConnectorError) as caught:
        sink(topic).take(numbers(spark, 2), 3)

    assert caught.value.code == "sink-is-ahead"


def test_rows_of_several_topics_are_one_transaction(
    spark: Any, broker: Cluster, sink: Sinks
) -> None:
    one, other = made(broker), made(broker)
    rows = spark.createDataFrame([(one, "1"), (other, "2")], "topic string, value string")
    run = sink(None)
    run.take(rows.where("false"), 0)  # nothing: no transaction
    run.take(rows, 1)

    sink(None).take(rows, 1)

    assert (committed(broker, one, 1), committed(broker, other, 1)) == (["1"], ["2"])
    with pytest.raises(ConnectorError, match="null topic"):
        sink(None).take(rows.selectExpr("CAST(NULL AS STRING) AS topic", "value"), 2)


def test_many_tasks_and_chunks_are_sent_whole(
    spark: Any, broker: Cluster, topic: str, sink: Sinks
) -> None:
    rows = spark.range(0, 50_000, numPartitions=40).selectExpr("CAST(id AS STRING) AS value")
    large = spark.range(50_000, 75_000, numPartitions=1).selectExpr("CAST(id AS STRING) AS value")

    sink(topic).take(rows.union(large), 0)

    found = committed(broker, topic, 75_000)
    assert sorted(map(int, found)) == list(range(75_000))


def test_a_record_is_as_the_ordinary_sink_writes_it(
    spark: Any, broker: Cluster, sink: Sinks
) -> None:
    rows = spark.sql(
        "SELECT CAST(id AS STRING) AS key, IF(id = 7, NULL, 'v') AS value, IF(id = 1, 2, NULL) AS "
        "partition, array(struct('h' AS key, CAST('x' AS BINARY) AS value)) AS headers "
        "FROM range(40)"
    )
    ours, sparks = made(broker, 3), made(broker, 3)

    sink(ours).take(rows, 0)
    kafka(broker.servers(), topic=sparks).write(rows)

    def whole(topic: str) -> set[Any]:
        found = received(broker, topic, 40)
        return {(m.key(), m.value(), m.partition(), tuple(m.headers())) for m in found}

    assert whole(ours) == whole(sparks)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "kafka-row-too-large"),
        ({"kafka.transaction.timeout.ms": "9000000"}, "kafka-transaction-refused"),
    ],
)
def test_what_a_broker_or_client_refuses_is_told(
    spark: Any, topic: str, sink: Sinks, options: dict[str, str], expected: str
) -> None:
    with pytest.raises(KafkaException) as caught:
        sink(topic, **options).take(spark.sql("SELECT repeat('x', 2000000) AS value"), 0)

    assert slug(caught.value) == expected


def test_the_java_clients_names_of_settings_are_taken(
    spark: Any, broker: Cluster, sink: Sinks
) -> None:
    large = made(broker, max_message_bytes="3000000")
    options = {"kafka.max.request.size": "3000000", "kafka.buffer.memory": "64000000"}

    sink(large, **options).take(spark.sql("SELECT repeat('x', 2000000) AS value"), 0)

    assert [len(value) for value in committed(broker, large, 1)] == [2_000_000]
    with pytest.raises(ConnectorError) as caught:
        sink(large, **{"kafka.no.such": "1"}).take(numbers(spark, 1), 1)
    assert caught.value.code == "kafka-option"


def test_it_logs_in_as_the_source_does(
    spark: Any, broker: Cluster, topic: str, sink: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    found = kafka(
        broker.servers("login"), topic=topic, ca=broker.pem("ca"), user=USER,
        password="${env:KAFKA_PASSWORD}", exactly_once=True,  # noqa: S106
    )  # fmt: skip

    Transactions(found.client(), {}, topic).take(numbers(spark, 1), 0)

    assert committed(broker, topic, 1) == ["1"]


def slug(exc: Exception) -> str:
    return told(exc).slug


def told(exc: Exception) -> Classification:
    """By the catalogue, once it has come through Spark."""
    text = f"Traceback (most recent call last):\ncimpl.KafkaException: {exc}\n"
    return classify(FailureText(None, (("py4j.Py4JException", text),), text))
