"""The checker is checked: every fault it exists for is planted, and it must say so."""

from __future__ import annotations

from e2e import oracle

ROWS = [("a.json", n) for n in range(4)] + [("b.json", n) for n in range(4, 8)]
SIZES = {"a.json": 4, "b.json": 4}


def test_equal_multisets_have_no_difference() -> None:
    assert oracle.compare(ROWS, reversed(ROWS)).is_none


def test_a_sink_that_commits_twice_is_caught() -> None:
    found = oracle.compare(ROWS, ROWS + ROWS[4:])

    assert found.doubled.total() == 4
    assert not found.lost


def test_a_skipped_batch_is_caught() -> None:
    found = oracle.compare(ROWS, ROWS[:4])

    assert found.lost.total() == 4


def test_a_row_lost_and_another_doubled_do_not_cancel_out() -> None:
    found = oracle.compare(ROWS, ROWS[1:] + ROWS[1:2])

    assert found.lost.total() == 1
    assert found.doubled.total() == 1


def test_a_row_that_was_never_sent_is_caught() -> None:
    found = oracle.compare(ROWS, [*ROWS, ("a.json", 99)])

    assert found.phantom.total() == 1


def test_half_a_batch_is_caught() -> None:
    assert oracle.torn(ROWS[:6], SIZES) == ["b.json: 2 of 4 rows visible"]


def test_whole_batches_are_not_torn() -> None:
    assert oracle.torn(ROWS[:4], SIZES) == []
    assert oracle.torn([], SIZES) == []


def test_a_row_that_disappears_again_is_caught() -> None:
    assert oracle.shrunk(ROWS, ROWS[1:]).total() == 1
