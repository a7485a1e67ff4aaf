"""How far behind: records, seconds, when it is over, and when data is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import lag
from headrace.model.lag import PartitionLag, QueryLag


def seen(at: float, *behind: int, problem: str | None = None) -> QueryLag:
    parts = tuple(PartitionLag("logs", n, 100, 0, 100 + b) for n, b in enumerate(behind))
    return QueryLag("p", "q", at, parts, problem=problem)


def test_records_are_added_up_and_the_oldest_counts() -> None:
    parts = (
        PartitionLag("logs", 0, next=10, low=0, high=40, waits_s=5.0, kept_s=60.0),
        PartitionLag("logs", 1, next=10, low=0, high=20, waits_s=20.0, kept_s=60.0),
        PartitionLag("logs", 2, next=7, low=0, high=7),
    )
    found = QueryLag("p", "q", 0.0, parts)

    assert (found.records, found.seconds, found.loss_in_s) == (40, 20.0, 40.0)


def test_what_is_gone_is_not_behind() -> None:
    part = PartitionLag("logs", 0, next=10, low=25, high=30)

    assert (part.records, part.lost_records) == (5, 15)


def test_a_query_that_has_read_all_is_no_second_behind_and_nothing_can_be_lost() -> None:
    found = seen(0.0, 0, 0)

    assert (found.records, found.seconds, found.loss_in_s) == (0, 0.0, None)


def test_a_problem_says_nothing_about_numbers() -> None:
    found = seen(0.0, problem="nobody answers")

    assert (found.records, found.seconds) == (None, None)


@pytest.mark.parametrize(
    ("looks", "left_s"),
    [
        ([seen(0, 100)], None),  # one look is no rate
        ([seen(0, 100), seen(1, 50)], None),  # nor is a second
        ([seen(0, 100), seen(10, 50)], 10.0),
        ([seen(0, 100), seen(10, 100)], None),  # it does not gain
        ([seen(0, 50), seen(10, 100)], None),
        ([seen(0, 100), seen(10, 0)], 0.0),
        ([seen(0, 100), seen(5, problem="x"), seen(10, 50)], 10.0),
        ([seen(0, 100), seen(10, 0), seen(15, problem="x")], None),  # now nothing is known
    ],
)
def test_when_it_has_caught_up(looks: list[QueryLag], left_s: float | None) -> None:
    assert lag.catch_up_s(looks) == left_s


def test_a_real_time_query_says_how_its_numbers_are_to_be_read() -> None:
    assert seen(0.0, 5).note is None
    fast = replace(seen(0.0, 5), is_real_time=True)
    assert fast.note == "real time: as of the last batch"
    told = replace(fast, written_s=0.25).note
    assert told == "real time: as of the last batch; newest row written 0.2 s ago"
    assert replace(fast, problem="nobody answers").note is None


def test_an_old_look_says_nothing_about_now() -> None:
    assert seen(100.0).is_of(120.0)
    assert not seen(100.0).is_of(200.0)


whole = st.integers(0, 10**12)
part = st.builds(
    PartitionLag, st.text(max_size=5), whole, whole, whole, whole,
    st.none() | st.floats(0, 1e9), st.none() | st.floats(0, 1e9),
)  # fmt: skip


@given(st.lists(part, max_size=4))
def test_between_processes_nothing_is_lost(parts: list[PartitionLag]) -> None:
    found = QueryLag("p", "q", 1.5, tuple(parts), 3.0)

    assert QueryLag.from_json(json.loads(json.dumps(found.to_json()))) == found
