"""Ages, weighted by how many records had them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import freshness
from headrace.model.freshness import AgeSample, AgeWindow

AGES = st.floats(0, 1e9, allow_nan=False)
POINTS = st.lists(st.tuples(AGES, st.floats(0.01, 1e6)), min_size=1, max_size=200)


def sample(at: float, age: float, n: int = 1, basis: str = "arrival") -> AgeSample:
    return AgeSample(at, basis, n, ((age, 100),), age)


def told(points: list[tuple[float, float]], n: int = 10) -> dict[str, Any]:
    found = freshness.ages_to_json("arrival", n, points)
    assert found is not None
    return found


@given(POINTS)
def test_percentiles_are_in_order_and_ages_of_real_records(
    points: list[tuple[float, float]],
) -> None:
    p50, p99 = freshness.percentile(points, 50), freshness.percentile(points, 99)
    ages = [age for age, _ in points]

    assert p50 is not None
    assert p99 is not None
    assert min(ages) <= p50 <= p99 <= max(ages)
    assert {p50, p99} <= set(ages)


@given(POINTS)
def test_condensed_ages_say_the_same_of_a_batch(points: list[tuple[float, float]]) -> None:
    body = told(points)
    heard = freshness.heard(json.loads(json.dumps(body)), 0.0)

    assert heard is not None
    assert sum(share for _, share in heard.ages) == 100
    assert len(heard.ages) <= len(freshness.CUTS)
    assert freshness.over([heard], 50) == body["p50_ms"]
    assert freshness.over([heard], 99) == body["p99_ms"]
    assert heard.newest_ms == round(min(age for age, _ in points))
    assert heard.ages[-1][0] == round(max(age for age, _ in points))


@given(st.lists(st.tuples(AGES, st.integers(1, 10**6)), min_size=1, max_size=64))
def test_over_several_batches_each_record_counts_once(batches: list[tuple[float, int]]) -> None:
    samples = [sample(n, age, rows) for n, (age, rows) in enumerate(batches)]

    p50, p99 = freshness.over(samples, 50), freshness.over(samples, 99)

    assert p50 == freshness.percentile(batches, 50)
    assert p99 == freshness.percentile(batches, 99)


def test_a_trigger_of_a_minute_shows_half_a_minute_and_not_the_newest_row() -> None:
    points = [(age * 1000.0, 1.0) for age in range(61)]

    body = told(points)

    assert (body["p50_ms"], body["p99_ms"], body["newest_ms"]) == (30_000, 60_000, 0)


def test_a_large_batch_weighs_more_than_many_small_ones() -> None:
    small = [sample(n, 100.0, n=1) for n in range(20)]

    assert freshness.over([*small, sample(21, 9_000.0, n=1_000)], 50) == 9_000
    assert freshness.over([*small, sample(21, 9_000.0, n=1)], 50) == 100


def test_one_in_fifty_is_enough_for_p99() -> None:
    body = told([(1_000.0, 980.0), (60_000.0, 20.0)])

    assert (body["p50_ms"], body["p99_ms"]) == (1_000, 60_000)


def test_the_window_is_64_batches_and_a_quarter_of_an_hour() -> None:
    window = AgeWindow()
    for n in range(100):
        window = window.plus(sample(n, float(n)))

    later = window.plus(sample(99 + 890, 5.0))

    assert (len(window.samples), window.samples[0].at) == (64, 36)
    assert (window.p50_ms, window.p99_ms, window.basis) == (67, 99, "arrival")
    assert [s.at for s in later.samples] == [*range(89, 100), 989]
    assert (AgeWindow().p50_ms, AgeWindow().basis) == (None, None)


def test_a_clock_that_is_ahead_makes_no_age_below_zero() -> None:
    assert told([(-5_000.0, 1.0)])["p50_ms"] == 0


def test_without_records_there_is_nothing_to_tell() -> None:
    assert freshness.ages_to_json("arrival", 0, []) is None
    assert freshness.over([], 50) is None


GOOD = {"basis": "event", "n": 2, "newest_ms": 5, "ages": [[5, 50], [9, 50]]}


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {**GOOD, "basis": "hearsay"},
        {**GOOD, "n": 0},
        {**GOOD, "n": True},
        {**GOOD, "n": "2"},
        {**GOOD, "newest_ms": None},
        {**GOOD, "newest_ms": -1},
        {**GOOD, "ages": []},
        {**GOOD, "ages": [[5]]},
        {**GOOD, "ages": [[5, 0]]},
        {**GOOD, "ages": [["5", 100]]},
        {**GOOD, "ages": [[10**400, 100]]},
        {**GOOD, "ages": [[1, 1]] * 1_000},
    ],
)
def test_what_is_no_sample_counts_as_not_said(odd: Any) -> None:
    assert freshness.heard(GOOD, 1.0) is not None
    assert freshness.heard(odd, 1.0) is None
