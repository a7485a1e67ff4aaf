"""Times in findings: each has its date and its zone, whichever condition reports it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from test_conditions import T0, Story, event_time, operator, quarantine, topic
from test_lookup_joins import found as unmatched
from test_lookup_joins import history as joins
from test_lookup_joins import joined
from test_null_fields import MINUTE, sampled
from test_null_fields import found as null_fields
from test_null_fields import history as samples
from test_source_conditions import changed, judged, out, read_all

from headrace.health import conditions
from headrace.model.events import Event
from headrace.model.findings import Finding

DAY = 86_400.0
TIME = re.compile(r"\b\d{1,2}:\d\d\b")
WITH_ZONE = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")


def times_without_zone(text: str) -> list[str]:
    return TIME.findall(WITH_ZONE.sub("", text))


def of_source(*events: Event) -> Iterable[Finding]:
    _, _, query = judged(*read_all(100.0), *events)
    return query.findings


def quarantined() -> Iterable[Finding]:
    return Story("logs.quarantine").batches(20, **quarantine(100, 97)).found()


def newest_row_ahead() -> Iterable[Finding]:
    return Story().batches(20, **event_time(T0 + DAY, T0, T0 - 600)).found()


def watermark_ahead() -> Iterable[Finding]:
    return Story().batches(20, **event_time(T0 + DAY, T0, T0 + DAY)).found()


def late() -> Iterable[Finding]:
    return Story().batches(20, **operator(500, removed=10, late=60, updated=40)).found()


def idle_input() -> Iterable[Finding]:
    told = {**event_time(T0, T0, T0), **operator(9, 1)}
    inputs = [topic(100, 100, "clicks"), {**topic(9, 9, "views"), "numInputRows": 0}]
    return Story().batches(60, sources=inputs, **told).found()


def growing_lag() -> Iterable[Finding]:
    story = Story()
    for step in range(60):
        story.tell(sources=[topic(3000 * step, 1000 * step)], numInputRows=1000)
    return story.found()


def growing_batches() -> Iterable[Finding]:
    story = Story()
    for step in range(20):
        took_s = 2.0 * 1.2**step
        story.tell(took_s, durationMs={"triggerExecution": took_s * 1000})
    return story.found()


def growing_state() -> Iterable[Finding]:
    story = Story()
    for minute in range(80):
        story.tell(60.0, **operator(2000 + 100 * minute))
    return story.found()


def null_field(*, lasts_s: float = MINUTE) -> Iterable[Finding]:
    before, after = sampled(100), sampled(100, temp=100)
    phases = ((20 * MINUTE, lambda at: before), (lasts_s, lambda at: after))
    return null_fields(samples(*phases, every_s=60.0 if lasts_s > DAY else 10.0))


CASES: dict[str, tuple[str, Callable[[], Iterable[Finding]]]] = {
    "no answer": ("source-unanswered", lambda: of_source(out(120.0))),
    "vanished": ("input-vanished", lambda: of_source(changed(110.0, vanished=1))),
    "rewritten": ("input-rewritten", lambda: of_source(changed(110.0, rewritten=1))),
    "quarantined": ("many-quarantined", quarantined),
    "newest row ahead": ("event-time-in-future", newest_row_ahead),
    "watermark ahead": ("watermark-in-future", watermark_ahead),
    "late": ("late-rows", late),
    "null": ("field-null", null_field),
    "null for two days": ("field-null", lambda: null_field(lasts_s=2 * DAY)),
    "empty table": ("lookup-empty", lambda: unmatched(joins(joined(1, 1, empty=True)))),
    "other keys": (
        "lookup-unmatched",
        lambda: unmatched(joins(*[joined(1000, 20)] * 120, *[joined(1000, 1000)] * 6)),
    ),
    "idle input": ("watermark-held", idle_input),
    "growing lag": ("falling-behind", growing_lag),
    "growing batches": ("falling-behind", growing_batches),
    "growing state": ("state-grows", growing_state),
}


@pytest.mark.parametrize("name", CASES)
def test_no_finding_has_a_time_without_its_zone(name: str) -> None:
    slug, find = CASES[name]
    (found,) = [one for one in find() if one.slug == slug]

    texts = [found.what, found.cause or "", found.fix or ""]

    assert [time for text in texts for time in times_without_zone(text)] == []


def test_every_finding_has_a_case() -> None:
    folder = Path(str(conditions.__file__)).parent
    slugs = {s for p in folder.glob("*.py") for s in re.findall(r'slug="(.+?)"', p.read_text())}

    assert {slug for slug, _ in CASES.values()} == slugs


@pytest.mark.parametrize(
    "text",
    [
        "since 18:54.",
        "since 2026-11-18 18:54;",
        "since 2026-11-18 18:54:00 (9 of 10)",
        "since 18:54:00Z",
        "since 2026-11-18T18:54:00+00:00",
    ],
)
def test_a_time_without_date_or_zone_is_noticed(text: str) -> None:
    assert times_without_zone(text) != []


def test_a_full_time_and_an_address_are_no_complaint() -> None:
    assert times_without_zone("since 2026-11-18 18:54:00Z at 127.0.0.1:9092, x.py:7") == []
