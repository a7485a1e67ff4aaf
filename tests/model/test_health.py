"""States and their words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.model import health
from headrace.model.events import Event, Kind
from headrace.model.health import Stall, Subject
from headrace.model.limits import WatchdogLimits
from headrace.model.runs import Desired, Exit
from headrace.model.runview import QueryView, RunView, fold_all
from headrace.model.status import State

WANTED = Desired("orders", "running", "v1", "dev", "orders.py", by="ann")
WORKING = QueryView("q", batches=3, last_rows_in=100)


def seen(**query: object) -> Subject:
    return Subject(WANTED, RunView(pid=1, queries={"q": replace(WORKING, **query)}))


@pytest.mark.parametrize(
    ("subject", "state", "words"),
    [
        (Subject(WANTED), State.STARTING, "is about to start"),
        (Subject(WANTED, RunView()), State.STARTING, "the driver starts"),
        (Subject(WANTED, RunView(pid=1)), State.STARTING, "Spark starts"),
        (seen(batches=0), State.STARTING, "first batch of q"),
        (seen(batches=0, last_idle_at=5.0), State.RUNNING, "1 query"),
        (seen(), State.RUNNING, "1 query"),
        (seen(lag_rows=100), State.RUNNING, "1 query"),
        (seen(lag_rows=12_000), State.CATCHING_UP, "q 12,000 rows behind"),
        (
            seen(lag_rows=12_000, processing_rate=150.0, input_rate=50.0),
            State.CATCHING_UP,
            "q 12,000 rows behind, 2 min to go",
        ),
        (
            seen(behind_streak=3, input_rate=900.0, processing_rate=500.0),
            State.CATCHING_UP,
            "q 900 rows/s come in, 500 are processed",
        ),
        (replace(seen(), stopping="stopped by ann"), State.STOPPING, "stopped by ann"),
        (
            replace(seen(), stalls=(Stall("q", 360, 300, 600, True),)),
            State.STALLED,
            "no batch of q for 6 min while data is waiting",
        ),
        (
            replace(seen(batches=0), stalls=(Stall("q", 360, 300, 600, True, is_first=True),)),
            State.STALLED,
            "no first batch of q within 6 min of its start",
        ),
        (Subject(WANTED, aside="left alone"), State.STOPPED, "left alone"),
        (Subject(WANTED, RunView(pid=1), aside="left alone"), State.STARTING, "Spark starts"),
        (
            Subject(WANTED, next_start_at=112.0, next_attempt=4, because="the broker is away"),
            State.WAITING,
            "starts again in 12 s, attempt 4, because the broker is away",
        ),
        (
            Subject(WANTED, attention="there is no Java"),
            State.NEEDS_ATTENTION,
            "there is no Java",
        ),
        (
            Subject(WANTED, last=Exit("finished", 0, 1.0)),
            State.FINISHED,
            "all queries have read what there was",
        ),
        (
            Subject(replace(WANTED, wanted="stopped"), last=Exit("drained", 0, 1.0)),
            State.STOPPED,
            "stopped by ann, at a batch boundary",
        ),
        (
            Subject(
                replace(WANTED, wanted="stopped"),
                last=Exit("cut", 1, 1.0, queries={"q": {"how": "cut"}, "r": {"how": "clean"}}),
            ),
            State.STOPPED,
            "stopped by ann, in the middle of a batch of q",
        ),
        (
            Subject(replace(WANTED, wanted="stopped"), attention="no Java"),
            State.STOPPED,
            "stopped by ann",
        ),
    ],
)
def test_a_situation_has_one_state_and_words(subject: Subject, state: State, words: str) -> None:
    assert health.judge(subject, 100.0) == (state, words)


def test_a_stopped_query_says_how_and_where() -> None:
    subject = seen(stopped="clean", stopped_batch=8)

    (row,) = health.query_statuses(subject)

    assert row.state == "stopped"
    assert subject.view is not None
    query = subject.view.queries["q"]
    assert health.judge_query(query, subject) == (State.STOPPED, "clean at batch 8")


def test_the_limit_of_a_stall_grows_with_the_usual_batch() -> None:
    limits = WatchdogLimits(stall_s=10.0, stall_batches=5.0)
    view = fold_all(
        [
            Event(0, Kind.PROGRESSED, "q", {"progress": {"batchId": 1, "batchDuration": 4000}}),
            Event(1, Kind.SAMPLED, data={"queries": {"q": {"trigger_active": True}}}),
        ]
    )

    assert health.stalls(view, limits, 19.9) == ()
    (stall,) = health.stalls(view, limits, 20.0)
    assert (stall.limit_s, stall.kill_s, stall.is_hopeless) == (20.0, 40.0, False)
    assert health.stalls(view, limits, 40.0)[0].is_hopeless


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.25, "0.2 s"), (12, "12 s"), (119, "119 s"), (360, "6 min"), (7200, "2 h")],
)
def test_durations_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert health.span(seconds) == words


def test_every_ending_has_a_cause_in_words() -> None:
    for ending in ("finished", "drained", "cut", "failed", "fenced", "vanished", "stalled"):
        words = health.cause(Exit(ending, 1, 0.0))

        assert words
        assert words[0].islower()
    told = Exit("failed", 1, 0.0, error={"what": "The broker is away.\nmore"})
    assert health.cause(told) == "the broker is away"
