"""What a query promises, and which combinations are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import headrace as hr
from headrace.connectors.connector import Connector
from headrace.define import checks, guarantee, triggers
from headrace.define.graph import GraphNode

FILES = hr.text("in")


def nothing(frame: Any, batch_id: int) -> None: ...


def node(sink: Connector) -> GraphNode:
    return GraphNode("q", "query", "p.py:3", sink=sink)


@pytest.mark.parametrize(
    ("sources", "sink", "level", "is_resumed"),
    [
        ({"a": FILES}, hr.parquet("out"), "exactly-once", True),
        ({"a": FILES, "b": hr.rate(1)}, hr.parquet("out"), "exactly-once", True),
        ({"a": FILES}, hr.each_batch(nothing), "at-least-once", True),
        ({"a": FILES}, hr.console(), "at-least-once", True),
        ({"a": FILES}, hr.memory(), "none", False),
        ({"a": FILES}, hr.kafka("b:9092", topic="t"), "at-least-once", True),
        ({"a": FILES}, hr.kafka("b:9092", topic="t", exactly_once=True), "exactly-once", True),
        ({"a": None}, hr.parquet("out"), "at-least-once", True),
        ({"a": FILES, "s": hr.socket("localhost", 9999)}, hr.console(), "none", False),
    ],
)
def test_the_weakest_part_decides(
    sources: dict[str, Connector | None], sink: Connector, level: str, is_resumed: bool
) -> None:
    found = guarantee.work_out(sources, sink)

    assert (found.level, found.is_resumed) == (level, is_resumed)


def test_the_reason_names_what_cannot_be_replayed() -> None:
    found = guarantee.work_out({"lines": hr.socket("localhost", 9999)}, hr.console())

    assert found.why == "lines (socket) cannot be replayed"


@pytest.mark.parametrize("sink", [hr.parquet("out"), hr.kafka(servers="k:9092", topic="t")])
def test_nothing_is_claimed_of_a_source_that_headrace_does_not_know(sink: Connector) -> None:
    found = guarantee.work_out({"frame": None, "a": FILES}, sink)

    assert found.why.endswith("; Headrace does not know whether frame can be replayed")


def test_continuous_processing_is_at_least_once() -> None:
    found = guarantee.work_out({"a": FILES}, hr.parquet("out"), triggers.Continuous(1.0))

    assert found.level == "at-least-once"


@pytest.mark.parametrize("trigger", [triggers.real_time("1 minute"), triggers.Continuous(1.0)])
def test_exactly_once_into_kafka_and_real_time_exclude_each_other(trigger: Any) -> None:
    sink = hr.kafka("b:9092", topic="t", exactly_once=True)
    wanted = replace(node(sink), trigger=trigger)
    source = hr.kafka("b:9092", subscribe="s")

    (found,) = checks.connector_problems(wanted, {"s": source}, production=True)

    assert found.code == "not-real-time"
    assert "Remove exactly_once" in str(found.fix)


def test_a_source_without_replay_may_not_feed_a_sink_with_a_log() -> None:
    sources = {"lines": hr.socket("localhost", 9999)}

    found = checks.connector_problems(node(hr.parquet("out")), sources, production=False)

    assert [p.code for p in found] == ["not-replayable"]


@pytest.mark.parametrize(
    ("sink", "refused"),
    [
        (hr.kafka("b:9092", topic="t"), []),
        (hr.event_hubs("${env:HUBS}", hub="h"), []),
        (hr.kafka("b:9092", topic="t", exactly_once=True), ["not-replayable"]),
    ],
)
def test_a_source_without_replay_may_feed_a_topic_that_knows_no_batches(
    sink: Connector, refused: list[str]
) -> None:
    sources = {"lines": hr.socket("localhost", 9999)}
    wanted = replace(node(sink), mode="update")

    found = checks.connector_problems(wanted, sources, production=False)

    assert [p.code for p in found] == refused
    assert checks.mode_problem(wanted, "update", {"append": "no watermark", "update": None}) is None
    promise = guarantee.work_out(sources, sink)
    assert (promise.level, promise.is_resumed) == ("none", False)


@pytest.mark.parametrize("sink", [hr.console(), hr.memory()])
def test_toys_are_refused_in_production_with_the_reason(sink: Connector) -> None:
    (found,) = checks.connector_problems(node(sink), {"a": FILES}, production=True)

    assert found.code == "not-for-production"
    assert "not idempotent" in str(found.why)


@pytest.mark.parametrize("source", [hr.rate(1), hr.socket("h", 1)])
def test_toy_sources_are_refused_in_production(source: Connector) -> None:
    sink = hr.each_batch(nothing)

    found = checks.connector_problems(node(sink), {"a": source}, production=True)

    assert [p.code for p in found] == ["not-for-production"]


def test_toys_are_welcome_in_development() -> None:
    assert checks.connector_problems(node(hr.console()), {"a": hr.rate(1)}, production=False) == []


def test_a_query_may_not_read_what_it_writes() -> None:
    found = checks.connector_problems(
        node(hr.parquet("/d/x")), {"a": hr.parquet("/d/x/")}, production=False
    )

    assert [p.code for p in found] == ["reads-itself"]


@pytest.mark.parametrize(
    ("source", "is_loop"),
    [
        (hr.kafka("b:9092", subscribe="logs-errors"), True),
        (hr.kafka("b:9092", subscribe=["logs", "logs-errors"]), True),
        (hr.kafka("b:9092", pattern="logs-.*"), True),
        (hr.kafka("b:9092", assign={"logs-errors": [0]}), True),
        (hr.kafka("b:9092", pattern="logs-[a-d].*"), False),
        (hr.kafka("b:9092", pattern=r"logs-\p{Lower}+"), False),  # only Java can read it
        (hr.kafka("other:9092", pattern="logs-.*"), False),
        (hr.parquet("/d/x"), False),
    ],
)
def test_a_query_may_not_read_the_topic_it_writes_to(source: Any, is_loop: bool) -> None:
    sink = hr.kafka("b:9092", topic="logs-errors")

    found = checks.connector_problems(node(sink), {"a": source}, production=False)

    assert [p.code for p in found] == ["reads-itself"] * is_loop


def test_an_event_hub_may_not_be_read_and_written_by_one_query() -> None:
    hub = hr.event_hubs("${env:HUBS}", hub="one")

    assert hub.feeds(hr.event_hubs("${env:HUBS}", hub="one", starting="start"))
    assert not hub.feeds(hr.event_hubs("${env:HUBS}", hub="two"))
    assert not hub.feeds(hr.kafka("b:9092", subscribe="one"))


ABLE = {"append": "no watermark", "update": None, "complete": None}


def test_an_impossible_mode_is_refused_with_the_modes_that_work() -> None:
    problem = checks.mode_problem(node(hr.console()), "append", ABLE)

    assert problem is not None
    assert (problem.code, problem.why) == ("unsupported-mode", "no watermark")
    assert problem.fix == "Use one of these modes: update, complete."


def test_a_mode_that_the_sink_cannot_do_is_refused() -> None:
    able = {"append": None, "update": None, "complete": "no aggregate"}

    problem = checks.mode_problem(node(hr.parquet("x")), "update", able)

    assert problem is not None
    assert "parquet supports only append" in str(problem.why)
    assert problem.fix == 'Use mode="append".'


def test_no_mode_at_all_says_what_each_side_can_do() -> None:
    problem = checks.mode_problem(node(hr.parquet("x")), "append", ABLE)

    assert problem is not None
    assert "supports update, complete, but parquet supports only append" in str(problem.fix)


def test_a_mode_that_works_is_no_problem() -> None:
    assert checks.mode_problem(node(hr.console()), "update", ABLE) is None


@pytest.mark.parametrize(
    ("sink", "columns", "slug"),
    [
        (hr.text("x"), [("value", "string")], None),
        (hr.text("x"), [("a", "string"), ("b", "int")], "sink-schema"),
        (hr.text("x", partition_by="day"), [("value", "string"), ("day", "date")], None),
        (hr.parquet("x", partition_by="day"), [("value", "string")], "sink-schema"),
        (hr.parquet("x", partition_by="day"), [("day", "date")], "sink-schema"),
        (hr.parquet("x"), [("a", "int"), ("a", "int")], "column-twice"),
        (hr.parquet("x"), [("a", "int"), ("b", "int")], None),
    ],
)
def test_columns_have_to_fit_the_sink(sink: Connector, columns: Any, slug: str | None) -> None:
    problem = checks.column_problem(node(sink), columns)

    assert (problem.code if problem else None) == slug


def test_a_function_that_forgot_to_return_is_told_so() -> None:
    problem = checks.not_a_dataframe(node(hr.console()), None)

    assert "returned None" in problem.what
    assert "return" in str(problem.fix)
