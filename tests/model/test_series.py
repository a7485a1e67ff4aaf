"""Counts over time stay bounded, keep their sums, and survive a file that holds anything."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.series import EMPTY, TIERS, Series, numbers, total

DAY = 86_400.0
LONGEST = sum(count for _, count in TIERS)


def test_a_day_of_counts_keeps_every_row_in_few_buckets() -> None:
    series = EMPTY
    for second in range(0, int(DAY), 5):
        series = series.plus(second, {"rows": 3.0}, {"lag": float(second)})

    assert total(series.buckets, "rows") == DAY / 5 * 3
    assert len(series.buckets) <= LONGEST
    assert series.buckets[-1].last["lag"] == DAY - 5
    assert [b.begin for b in series.buckets] == sorted(b.begin for b in series.buckets)


def test_a_month_forgets_what_is_older_than_a_week() -> None:
    series = EMPTY
    for minute in range(0, 30 * 24 * 60, 7):
        series = series.plus(minute * 60.0, {"rows": 1.0})

    assert len(series.buckets) <= LONGEST
    age_s = series.end - series.buckets[0].begin
    assert 7 * DAY < age_s < 9 * DAY


def test_a_clock_that_goes_back_adds_to_the_newest_bucket() -> None:
    series = EMPTY.plus(1000.0, {"rows": 1.0}).plus(500.0, {"rows": 2.0})

    assert [(b.begin, b.sums["rows"]) for b in series.buckets] == [(1000.0, 3.0)]


def test_a_series_survives_its_way_through_a_file() -> None:
    series = EMPTY.plus(10.0, {"rows": 1.5}, {"lag": 2.0}).plus(99.0, {"late": 1.0})

    assert Series.from_json(json.loads(json.dumps(series.to_json()))) == series


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_a_file_holds_becomes_a_series(body: object) -> None:
    series = Series.from_json(body)

    assert len(series.buckets) <= LONGEST
    assert all(isinstance(value, float) for value in numbers(body).values())
