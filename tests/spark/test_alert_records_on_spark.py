"""Alert rows of a real-time query as Spark writes them into the topic, and as the relay reads them.
The projection alone: `tests/brokers/test_alert_topic.py` has the trigger and the topic."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.connectors import alert_rows, alert_topic
from headrace.connectors.alert_topic import AlertTopic, Owner
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.topic_follower import Record
from headrace.model.alerts import TopicRow

pytestmark = pytest.mark.spark

SINK = AlertTopic(
    hr.alert(key="k", title="{k}", at="at"), kafka("x:1", topic="t"), Owner("h", "metrics", "hot")
)


def taken(frame: Any) -> list[TopicRow]:
    shaped = SINK.prepare_frame(frame)
    assert SINK.sink_problem(dict(shaped.dtypes)) is None
    found = [
        alert_topic.parse_record(Record(0, number, 1.0, row["value"].encode()), "h")
        for number, row in enumerate(shaped.collect())
    ]
    return [one for one in found if one is not None]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_rows_a_microsecond_apart_are_two_and_keep_their_moments(spark: Any, kind: str) -> None:
    zone = "Z" if kind == "timestamp" else ""
    moments = [f"2026-11-16 10:00:01.00000{n}{zone}" for n in (1, 2)]
    rows = spark.createDataFrame([("a", one) for one in moments], "k string, at string")

    one, other = taken(rows.selectExpr("k", f"CAST(at AS {kind}) AS at"))

    assert [round(found.row.at, 6) for found in (one, other)] == [
        1794823201.000001,
        1794823201.000002,
    ]
    assert one.twin != other.twin


NESTED = {
    "list": "transform(sequence(1, {n}), x -> named_struct('a', x, 'b', 'text'))",
    "object": "named_struct('text', repeat('é', {n}), 'at', timestamp '2026-01-01 00:00:00Z')",
    "table": "map('text', repeat('x', {n}))",
    "any": "parse_json(concat('[\"', repeat('x', {n}), '\"]'))",
}


@pytest.mark.parametrize("name", NESTED)
def test_a_small_nested_value_travels_whole_and_of_a_large_one_its_beginning(
    spark: Any, name: str
) -> None:
    made = [f"SELECT 'a' AS k, now() AS at, {NESTED[name].format(n=n)} AS v" for n in (2, 200_000)]

    (small,), (large,) = (taken(spark.sql(one)) for one in made)

    assert isinstance(small.row.data["v"], list | dict)
    assert isinstance(large.row.data["v"], str)
    assert len(large.row.data["v"]) == alert_rows.TEXT_CHARS_MAX
    assert large.row.data["v"].endswith("…")


def test_a_record_stays_below_what_a_broker_takes(spark: Any) -> None:
    columns = ", ".join(f"{NESTED['list'].format(n=100000)} AS v{n}" for n in range(9))

    shaped = SINK.prepare_frame(spark.sql(f"SELECT 'a' AS k, now() AS at, {columns}"))

    assert len(shaped.collect()[0]["value"]) < 20_000
