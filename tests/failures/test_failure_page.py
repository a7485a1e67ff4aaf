"""docs/reference/failures.md is what the code says."""

from __future__ import annotations

from pathlib import Path

from headrace.failures import reference
from headrace.failures.catalogue import search_order

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "failures.md"


def test_the_page_is_in_step_with_the_catalogue() -> None:
    assert PAGE.read_text() == reference.render(), (
        "run: python -m headrace.failures.reference > " + str(PAGE)
    )


def test_the_page_lists_every_failure_with_kind_meaning_and_fix() -> None:
    rows = [line.split(" | ") for line in reference.render().splitlines() if "<a id=" in line]

    assert len(rows) == len(search_order.ENTRIES)
    assert all(len(row) == 4 and all(cell.strip(" |") for cell in row) for row in rows)


def test_the_page_holds_no_unfilled_names() -> None:
    assert "{" not in reference.render()
