"""Alert rows of a real-time query as Spark writes them into the topic, and as the relay reads them.
The projection alone: `tests/brokers/test_alert_topic.py` has the trigger and the topic."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.connectors import alerttopic
from headrace.connectors.alerttopic import AlertTopic, Owner
from headrace.connectors.kafka import kafka
from headrace.connectors.kafkafollow import Record
from headrace.model.alerts import TopicRow

pytestmark = pytest.mark.spark

SINK = AlertTopic(
    hr.alert(key="k", title="{k}", at="at"), kafka("x:1", topic="t"), Owner("h", "metrics", "hot")
)


def taken(frame: Any) -> list[TopicRow]:
    shaped = SINK.shaped(frame)
    assert SINK.sink_problem(dict(shaped.dtypes)) is None
    found = [
        alerttopic.opened(Record(0, number, 1.0, row["value"].encode()), "h")
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
