"""Histories of sampled records: which of them say that a column went null, and which are noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from headrace.health.conditions import null_fields
from headrace.health.run_view import RunView, fold_all
from headrace.model.events import Event, EventKind
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits

BEGIN = 1_794_940_440.0  # 2026-11-17 18:34:00Z
MINUTE = 60.0
ABOUT = {
    "parsed.logs": {
        "call": "hr.parse_json",
        "place": "pipelines/x.py:12",
        "source": "incoming/",
    }
}
Counts = Mapping[str, float]


def sampled(records: int, temp: float = 0, **unknown: float) -> dict[str, float]:
    found = {"parsed.logs": records, "null.logs.temp": temp}
    return found | {f"unknown.logs.{name}": count for name, count in unknown.items()}


def history(
    *phases: tuple[float, Callable[[float], Counts]], every_s: float = 10.0, begin: float = BEGIN
) -> RunView:
    """Each phase: for how long, and what a sample at a moment says."""
    started = Event(begin, EventKind.QUERY_STARTED, "kept", {"counted": ABOUT})
    events, at = [started], begin
    for lasts_s, told in phases:
        until = at + lasts_s
        while at < until:
            data = {"progress": {"batchId": len(events)}, "counts": told(at)}
            events.append(Event(at, EventKind.PROGRESSED, "kept", data))
            at += every_s
    return fold_all(events)


def found(view: RunView) -> list[Finding]:
    return list(null_fields.find(view, view.queries["kept"], HealthLimits()))


def test_a_renamed_field_is_found_with_its_new_name() -> None:
    view = history(
        (20 * MINUTE, lambda at: sampled(100)),
        (2 * MINUTE, lambda at: sampled(100, temp=100, temperature=100)),
    )

    [one] = found(view)

    assert one.what == (
        "`temp` is null in all rows since 2026-11-17 18:54:00Z; 100 % of records have "
        "an unknown field `temperature`."
    )
    assert one.cause == "The producer of incoming/ probably renamed `temp` to `temperature`."
    assert one.fix == (
        "Add `temperature` to the schema in hr.parse_json (pipelines/x.py:12), or ask the producer "
        "of incoming/ to send `temp` again. Rows that were already written keep their nulls. "
        "To replace these rows, read the input again with a new checkpoint."
    )
    assert (one.slug, one.severity, one.where) == ("field-null", "problem", "pipelines/x.py:12")


def test_a_change_within_a_bucket_is_still_all_rows_since_then() -> None:
    view = history(
        (20 * MINUTE, lambda at: sampled(100)),
        (10, lambda at: sampled(100, temp=95, temperature=95)),
        (30, lambda at: sampled(100, temp=100, temperature=100)),
    )

    [one] = found(view)

    assert one.what.startswith("`temp` is null in all rows since 2026-11-17 18:54:10Z;")


def test_a_field_that_is_no_longer_sent_is_found_without_a_new_name() -> None:
    """An unknown field that was always there explains nothing."""
    view = history(
        (20 * MINUTE, lambda at: sampled(100, extra=100)),
        (MINUTE, lambda at: sampled(100, temp=100, extra=100)),
    )

    [one] = found(view)

    assert one.what == "`temp` is null in all rows since 2026-11-17 18:54:00Z."
    assert str(one.cause).startswith("The producer of incoming/ no longer sends `temp`")


def test_one_of_two_producers_that_renames_a_field_is_a_warning() -> None:
    view = history(
        (20 * MINUTE, lambda at: sampled(100, temp=2)),
        (3 * MINUTE, lambda at: sampled(100, temp=51, temperature=50)),
    )

    [one] = found(view)

    assert one.severity == "warning"
    assert one.what == (
        "`temp` is null in 51 % of the rows since 2026-11-17 18:54:00Z (2 % before); "
        "50 % of records have an unknown field `temperature`."
    )


def test_it_is_over_once_the_field_is_back() -> None:
    view = history(
        (20 * MINUTE, lambda at: sampled(100)),
        (5 * MINUTE, lambda at: sampled(100, temp=100, temperature=100)),
        (2 * MINUTE, lambda at: sampled(100)),
    )

    assert found(view) == []


def test_it_is_still_told_a_day_later() -> None:
    view = history(
        (20 * MINUTE, lambda at: sampled(100)),
        (86_400, lambda at: sampled(100, temp=100, temperature=100)),
        every_s=60.0,
    )

    [one] = found(view)

    assert one.severity == "problem"
    assert one.what.endswith("an unknown field `temperature`.")


def test_a_schema_that_spells_a_field_in_another_way_is_a_warning_from_the_start() -> None:
    view = history((2 * MINUTE, lambda at: sampled(100, temp=100, Temp=100)))

    [one] = found(view)

    assert one.severity == "warning"
    assert one.what == "`temp` is null in all rows; 100 % of records have an unknown field `Temp`."
    assert str(one.fix).startswith("In hr.parse_json (pipelines/x.py:12), rename `temp` to `Temp`")


def test_records_that_a_filter_drops_prove_nothing_without_a_new_name() -> None:
    """The sample is taken before it: another mix of records is no change of those that pass."""

    def of(view: RunView) -> list[Finding]:
        about = {"parsed.logs": {**ABOUT["parsed.logs"], "sample": "before a filter"}}
        return list(
            null_fields.find(view, replace(view.queries["kept"], counted=about), HealthLimits())
        )

    usual = (20 * MINUTE, lambda at: sampled(100, temp=40))
    mixed = history(usual, (MINUTE, lambda at: sampled(100, temp=100)))
    renamed = history(usual, (MINUTE, lambda at: sampled(100, temp=100, temperature=60)))

    assert of(mixed) == []
    assert [one.severity for one in of(renamed)] == ["problem"]


def test_few_records_are_waited_for() -> None:
    view = history(
        (60 * MINUTE, lambda at: sampled(2)),
        (10 * MINUTE, lambda at: sampled(2, temp=2)),
        every_s=60.0,
    )
    later = history(
        (60 * MINUTE, lambda at: sampled(2)),
        (30 * MINUTE, lambda at: sampled(2, temp=2)),
        every_s=60.0,
    )

    assert found(view) == []
    assert [one.severity for one in found(later)] == ["problem"]


def around(share: float, dice: random.Random, records: int = 100) -> dict[str, float]:
    return sampled(records, temp=sum(dice.random() < share for _ in range(records)))


def healthy(kind: str, dice: random.Random, at: float) -> Counts:
    hour = (at - BEGIN) / 3600 % 24
    if kind == "null in a third of the rows":
        return around(0.3, dice)
    if kind == "null in half of the rows, in bursts":
        return around(dice.choice([0.2, 0.5, 0.8]), dice)
    if kind == "a field of a rare kind of event":
        return around(dice.choice([0.95, 1.0, 1.0]), dice)
    if kind == "always null":
        return sampled(100, temp=100, other=100)
    if kind == "never null":
        return sampled(100)
    if kind == "few records":
        return around(0.3, dice, records=3)
    if kind == "few records at night":
        return around(0.1, dice, records=100 if 6 < hour < 20 else 2)
    if kind == "another mix of events at night":
        return around(0.3 if 6 < hour < 20 else 0.55, dice)
    if kind == "unknown fields that come and go":
        return around(0.1, dice) | {f"unknown.logs.f{dice.randrange(20)}": 100.0}
    raise AssertionError(kind)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind",
    [
        "null in a third of the rows",
        "null in half of the rows, in bursts",
        "a field of a rare kind of event",
        "always null",
        "never null",
        "few records",
        "few records at night",
        "another mix of events at night",
        "unknown fields that come and go",
    ],
)
def test_a_healthy_history_says_nothing_at_any_moment(kind: str) -> None:
    dice = random.Random(kind)
    started = Event(BEGIN, EventKind.QUERY_STARTED, "kept", {"counted": ABOUT})
    view, at = fold_all([started]), BEGIN
    for number in range(900):  # 30 hours
        at += 120.0
        data = {"progress": {"batchId": number}, "counts": healthy(kind, dice, at)}
        view = fold_all([Event(at, EventKind.PROGRESSED, "kept", data)], view)
        assert found(view) == [], number


def test_a_field_that_is_new_in_the_schema_did_not_go_null() -> None:
    """The producers do not send it yet; what came before did not look at it."""
    view = history(
        (20 * MINUTE, lambda at: {"parsed.logs": 100.0}),
        (5 * MINUTE, lambda at: sampled(100, temp=100)),
    )

    assert found(view) == []


def test_a_field_without_nulls_need_not_be_named_in_every_sample() -> None:
    view = history(
        (10, lambda at: sampled(100)),
        (20 * MINUTE, lambda at: {"parsed.logs": 100.0}),
        (MINUTE, lambda at: sampled(100, temp=100)),
    )

    assert [one.severity for one in found(view)] == ["problem"]
