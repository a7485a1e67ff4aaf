"""docs/reference/failures.md is what the code says."""

from __future__ import annotations

from provoked import all_cases, page

from headrace.failures.catalogue import search_order

ROWS = page.text().splitlines()


def test_the_page_is_in_step_with_the_catalogue_and_the_tests() -> None:
    assert page.PAGE.read_text() == page.text(), "run: python tests/failures/provoked/page.py"


def test_the_page_lists_every_failure_with_kind_meaning_and_fix() -> None:
    rows = [line.split(" | ") for line in ROWS if "<a id=" in line]

    assert len(rows) == len(search_order.ENTRIES)
    assert all(len(row) == 5 and all(cell.strip(" |") for cell in row[:4]) for row in rows)


def test_the_page_holds_no_unfilled_names() -> None:
    assert "{" not in page.text()


def test_at_least_thirty_failures_are_caused_and_ten_of_them_in_every_run_of_the_tests() -> None:
    slugs = {case.slug for case in all_cases.CASES}

    assert len(slugs) >= 30
    assert len([case for case in all_cases.CASES if case.is_quick]) >= 10
    assert all(f"| {case.how} |" in page.text() for case in all_cases.CASES)


def test_what_a_test_does_is_told_in_one_sentence() -> None:
    assert [case.name for case in all_cases.CASES if not case.how.endswith(".")] == []
