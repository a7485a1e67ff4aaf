"""Every story of histories.py, decided by the policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.model.runs import Ending, Exit, PastRun, RunSpec
from headrace.supervisor import decision_rules, restarts
from headrace.supervisor.situation import (
    Cut,
    Decision,
    Drain,
    DumpThreads,
    GiveUp,
    Hold,
    Kill,
    Launch,
    Reap,
    Wait,
)
from supervisor import rule_alerts
from supervisor.histories import STORIES, WANTED, Story, situation


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_story(story: Story) -> None:
    seen, now = situation(story, decision_rules.decide)

    decisions = decision_rules.decide(seen, now)
    alerts = rule_alerts.changes(seen, decisions, story.open_alerts, now)

    recorded = [in_words(decision, now) for decision in decisions]
    recorded += [f"open {alert.rule}" for alert in alerts.opened]
    recorded += [f"resolve {key}" for key in alerts.resolved]

    assert len(recorded) == len(story.expect), recorded
    for said, expected in zip(recorded, story.expect, strict=True):
        verdict, colon, reason = expected.partition(": ")
        is_exact = not colon and not expected.startswith("hold")
        assert said == expected if is_exact else verdict in said and reason in said, recorded


def test_the_same_situation_gives_the_same_decisions() -> None:
    for story in STORIES:
        seen, now = situation(story, decision_rules.decide)

        assert decision_rules.decide(seen, now) == decision_rules.decide(seen, now)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a crash waits a second", "hold not ours"),
        ("a new pipeline is started at once", "hold not ours"),
        ("nothing starts while the old JVM lives", "hold not ours"),
        ("down drains", "hold not ours"),
        ("silence for fifty seconds is death", "hold not ours"),
        ("what has read everything is finished", "hold finished"),
        ("what a person stopped stays stopped, whatever happened before", "hold stopped"),
    ],
)
def test_a_pipeline_of_another_supervisor_is_left_alone(name: str, expected: str) -> None:
    seen, now = situation(next(s for s in STORIES if s.name == name), decision_rules.decide)

    assert [in_words(one, now) for one in decision_rules.leave_alone(seen, "not ours", now)] == [
        expected
    ]


def test_one_that_needs_a_person_still_says_so_when_it_is_left_alone() -> None:
    story = next(s for s in STORIES if s.name == "nor is a machine that is not ready")
    seen, now = situation(story, decision_rules.decide)

    (verdict,) = decision_rules.leave_alone(seen, "not ours", now)

    assert isinstance(verdict, GiveUp)


def test_story_names_are_told_once() -> None:
    names = [story.name for story in STORIES]

    assert len(names) == len(set(names)) >= 40


def in_words(decision: Decision, now: float) -> str:
    match decision:
        case Launch(attempt, _):
            return f"launch attempt {attempt}"
        case Wait(until, _, None):
            return f"wait {until - now:g} s"
        case Wait(until, _, attempt):
            return f"wait {until - now:g} s for attempt {attempt}"
        case GiveUp(reason):
            return f"give up: {reason}"
        case Hold(reason):
            return f"hold {reason}"
        case Drain(reason):
            return f"drain: {reason}"
        case Cut():
            return "cut"
        case Kill(reason, _):
            return f"kill: {reason}"
        case Reap(runs):
            return f"reap {' '.join(runs)}"
        case DumpThreads():
            return "dump threads"


@pytest.mark.parametrize(
    ("past", "is_behind", "is_left"),
    [
        ([], True, True),  # the first run leaves out whatever Spark finds missing
        ([(True, False)], True, True),  # it died before it came to anything
        ([(True, True)], True, False),
        ([(True, True)], False, True),  # it was killed within the gap
        ([(False, True)], True, True),  # a strict one, of before
    ],
)
def test_a_gap_is_accepted_until_a_run_has_passed_it(
    past: list[tuple[bool, bool]], is_behind: bool, is_left: bool
) -> None:
    gaps = ({"topic": "logs"},)
    desired = replace(WANTED, accepted_gaps=gaps)
    spec = RunSpec("r", "orders", "/p", "/s", "v1", "dev", "orders.py")
    runs = [
        PastRun(
            replace(spec, accepted_gaps=gaps if accepts else None),
            Exit(Ending.VANISHED, -1, 0.0),
            0.0,
            has_worked=worked,
        )
        for accepts, worked in past
    ]

    left = restarts.gaps_left(desired, runs, lambda found: is_behind and found == gaps)

    assert left == (gaps if is_left else None)
    assert restarts.gaps_left(WANTED, runs, lambda _: False) is None
