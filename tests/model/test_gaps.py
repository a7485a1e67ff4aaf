"""When records that are gone are behind a query, in each way they can be gone."""

from __future__ import annotations

import pytest

from headrace.model.gaps import Gap

EXPIRED = Gap("kept", "logs", 0, first=10, low=500, high=900)
EMPTIED = Gap("kept", "logs", 0, first=10, low=500, high=500)
DELETED = Gap("kept", "logs", 0, first=10, low=None)
MADE_ANEW = Gap("kept", "logs", 0, first=10, low=0, high=3)


@pytest.mark.parametrize(
    ("gap", "position", "expected"),
    [
        (EXPIRED, 10, False),
        (EXPIRED, 499, False),  # by max_rows a batch may end within it
        (EXPIRED, 500, True),
        (EXPIRED, None, True),  # the partition is read no more
        (EXPIRED, 4, True),  # recreated in the meantime
        (EMPTIED, 499, False),
        (EMPTIED, 500, True),
        (DELETED, 10, False),
        (DELETED, None, True),
        (DELETED, 0, True),  # it is back
        (MADE_ANEW, 10, False),
        (MADE_ANEW, 3, True),
        (MADE_ANEW, 4, True),
    ],
)
def test_a_gap_is_behind_once_the_query_stands_after_it(
    gap: Gap, position: int | None, expected: bool
) -> None:
    assert gap.is_behind(position) is expected


def test_a_gap_is_the_same_after_a_way_through_json() -> None:
    assert Gap.from_json(MADE_ANEW.to_json()) == MADE_ANEW
