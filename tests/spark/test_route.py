"""`hr.route` on Spark."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.errors import DefinitionError

pytestmark = pytest.mark.spark


def test_a_row_goes_to_every_topic_whose_condition_holds(spark: Any) -> None:
    from pyspark.sql import functions as F

    rows = spark.createDataFrame([("a", 1), ("b", 5), ("c", None)], "value string, load int")

    found = hr.route(rows, {"high": "load > 3", "known": F.col("load").isNotNull()})

    assert sorted((r["topic"], r["value"]) for r in found.collect()) == [
        ("high", "b"),
        ("known", "a"),
        ("known", "b"),
    ]


def test_the_topic_that_a_row_came_from_may_decide(spark: Any) -> None:
    rows = spark.createDataFrame([("a", "old"), ("b", "new")], "value string, topic string")

    found = hr.route(rows, {"kept": "topic = 'new'"})

    assert [(r["topic"], r["value"]) for r in found.collect()] == [("kept", "b")]


def test_no_topics_are_refused(spark: Any) -> None:
    with pytest.raises(DefinitionError, match="needs at least one topic"):
        hr.route(spark.range(1), {})
