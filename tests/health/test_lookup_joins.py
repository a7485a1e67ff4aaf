"""Histories of joins with a lookup table: when too many rows find no match."""

from __future__ import annotations

import random

import pytest

from headrace.health.conditions import lookup_misses
from headrace.health.run_view import RunView, fold_all
from headrace.model.events import Event, EventKind
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits

BEGIN = 1_794_940_440.0  # 2026-11-17 18:34:00Z
ABOUT = {"lookup.customers": {"place": "pipelines/x.py:7"}}
Told = dict[str, float]


def joined(came: float, lost: float, *, empty: bool = False) -> Told:
    told = {"in": came, "lost": lost, "empty": came if empty else 0.0}
    return {f"lookup.customers.{name}": rows for name, rows in told.items()}


def history(*told: Told, every_s: float = 10.0) -> RunView:
    events = [Event(BEGIN, EventKind.QUERY_STARTED, "kept", {"counted": ABOUT})]
    for number, counts in enumerate(told):
        data = {"progress": {"batchId": number}, "counts": counts}
        events.append(Event(BEGIN + number * every_s, EventKind.PROGRESSED, "kept", data))
    return fold_all(events)


def found(view: RunView) -> list[Finding]:
    return list(lookup_misses.find(view, view.queries["kept"], HealthLimits()))


def test_a_table_without_rows_is_a_problem_from_the_first_row_on() -> None:
    [one] = found(history(joined(1, 1, empty=True)))

    assert one.what == (
        "The lookup table customers is empty: the join with it has dropped every row since "
        "2026-11-17 18:34:00Z."
    )
    assert (one.slug, one.severity, one.where) == ("lookup-empty", "problem", "pipelines/x.py:7")


def test_keys_that_no_longer_match_are_a_problem() -> None:
    [one] = found(history(*[joined(1000, 20)] * 120, *[joined(1000, 1000)] * 6))

    assert one.slug == "lookup-unmatched"
    assert one.severity == "problem"
    assert one.what == (
        "The join with customers has dropped all rows since 2026-11-17 18:54:00Z "
        "(6,000 of 6,000 rows, compared with 2 % before)."
    )


def test_a_match_share_that_halves_is_a_warning() -> None:
    [one] = found(history(*[joined(1000, 100)] * 120, *[joined(1000, 600)] * 12))

    assert one.severity == "warning"
    assert "has dropped 60 % of the rows since 2026-11-17 18:54:00Z" in one.what


def test_it_is_over_once_the_keys_match_again() -> None:
    good, bad = joined(1000, 20), joined(1000, 1000)

    assert found(history(*[good] * 120, *[bad] * 12, *[good] * 12)) == []


def test_without_a_past_few_matches_may_be_what_is_wanted() -> None:
    assert found(history(*[joined(1000, 1000)] * 12)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("usual", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("rows", [3, 1000])
def test_a_steady_share_says_nothing_at_any_moment(usual: float, rows: int) -> None:
    dice = random.Random(rows)
    view = history()
    for number in range(1_000):
        came = dice.randint(1, rows)
        lost = sum(dice.random() < usual for _ in range(came))
        data = {"progress": {"batchId": number}, "counts": joined(came, lost)}
        at = BEGIN + number * 60
        view = fold_all([Event(at, EventKind.PROGRESSED, "kept", data)], view)
        if number % 5 == 0:
            assert found(view) == [], number
