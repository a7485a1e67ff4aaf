"""Rows between two places of a continuous query's source."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.driver.continuous_progress import rows_between


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}, "u": {"0": 2}}, 5),
        ({"0": {"value": -2}, "1": {"value": -1}}, {"0": {"value": 18}, "1": {"value": 19}}, 20),
        ([3, 4], [5, 4], 2),
        ({"t": {"0": 9}}, {"t": {"0": 5}}, 0),
        (None, {"t": {"0": 5}}, 0),
        (7, 9, 0),
    ],
)
def test_rows_are_counted_by_the_places_that_spark_writes(
    before: Any, after: Any, rows: int
) -> None:
    assert rows_between(before, after) == rows
