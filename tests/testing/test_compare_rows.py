"""The oracle is tested on seeded faults: each has to be found."""

from __future__ import annotations

from collections import Counter

from headrace.testing import row_comparison

ROWS = [("a.json", n) for n in range(4)] + [("b.json", n) for n in range(4, 8)]


def test_equal_multisets_have_no_difference() -> None:
    assert row_comparison.compare(ROWS, reversed(ROWS)).is_empty


def test_a_sink_that_commits_twice_is_caught() -> None:
    found = row_comparison.compare(ROWS, ROWS + ROWS[4:])

    assert found.doubled.total() == 4
    assert not found.lost


def test_a_skipped_batch_is_caught() -> None:
    found = row_comparison.compare(ROWS, ROWS[:4])

    assert found.lost.total() == 4


def test_a_row_lost_and_another_doubled_do_not_cancel_out() -> None:
    found = row_comparison.compare(ROWS, ROWS[1:] + ROWS[1:2])

    assert found.lost.total() == 1
    assert found.doubled.total() == 1


def test_a_row_that_was_never_sent_is_caught() -> None:
    found = row_comparison.compare(ROWS, [*ROWS, ("a.json", 99)])

    assert found.unexpected.total() == 1


def test_a_counter_counts_as_its_rows() -> None:
    found = row_comparison.compare(Counter({"a": 2, "b": 1}), Counter({"a": 3}))

    assert (found.lost, found.doubled) == (Counter({"b": 1}), Counter({"a": 1}))


def test_the_text_counts_the_rows_and_names_some() -> None:
    found = row_comparison.compare(["a", "b"], ["b", "b", "c"])

    assert str(found) == (
        "1 lost, 1 duplicated, 1 unexpected; lost: a; duplicated: b; unexpected: c"
    )
    assert str(row_comparison.compare([], [])) == "no difference"
    assert found.examples(2) == ("lost: a", "duplicated: b")
