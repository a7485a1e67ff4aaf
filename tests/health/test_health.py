"""States and their words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.health import judgement
from headrace.health.judgement import Stall, Subject
from headrace.health.run_view import QueryView, RunView, fold_all
from headrace.model import times
from headrace.model.events import Event, EventKind
from headrace.model.freshness import AgeSample, AgeWindow
from headrace.model.limits import WatchdogLimits
from headrace.model.runs import Desired, Exit
from headrace.model.status import State

WANTED = Desired("orders", "running", "v1", "dev", "orders.py", by="ann")
WORKING = QueryView("q", batches=3, last_rows_in=100)


def seen(**query: object) -> Subject:
    return Subject(WANTED, RunView(pid=1, queries={"q": replace(WORKING, **query)}))


@pytest.mark.parametrize(
    ("subject", "state", "words"),
    [
        (Subject(WANTED), State.STARTING, "about to start"),
        (Subject(WANTED, RunView()), State.STARTING, "the driver is starting"),
        (Subject(WANTED, RunView(pid=1)), State.STARTING, "Spark is starting"),
        (seen(batches=0), State.STARTING, "first batch of q"),
        (seen(batches=0, last_idle_at=5.0), State.RUNNING, "1 query"),
        (seen(), State.RUNNING, "1 query"),
        (seen(lag_rows=100), State.RUNNING, "1 query"),
        (seen(lag_rows=12_000), State.CATCHING_UP, "q 12,000 rows behind"),
        (
            seen(lag_rows=12_000, processing_rate=150.0, input_rate=50.0),
            State.CATCHING_UP,
            "q 12,000 rows behind, 2 min until caught up",
        ),
        (
            seen(behind_streak=3, input_rate=900.0, processing_rate=500.0),
            State.CATCHING_UP,
            "q 900 rows/s arrive, 500 are processed",
        ),
        (replace(seen(), stopping="stopped by ann"), State.STOPPING, "stopped by ann"),
        (
            replace(seen(), stalls=(Stall("q", 360, 600, True),)),
            State.STALLED,
            "q has not finished a batch for 6 min while data is waiting",
        ),
        (
            replace(seen(batches=0), stalls=(Stall("q", 360, 600, True, is_first=True),)),
            State.STALLED,
            "q did not finish its first batch within 6 min of starting",
        ),
        (Subject(WANTED, aside="left alone"), State.STOPPED, "left alone"),
        (Subject(WANTED, RunView(pid=1), aside="left alone"), State.STARTING, "Spark is starting"),
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
            "all queries have read all their input",
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
    assert judgement.judge(subject, 100.0) == (state, words)


def test_a_stopped_query_says_how_and_where() -> None:
    subject = seen(stopped="clean", stopped_batch=8)

    (row,) = judgement.query_statuses(subject, 100.0)

    assert row.state == "stopped"
    assert subject.view is not None
    query = subject.view.queries["q"]
    assert judgement.judge_query(query, subject) == (State.STOPPED, "clean at batch 8")


def asking(*seconds: float) -> Subject:
    """A query that asks its source for what is new, seen at these moments."""
    view = RunView(pid=1, queries={"q": WORKING})
    for at in seconds:
        status = {"message": "Getting offsets from KafkaV2[Subscribe[logs]]"}
        view = fold_all([Event(at, EventKind.SAMPLED, data={"queries": {"q": status}})], view)
    return Subject(WANTED, view)


def test_a_source_that_does_not_answer_is_told_and_not_called_running() -> None:
    assert judgement.judge(asking(100.0, 110.0), 110.0)[0] is State.RUNNING
    words = "q: its source has not answered for 20 s"
    assert judgement.judge(asking(100.0, 110.0, 120.0), 120.0) == (State.STALLED, words)


def test_a_source_that_answers_again_is_forgiven() -> None:
    subject = asking(100.0, 120.0)
    assert subject.view is not None
    status = {"message": "Processing new data"}
    heard = Event(121.0, EventKind.SAMPLED, data={"queries": {"q": status}})
    view = fold_all([heard], subject.view)

    assert judgement.judge(Subject(WANTED, view), 121.0)[0] is State.RUNNING


def test_a_real_time_query_runs_while_its_first_batch_does() -> None:
    def sampled(message: str) -> Subject:
        started = Event(0, EventKind.QUERY_STARTED, "q", {"batch_length_s": 60})
        status = {"q": {"message": message, "trigger_active": True}}
        heard = fold_all([started, Event(5, EventKind.SAMPLED, data={"queries": status})])
        return replace(seen(), view=heard)

    assert judgement.judge(sampled("Initializing sources"), 6)[0] is State.STARTING
    assert judgement.judge(sampled("Processing new data"), 6)[0] is State.RUNNING


def test_the_limit_of_a_stall_grows_with_the_usual_batch() -> None:
    limits = WatchdogLimits(stall_s=10.0, stall_batches=5.0)
    view = fold_all(
        [
            Event(
                0, EventKind.PROGRESSED, "q", {"progress": {"batchId": 1, "batchDuration": 4000}}
            ),
            Event(1, EventKind.SAMPLED, data={"queries": {"q": {"trigger_active": True}}}),
        ]
    )

    assert judgement.stalls(view, limits, 19.9) == ()
    (stall,) = judgement.stalls(view, limits, 20.0)
    assert (stall.kill_s, stall.is_hopeless) == (40.0, False)
    assert judgement.stalls(view, limits, 40.0)[0].is_hopeless


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.25, "0.2 s"), (12, "12 s"), (119, "119 s"), (360, "6 min"), (7200, "2 h")],
)
def test_durations_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert times.span(seconds) == words


def test_every_ending_has_a_cause_in_words() -> None:
    for ending in ("finished", "drained", "cut", "failed", "fenced", "vanished", "stalled"):
        words = judgement.cause(Exit(ending, 1, 0.0))

        assert words
        assert words[0].islower()
    told = Exit("failed", 1, 0.0, error={"what": "The broker is away.\nmore"})
    assert judgement.cause(told) == "the broker is away"


def aged(age_s: float, n: int = 10, basis: str = "arrival") -> AgeWindow:
    return AgeWindow((AgeSample(1.0, basis, n, ((age_s * 1000, 100),), age_s * 1000),))


PROMISED = {"fresh": aged(180), "fresh_within_s": 60.0}
WAITS = {"data_available": True, "trigger_active": True, "clear_at": 1.0}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (PROMISED, "p99 is 3 min; target 60 s"),
        ({**PROMISED, "fresh_within_s": 600.0}, None),
        ({**PROMISED, "fresh_within_s": None}, None),
        ({**PROMISED, "stopped": "clean"}, None),
        ({"fresh_within_s": 60.0}, None),  # not known is not broken
        (
            {"fresh_within_s": 30.0, **WAITS},
            "no result for 99 s while data is waiting; target 30 s",
        ),
        (
            {"fresh_within_s": 300.0, **WAITS},
            None,
        ),
        ({"fresh_within_s": 30.0, **WAITS, "trigger_active": False}, None),
    ],
)
def test_a_promise_is_broken_in_words(query: dict[str, object], words: str | None) -> None:
    subject = seen(**query)
    assert subject.view is not None

    assert judgement.broken_promise(subject.view, subject.view.queries["q"], 100.0) == words


def test_a_broken_promise_is_told_and_is_no_state() -> None:
    running, behind = seen(**PROMISED), seen(**PROMISED, lag_rows=12_000)

    said = "q: p99 is 3 min; target 60 s"
    assert judgement.judge(running, 100.0) == (State.RUNNING, f"1 query; {said}")
    assert judgement.judge(behind, 100.0) == (State.CATCHING_UP, f"q 12,000 rows behind; {said}")
    (row,) = judgement.query_statuses(running, 100.0)
    assert (row.state, row.fresh_p50_ms, row.fresh_p99_ms) == ("running", 180_000, 180_000)
    assert (row.fresh_within_s, row.broken_promise) == (
        60.0,
        "p99 is 3 min; target 60 s",
    )


def chain(*queries: QueryView) -> RunView:
    return RunView(pid=1, queries={query.name: query for query in queries})


def test_what_is_read_back_is_as_old_as_all_who_had_it_before() -> None:
    first, other = QueryView("first", fresh=aged(30)), QueryView("other", fresh=aged(50))
    second = QueryView("second", fresh=aged(5), after=("first", "other"))
    third = QueryView("third", fresh=aged(1), after=("second",))
    view = chain(first, other, second, third)

    assert judgement.freshness(view, first) == (30_000, 30_000)
    assert judgement.freshness(view, third) == (56_000, 56_000)


def test_the_newest_answer_is_as_old_as_its_record_and_not_as_the_file_between() -> None:
    first = QueryView("first", newest_at=10.0)
    second = QueryView("second", newest_at=30.0, after=("first",))
    third = QueryView("third", newest_at=40.0, after=("second", "unknown"))
    view = chain(first, second, third)

    assert [judgement.newest_at(view, query) for query in (first, second, third)] == [10.0] * 3
    assert judgement.newest_at(view, QueryView("none", after=("first",))) is None


def test_an_age_by_event_time_has_the_way_before_in_it() -> None:
    second = QueryView("second", fresh=aged(5, basis="event"), after=("first",))

    assert (
        judgement.freshness(chain(QueryView("first", fresh=aged(30)), second), second)[0] == 5_000
    )


@pytest.mark.parametrize("after", [("first",), ("gone",), ("second",)])
def test_an_unknown_way_before_makes_the_whole_unknown(after: tuple[str, ...]) -> None:
    second = QueryView("second", fresh=aged(5), after=after)

    assert judgement.freshness(chain(QueryView("first"), second), second) == (None, None)


def test_the_cost_of_a_million_rows_is_told_once_there_are_enough() -> None:
    def cost(rows: int, cpu_s: float | None = 41.237) -> float | None:
        queries = {name: QueryView(name, rows_in=rows // 2) for name in "ab"}
        return judgement.cpu_s_per_million_rows(RunView(queries=queries, cpu_s=cpu_s))

    assert cost(2_000_000) == 20.6
    assert cost(2_000) is None
    assert cost(2_000_000, None) is None
    assert judgement.cpu_s_per_million_rows(None) is None


def test_memory_in_a_status_moves_in_steps() -> None:
    view = RunView(memory=1_434_567_890, heap_after_gc=236_000_001, heap_max=954_728_448)

    assert judgement.memory(view) == {
        "heap_used_bytes": 240_000_000,
        "heap_max_bytes": 954_728_448,
        "rss_bytes": 1_430_000_000,
    }
    assert judgement.memory(None) == {}


def test_a_continuous_query_is_judged_by_its_epochs() -> None:
    """Spark says the same of it all the time: what counts is what it commits."""
    limits = WatchdogLimits(stall_s=10.0)
    status = {"message": "Running", "data_available": False, "trigger_active": True}

    def epoch(at: float, number: int) -> Event:
        progress = {"batchId": number, "numInputRows": 5}
        return Event(at, EventKind.PROGRESSED, "q", {"progress": progress, "epochs": 2})

    start = Event(0, EventKind.QUERY_STARTED, "q", {"batch_length_s": 1.0})
    sampled = [
        Event(at, EventKind.SAMPLED, data={"queries": {"q": status}}) for at in (5, 15, 25, 35)
    ]
    working = fold_all([start, sampled[0], epoch(6, 1), sampled[1], epoch(16, 3)])
    hung = fold_all(sampled[2:], working)

    assert working.queries["q"].batches == 4
    assert judgement.judge(Subject(WANTED, working), 16.0)[0] is State.RUNNING
    assert judgement.stalls(working, limits, 17.0) == ()
    assert [stall.query for stall in judgement.stalls(hung, limits, 36.0)] == ["q"]
    assert judgement.stalls(fold_all([start, *sampled]), limits, 36.0)[0].is_first
