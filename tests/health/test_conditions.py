"""Silent trouble, told as histories of batches: what is found, and what a healthy query shows."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from headrace.driver import progress_counts
from headrace.health.conditions import table
from headrace.health.run_view import RunView, fold
from headrace.model.events import Event, EventKind
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.progress import from_spark

T0 = 1_900_000_000.0  # 2030-03-17 17:46:40Z
LIMITS = HealthLimits()


@dataclass
class Story:
    """A run of one query: batches by which time passes."""

    name: str = "readings"
    at: float = T0
    batch: int = 0
    view: RunView = field(default_factory=RunView)

    def batches(self, count: int, every_s: float = 10.0, **progress: Any) -> Story:
        for _ in range(count):
            self.tell(every_s, **progress)
        return self

    def tell(self, every_s: float = 10.0, **progress: Any) -> Story:
        self.at += every_s
        body = {
            "batchId": self.batch,
            "timestamp": iso(self.at),
            "numInputRows": 100,
            "durationMs": {"triggerExecution": 500, "addBatch": 400},
            **progress,
        }
        self.batch += 1
        event = Event(
            self.at,
            EventKind.PROGRESSED,
            self.name,
            {"progress": body, **progress_counts.from_progress(from_spark(body))},
        )
        self.view = fold(self.view, event, self.at)
        return self

    def found(self, limits: HealthLimits = LIMITS) -> tuple[Finding, ...]:
        return table.by_query(self.view, limits).get(self.name, ())

    def slugs(self, limits: HealthLimits = LIMITS) -> list[str]:
        return [finding.slug for finding in self.found(limits)]


def iso(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def quarantine(rows: int, bad: int) -> dict[str, Any]:
    return {"observedMetrics": {"headrace_quarantine": {"rows": rows, "bad": bad}}}


def event_time(newest: float, mean: float, watermark: float) -> dict[str, Any]:
    return {"eventTime": {"max": iso(newest), "avg": iso(mean), "watermark": iso(watermark)}}


def operator(
    rows: int, removed: int = 0, late: int = 0, size: int = 0, updated: int = 0
) -> dict[str, Any]:
    return {
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": rows,
                "numRowsRemoved": removed,
                "numRowsUpdated": updated,
                "numRowsDroppedByWatermark": late,
                "customMetrics": {"rocksdbSstFileSize": size},
            }
        ]
    }


def topic(latest: int, end: int, name: str = "t") -> dict[str, Any]:
    return {
        "description": f"KafkaV2[Subscribe[{name}]]",
        "endOffset": {name: {"0": end}},
        "latestOffset": {name: {"0": latest}},
        "numInputRows": 100,
    }


def test_a_format_that_changes_fills_the_quarantine() -> None:
    story = Story("logs.quarantine").batches(60, **quarantine(100, 1))
    assert story.slugs() == []

    story.batches(12, **quarantine(100, 97))

    (found,) = story.found()
    assert found.slug == "many-quarantined"
    assert found.what == (
        "97 % of the records read by logs have been quarantined since "
        "2030-03-17 17:56:50Z (1,164 of 1,200; 1 % before)."
    )
    assert found.since == T0 + 610


def test_everything_in_quarantine_from_the_start_is_a_problem_without_any_past() -> None:
    story = Story("logs.quarantine").batches(7, **quarantine(20, 20))

    assert story.slugs() == ["many-quarantined"]
    assert "100 % of the records" in story.found()[0].what


def test_a_finding_ends_when_the_share_is_back() -> None:
    story = Story("logs.quarantine").batches(60, **quarantine(100, 1))
    story.batches(30, **quarantine(100, 60))
    assert story.slugs() == ["many-quarantined"]

    story.batches(12, **quarantine(100, 1))

    assert story.slugs() == []


def test_trouble_stays_known_through_a_whole_day_of_it() -> None:
    story = Story("logs.quarantine").batches(360, **quarantine(100, 0))
    since = story.at

    story.batches(24 * 60, every_s=60.0, **quarantine(100, 30))

    (found,) = story.found()
    assert found.slug == "many-quarantined"
    assert found.since is not None
    assert abs(found.since - since) <= 3600


def test_late_rows_that_jump_are_found() -> None:
    story = Story()
    for _ in range(60):
        story.tell(**operator(500, removed=10, late=1, updated=99))
    assert story.slugs() == []

    for _ in range(12):
        story.tell(**operator(500, removed=10, late=40, updated=60))

    (found,) = story.found()
    assert found.slug == "late-rows"
    assert "40 % of the rows that reached the stateful operators since" in found.what
    assert "1 % before" in found.what


def aggregated(at: float, mean_age_s: float, late: int) -> dict[str, Any]:
    """A batch of 3,000 rows in a few windows, its watermark ten minutes back."""
    return {
        "numInputRows": 3000,
        "sources": [{"description": "FileStreamSource[logs]", "numInputRows": 3000}],
        **event_time(at, at - mean_age_s, at - 600),
        **operator(12, late=late, updated=3),
    }


def test_single_late_rows_in_an_aggregation_of_few_windows_are_not_reported() -> None:
    """Spark counts windows there, not rows: one row of 3,000 is one of four."""
    story = Story().batches(60, **aggregated(T0, 5.0, late=0))

    for number in range(120):
        story.tell(**aggregated(story.at, 5.0 + number % 2, late=number % 2))
        assert story.slugs() == []


def test_many_late_rows_in_an_aggregation_of_few_windows_are_reported() -> None:
    """A third of the rows is an hour old."""
    story = Story().batches(60, **aggregated(T0, 5.0, late=0))

    for _ in range(12):
        story.tell(**aggregated(story.at, 1200.0, late=2))

    assert story.slugs() == ["late-rows"]


def test_one_row_a_year_ahead_takes_the_watermark_with_it() -> None:
    story = Story()
    story.batches(60, **event_time(T0, T0, T0 - 600))
    ahead = story.at + 365 * 86_400

    story.tell(
        numInputRows=3000,
        **event_time(ahead, story.at + 10 + (ahead - story.at - 10) / 3000, story.at - 600),
    )
    (warned,) = story.found()
    assert warned.slug == "event-time-in-future"
    assert "about 1 of 3,000 rows" in warned.what or "about 1 of 3,100 rows" in warned.what

    story.batches(6, **event_time(story.at, story.at, ahead - 600))
    (found,) = story.found()

    assert found.slug == "watermark-in-future"
    assert "The watermark is at 2031-03-17" in found.what
    assert "365 d ahead of the clock" in found.what
    assert "current_timestamp()" in str(found.fix)
    assert "longer delay" not in str(found.fix)


def test_a_watermark_in_the_future_stays_a_problem_while_the_query_is_idle() -> None:
    ahead = event_time(T0, T0, T0 + 90 * 86_400)
    story = Story().batches(10, sources=[topic(900, 100)], **ahead)
    assert "watermark-in-future" in story.slugs()

    story.at += 60
    story.view = fold(story.view, Event(story.at, EventKind.IDLED, story.name, {}), story.at)

    assert "watermark-in-future" in story.slugs()


def test_rows_behind_a_watermark_in_the_future_are_not_reported_as_late_as_well() -> None:
    story = Story().batches(60, **event_time(T0, T0, T0 - 600), **operator(10, 1))
    ahead = event_time(T0, T0, T0 + 90 * 86_400)

    story.batches(12, **ahead, **operator(10, 0, late=100))

    assert story.slugs() == ["watermark-in-future"]


def test_an_idle_input_that_holds_the_watermark_is_named() -> None:
    def joined(left: int, right: int, watermark: float) -> dict[str, Any]:
        sources = [
            {"description": "FileStreamSource[file:/data/clicks]", "numInputRows": left},
            {"description": "KafkaV2[Subscribe[views]]", "numInputRows": right},
        ]
        return {"sources": sources, **event_time(watermark, watermark, watermark), **operator(9, 1)}

    story = Story()
    for _ in range(60):
        story.tell(**joined(50, 50, story.at))
    assert story.slugs() == []
    held = story.at

    story.batches(20, **joined(100, 0, held))
    assert story.slugs() == []  # three minutes are no reason to wake anybody
    story.batches(20, **joined(100, 0, held))

    (found,) = story.found()
    assert found.slug == "watermark-held"
    assert "the topic views has delivered no rows since 2030-03-17 17:56:50Z" in found.what
    assert "multipleWatermarkPolicy" in str(found.fix)


def test_a_query_without_input_at_all_holds_no_watermark() -> None:
    sources = [{"description": f"KafkaV2[Subscribe[{n}]]", "numInputRows": 0} for n in "ab"]
    story = Story().batches(
        60, sources=sources, numInputRows=0, **event_time(T0, T0, T0), **operator(9, 1)
    )

    assert story.slugs() == []


def test_state_that_only_grows_is_found_with_the_time_that_is_left() -> None:
    story = Story()
    for minute in range(80):
        story.tell(60.0, **operator(2000 + 100 * minute, size=1_000_000 * minute))
    free = {"queries": {}, "disk_free": 60_000_000_000}
    story.view = fold(story.view, Event(story.at, EventKind.SAMPLED, None, free), story.at)

    (found,) = story.found()

    assert found.slug == "state-grows"
    assert found.severity == "warning"
    assert "0 removed, 9,900 in total" in found.what
    assert "the disk will be full in 42 d" in found.what
    assert "no group is ever complete" in str(found.cause)


def test_state_that_levels_off_or_is_removed_is_no_finding() -> None:
    levels, removed = Story(), Story()
    for minute in range(120):
        levels.tell(60.0, **operator(int(5000 * (1 - math.exp(-minute / 10)))))
        removed.tell(60.0, **operator(5000 + 10 * minute, removed=400))

    assert levels.slugs() == []
    assert removed.slugs() == []


def test_a_watermark_of_hours_is_waited_for() -> None:
    story = Story()
    for minute in range(90):
        late = event_time(story.at, story.at, story.at - 3 * 3600)
        story.tell(60.0, **late, **operator(2000 + 100 * minute))

    assert story.slugs() == []


def test_a_lag_that_grows_is_never_called_catching_up() -> None:
    story = Story()
    for step in range(30):
        story.tell(sources=[topic(1000 * step, 1000 * step)], numInputRows=1000)
    assert story.slugs() == []
    began = 1000 * 30

    for step in range(1, 31):
        behind = topic(began + 3000 * step, began + 1000 * step)
        story.tell(
            sources=[behind],
            numInputRows=1000,
            durationMs={"triggerExecution": 9900, "addBatch": 9500},
        )

    (found,) = story.found()
    assert found.slug == "falling-behind"
    assert "300 rows/s arrive, but the query processes only 100 rows/s; 60,000 rows" in found.what
    assert "since 2030-03-17 17:51:40Z" in found.what
    assert "spent processing rows (addBatch)" in str(found.cause)


def test_a_rate_limit_is_named_as_what_holds_it_back() -> None:
    story = Story()
    for step in range(60):
        story.tell(sources=[topic(3000 * step, 1000 * step)], numInputRows=1000)

    (found,) = story.found()
    assert found.slug == "falling-behind"
    assert "max_rows" in str(found.cause)


def test_a_backlog_that_shrinks_is_no_finding() -> None:
    story = Story()
    for step in range(60):
        story.tell(
            sources=[topic(100_000 + 500 * step, 1500 * step)],
            numInputRows=1500,
            durationMs={"triggerExecution": 9900, "addBatch": 9500},
        )

    assert story.slugs() == []


def test_batches_that_only_get_longer_are_falling_behind_where_no_lag_is_known() -> None:
    story = Story()
    took_s = 2.0
    for _ in range(20):
        took_ms = {"triggerExecution": took_s * 1000, "addBatch": took_s * 1000}
        story.tell(took_s, durationMs=took_ms)
        took_s *= 1.2

    assert story.slugs() == ["falling-behind"]


def test_the_past_of_a_former_run_counts() -> None:
    before = Story("logs.quarantine").batches(60, **quarantine(100, 0))
    past = {name: query.series for name, query in before.view.queries.items()}
    story = replace(before, view=RunView(past=past), batch=0)

    story.batches(8, **quarantine(100, 20))

    assert story.slugs() == ["many-quarantined"]


def test_a_query_that_has_ended_is_not_judged() -> None:
    story = Story("logs.quarantine").batches(30, **quarantine(100, 100))
    ended = Event(story.at, EventKind.QUERY_TERMINATED, "logs.quarantine", {})

    story.view = fold(story.view, ended, story.at)

    assert story.found() == ()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_noisy_query_reports_nothing_in_24_hours(seed: int) -> None:
    """Day and night, bursts, quiet hours, a few bad and late rows, a backlog after a pause, state
    that breathes: looked at after every batch."""
    dice = random.Random(seed)
    story, quarantined = Story(), Story("logs.quarantine")
    state, offset, waiting = 2_000, 0, 0
    found: list[tuple[float, str]] = []
    for step in range(24 * 60 * 2):  # a batch each 30 s
        hour = step / 120
        rate = 40 * (1.3 + math.sin(hour / 24 * 2 * math.pi)) * dice.lognormvariate(0, 0.4)
        burst = 20 if dice.random() < 0.002 else 1
        arrived = int(rate * 30 * burst) if not 12.0 < hour < 12.2 else 0
        waiting += arrived
        rows = min(waiting, 12_000)
        waiting -= rows
        offset += rows
        removed = int(state * dice.uniform(0.02, 0.08))
        state += min(rows // 5, 400) - removed
        at = story.at + 30
        body: Mapping[str, Any] = {
            "numInputRows": rows,
            "sources": [{**topic(offset + waiting, offset), "numInputRows": rows}],
            "durationMs": {"triggerExecution": 500 + rows, "addBatch": 300 + rows},
            **event_time(at - 1, at - 20, at - 620),
            **operator(
                max(state, 0),
                removed,
                late=sum(dice.random() < 0.004 for _ in range(rows % 500)),
                updated=min(rows // 5, 400),
            ),
        }
        story.tell(30.0, **body)
        bad = sum(dice.random() < 0.006 for _ in range(min(rows, 400)))
        quarantined.tell(30.0, **quarantine(min(rows, 400), bad))
        if step % 10 == 0:
            found += [(hour, slug) for slug in (*story.slugs(), *quarantined.slugs())]

    assert found == []
