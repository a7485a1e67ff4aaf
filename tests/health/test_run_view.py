"""The fold of a run's events."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.health.run_view import BATCHES_REMEMBERED, QUERIES_MAX, RunView, fold, fold_all
from headrace.model.events import Event, EventKind


def progressed(at: float, batch: int, rows: int = 10, **more: object) -> Event:
    progress = {"batchId": batch, "numInputRows": rows, **more}
    return Event(at, EventKind.PROGRESSED, "q", {"progress": progress})


def test_a_run_tells_who_it_is_and_what_it_runs() -> None:
    view = fold_all(
        [
            Event(
                1, EventKind.RUN_STARTED, data={"pid": 10, "jvm_pid": 11, "spark_version": "4.2.0"}
            ),
            Event(2, EventKind.DEFINED, data={"queries": ["a", "b"]}),
            Event(3, EventKind.QUERY_STARTED, "a", {"id": "x", "guarantee": "exactly-once"}),
        ]
    )

    assert (view.pid, view.jvm_pid, view.last_line_at) == (10, 11, 3)
    assert list(view.queries) == ["a", "b"]
    assert view.queries["a"].guarantee == "exactly-once"
    assert not view.has_worked


def test_a_batch_that_is_reported_twice_counts_once() -> None:
    sink = {"numOutputRows": 4}

    view = fold_all([progressed(n, batch, sink=sink) for n, batch in enumerate((5, 5, 6, 5))])

    query = view.queries["q"]
    assert (query.batches, query.batch, query.rows_in, query.rows_out) == (2, 6, 20, 8)
    assert query.last_progress_at == 3
    assert view.has_committed


def test_a_query_that_starts_on_another_checkpoint_counts_its_batches_from_0_again() -> None:
    def started(at: float, id_: str) -> Event:
        return Event(at, EventKind.QUERY_STARTED, "q", {"id": id_})

    view = fold_all(
        [progressed(1, 0), started(2, "a"), progressed(3, 0), started(4, "b"), progressed(5, 0)]
    )

    assert (view.queries["q"].batches, view.queries["q"].rows_in) == (2, 20)


def test_a_sink_that_cannot_count_leaves_rows_out_unknown() -> None:
    view = fold_all([progressed(1, 0, sink={"numOutputRows": -1})])

    assert view.queries["q"].rows_out is None


def test_lag_is_the_sum_over_partitions_of_what_waits() -> None:
    source = {
        "endOffset": {"t": {"0": 10, "1": 20}},
        "latestOffset": {"t": {"0": 15, "1": 120}, "u": {"0": 3}},
    }
    known = {**source, "endOffset": {**source["endOffset"], "u": {"0": 3}}}

    assert fold_all([progressed(1, 0, sources=[known])]).queries["q"].lag_rows == 105
    assert fold_all([progressed(1, 0, sources=[source])]).queries["q"].lag_rows is None
    assert fold_all([progressed(1, 0, sources=[{"endOffset": 3}])]).queries["q"].lag_rows is None


def test_the_memory_of_batch_times_is_bounded() -> None:
    events = [progressed(n, n, durationMs={"triggerExecution": n}) for n in range(500)]

    query = fold_all(events).queries["q"]

    assert len(query.batch_ms) == BATCHES_REMEMBERED
    assert query.batch_ms_p95 is not None
    assert 490 <= query.batch_ms_p95 <= 499


def test_the_number_of_queries_is_bounded() -> None:
    events = [Event(1, EventKind.IDLED, f"q{n}") for n in range(QUERIES_MAX * 2)]

    assert len(fold_all(events).queries) == QUERIES_MAX


def test_limits_count_by_the_readers_time_and_people_read_the_drivers() -> None:
    view = fold(RunView(), Event(100.0, EventKind.IDLED, "q"), heard_at=7.0)
    view = fold(view, Event(101.0, EventKind.SAMPLED, data={"queries": {}}), heard_at=8.0)

    assert (view.heard_at, view.first_heartbeat_at, view.queries["q"].advanced_at) == (
        8.0,
        8.0,
        7.0,
    )
    assert (view.last_line_at, view.queries["q"].last_idle_at) == (101.0, 100.0)


def test_lines_that_make_no_sense_are_survived() -> None:
    strange = [
        Event(1, EventKind.RUN_STARTED, data={"pid": "ten"}),
        Event(1, EventKind.DEFINED, data={"queries": 7}),
        Event(1, EventKind.PROGRESSED, "q", {"progress": "soon"}),
        Event(
            1,
            EventKind.PROGRESSED,
            "q",
            {"progress": {"sources": [1, {}], "sink": [], "batchId": None}},
        ),
        Event(1, EventKind.PROGRESSED, None, {}),
        Event(1, EventKind.SAMPLED, data={"queries": ["q"]}),
        Event(1, EventKind.SAMPLED, data={"queries": {"q": "busy"}}),
        Event(1, EventKind.QUERY_STOPPED, "q", {"how": 3}),
    ]

    view = fold_all(strange)

    assert view.queries["q"].batches == 0
    assert view.pid is None


def test_memory_is_kept_from_the_last_heartbeat_that_tells_it() -> None:
    def sampled(at: float, **facts: object) -> Event:
        return Event(at, EventKind.SAMPLED, data={"queries": {}, **facts})

    view = fold_all(
        [
            sampled(1, memory=900, heap_used=500, heap_after_gc=200, heap_max=1000),
            sampled(2, heap_used=600),
        ]
    )

    assert (view.memory, view.heap_after_gc, view.heap_max) == (900, 200, 1000)
    for nonsense in ("much", -1, 10**40, float("nan"), [], True):
        bad = fold_all([sampled(3, memory=nonsense, heap_after_gc=nonsense)], view)
        assert (bad.memory, bad.heap_after_gc, bad.heap_max) == (None, None, 1000)


def test_waiting_for_a_trigger_is_progress_only_for_a_query_that_has_worked() -> None:
    waiting = {"queries": {"q": {"trigger_active": False, "data_available": False}}}
    begun = Event(1, EventKind.QUERY_STARTED, "q")

    opening = fold_all([begun, Event(9, EventKind.SAMPLED, data=waiting)])
    between = fold_all(
        [begun, Event(2, EventKind.IDLED, "q"), Event(9, EventKind.SAMPLED, data=waiting)]
    )

    assert opening.queries["q"].advanced_at == 1
    assert between.queries["q"].advanced_at == 9


def test_the_end_of_queries_is_kept() -> None:
    view = fold_all(
        [
            Event(1, EventKind.DRAIN_STARTED, data={"reason": "asked"}),
            Event(2, EventKind.QUERY_STOPPED, "q", {"batch": 4, "how": "clean"}),
        ]
    )

    assert (view.queries["q"].stopped, view.queries["q"].stopped_batch) == ("clean", 4)
    assert view.draining_at == 1


def aged(at: float, batch: int, age_ms: float, n: int = 10) -> Event:
    fresh = {"basis": "arrival", "n": n, "newest_ms": age_ms, "ages": [[age_ms, 100]]}
    return Event(at, EventKind.PROGRESSED, "q", {"progress": {"batchId": batch}, "fresh": fresh})


def test_freshness_is_over_the_last_batches_by_their_rows() -> None:
    view = fold_all([aged(1, 0, 500, n=10), aged(2, 1, 9_000, n=90), progressed(3, 2, rows=0)])

    query = view.queries["q"]
    assert (query.fresh.p50_ms, query.fresh.p99_ms, query.fresh.basis) == (9_000, 9_000, "arrival")
    assert query.newest_at == 2 - 9.0


def test_a_run_that_never_said_how_old_its_rows_were_is_not_known_to_be_fresh() -> None:
    query = fold_all([progressed(1, 0)]).queries["q"]

    assert (query.fresh.p50_ms, query.fresh.p99_ms, query.newest_at) == (None, None, None)


def test_after_a_quarter_of_an_hour_with_nothing_to_do_old_ages_are_forgotten() -> None:
    events = [aged(1, 0, 500), Event(800, EventKind.IDLED, "q"), Event(950, EventKind.IDLED, "q")]

    assert fold_all(events[:2]).queries["q"].fresh.p99_ms == 500
    late = fold_all(events).queries["q"]
    assert (late.fresh.p99_ms, late.newest_at) == (None, 0.5)


def test_a_real_time_query_is_not_measured_at_the_end_of_its_long_batch() -> None:
    started = Event(0, EventKind.QUERY_STARTED, "q", {"batch_length_s": 60})

    assert fold_all([started, aged(1, 0, 500)]).queries["q"].fresh.samples == ()


def test_late_rows_add_up_over_operators_and_batches() -> None:
    def late(at: float, batch: int, *counts: object) -> Event:
        operators = [{"numRowsDroppedByWatermark": count} for count in counts]
        return progressed(at, batch, stateOperators=operators)

    query = fold_all([late(1, 0, 3, 4), late(2, 1, 5), late(3, 2, -1, "x", None)]).queries["q"]

    assert query.late_rows == 12


def test_what_was_promised_and_what_comes_first_is_known_from_the_start() -> None:
    facts = {"fresh_within_s": 60, "after": ["history", 7]}

    query = fold_all([Event(1, EventKind.QUERY_STARTED, "q", facts)]).queries["q"]

    assert (query.fresh_within_s, query.after) == (60.0, ("history",))


def test_data_waits_from_the_look_that_found_it_until_its_commit() -> None:
    def looked(at: float, data: bool, active: bool) -> Event:
        status = {"data_available": data, "trigger_active": active}
        return Event(at, EventKind.SAMPLED, data={"queries": {"q": status}})

    events = [
        Event(0, EventKind.QUERY_STARTED, "q"),
        looked(1, False, False),
        looked(2, True, True),
        looked(30, True, True),
        progressed(40, 0),
        looked(50, True, False),  # Spark says so until its next look
        looked(60, True, True),
    ]

    clear = [fold_all(events[: n + 1]).queries["q"].clear_at for n in range(len(events))]
    assert clear == [0, 1, 1, 1, 40, 50, 50]


def test_rows_a_second_count_from_the_batch_before_and_not_from_sparks_last_look() -> None:
    """As Spark 4.2 tells of 10 rows a second: it looks every 11 ms, and counts from there."""
    looks = {"inputRowsPerSecond": 909.1, "processedRowsPerSecond": 45.0}
    events = [
        progressed(n, n, timestamp=f"2026-01-01T00:00:{n:02}.000Z", **looks) for n in range(1, 6)
    ]

    first, later = fold_all(events[:1]).queries["q"], fold_all(events).queries["q"]

    assert first.input_rate is None
    assert (later.input_rate, later.behind_streak) == (10.0, 0)


def test_rows_after_a_silence_count_from_its_end() -> None:
    begun = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    view = fold_all(
        [
            progressed(begun + 1, 0, timestamp="2026-01-01T00:00:00Z"),
            Event(begun + 3600, EventKind.IDLED, "q"),
            progressed(begun + 3606, 1, rows=500, timestamp="2026-01-01T01:00:05Z"),
        ]
    )

    assert view.queries["q"].input_rate == 100.0


def test_more_rows_than_are_processed_still_make_a_query_late() -> None:
    slower = [
        progressed(
            n, n, rows=100, timestamp=f"2026-01-01T00:00:{n:02}Z", processedRowsPerSecond=50.0
        )
        for n in range(4)
    ]

    assert fold_all(slower).queries["q"].behind_streak == 3
