"""The decorators: what they record, and how they refuse."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.define import triggers
from headrace.define.declarations import Collector, collecting
from headrace.errors import DefinitionError

HERE = "test_decorators.py"


@pytest.fixture
def collector() -> Iterator[Collector]:
    folder = Path(__file__).parent
    with collecting(Collector(root=folder, project=folder)) as made:
        yield made


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_each_decorator_records_name_kind_and_line(collector: Collector) -> None:
    @hr.source
    def raw() -> Any: ...

    @hr.table()
    def customers() -> Any: ...

    @hr.view
    def logs(raw: Any, customers: Any) -> Any: ...

    @hr.stream(
        to="out",
        every="5 seconds",
    )
    def history(logs: Any) -> Any: ...

    me = test_each_decorator_records_name_kind_and_line
    assert [(d.name, d.kind) for d in collector.declared] == [
        ("raw", "source"),
        ("customers", "table"),
        ("logs", "view"),
        ("history", "query"),
    ]
    assert str(collector.declared[3].place) == f"{HERE}:{line_of(me, 'def history')}"


def test_a_decorated_function_can_be_called_as_before(collector: Collector) -> None:
    @hr.view
    def doubled(x: int) -> int:
        return x * 2

    assert doubled(4) == 8


def test_a_name_may_be_given(collector: Collector) -> None:
    @hr.stream(to=hr.console(), name="daily-totals")
    def whatever() -> Any: ...

    assert collector.declared[0].name == "daily-totals"


def test_a_stream_has_its_options(collector: Collector) -> None:
    @hr.stream(to=hr.console(), mode="update", trigger=hr.available_now(), fresh_within="2 minutes")
    def shown() -> Any: ...

    options = collector.declared[0].options
    assert options["mode"] == "update"
    assert options["trigger"] == triggers.AvailableNow()
    assert options["fresh_within"] == 120.0


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ({}, "sink-missing"),
        ({"to": "out", "mode": "apend"}, "bad-mode"),
        ({"to": "out", "every": "soon"}, "bad-duration"),
        ({"to": "out", "every": "1s", "trigger": hr.available_now()}, "two-triggers"),
        ({"to": "out", "trigger": "10 seconds"}, "bad-trigger"),
        ({"to": "out", "fresh_within": "now"}, "bad-duration"),
        ({"to": 5}, "not-a-sink"),
        ({"to": hr.rate(1)}, "not-a-sink"),
    ],
)
def test_a_wrong_option_is_kept_with_its_place(
    collector: Collector, options: dict[str, Any], slug: str
) -> None:
    @hr.stream(**options)
    def q() -> Any: ...

    (problem,) = collector.problems
    assert problem.code == slug
    me = test_a_wrong_option_is_kept_with_its_place
    assert problem.where == f"{HERE}:{line_of(me, '@hr.stream')}"


def test_several_wrong_options_are_all_kept(collector: Collector) -> None:
    @hr.stream(mode="x", every="soon")
    def q() -> Any: ...

    assert [p.code for p in collector.problems] == ["sink-missing", "bad-mode", "bad-duration"]


def test_a_near_miss_of_a_mode_is_suggested(collector: Collector) -> None:
    @hr.stream(to="out", mode="apend")
    def q() -> Any: ...

    assert collector.problems[0].fix == 'Write mode="append".'


def test_a_stream_without_parentheses_says_that_it_needs_a_sink(collector: Collector) -> None:
    @hr.stream
    def q() -> Any: ...

    assert [p.code for p in collector.problems] == ["sink-missing"]
    assert collector.declared[0].name == "q"


def test_a_name_that_cannot_be_a_folder_is_refused(collector: Collector) -> None:
    @hr.stream(to="out", name="a/b")
    def q() -> Any: ...

    assert [p.code for p in collector.problems] == ["bad-name"]


def test_a_class_is_not_a_definition(collector: Collector) -> None:
    hr.view(dict)  # type: ignore[type-var]

    assert [p.code for p in collector.problems] == ["not-a-function"]


def test_outside_of_a_load_a_mistake_is_raised_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        hr.stream(to="out", mode="sometimes")

    assert caught.value.code == "bad-mode"


def test_in_a_notebook_the_newest_definition_of_a_name_wins() -> None:
    from headrace.define.declarations import current

    for _ in range(2):

        @hr.view
        def again_and_again() -> Any: ...

    assert [d.name for d in current().declared].count("again_and_again") == 1


def test_a_function_for_sql_takes_its_type_from_the_annotation(collector: Collector) -> None:
    @hr.udf
    def tenfold(x: float) -> float:
        return x * 10

    @hr.udf("int")
    def length(text: str) -> Any:
        return len(text)

    assert (tenfold.returns, length.returns) == ("double", "int")
    assert tenfold.func(2.0) == 20.0


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [
        (triggers.every("2.5 seconds"), {"processingTime": "2500 milliseconds"}),
        (triggers.every(0), {"processingTime": "0 seconds"}),
        (hr.available_now(), {"availableNow": True}),
        (hr.continuous("1 second"), {"continuous": "1000 milliseconds"}),
        (hr.real_time("1 minute", otherwise="2 seconds"), {"realTime": "60000 milliseconds"}),
    ],
)
def test_triggers_become_what_spark_takes(trigger: triggers.Trigger, arguments: Any) -> None:
    assert trigger.arguments() == arguments


def test_the_package_offers_every_name_it_lists() -> None:
    assert all(getattr(hr, name) is not None for name in hr.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="parkay"):
        hr.parkay  # noqa: B018
