"""The fold of a run's events."""

from __future__ import annotations

from headrace.model.events import Event, Kind
from headrace.model.runview import BATCHES_REMEMBERED, QUERIES_MAX, RunView, fold, fold_all


def progressed(at: float, batch: int, rows: int = 10, **more: object) -> Event:
    progress = {"batchId": batch, "numInputRows": rows, **more}
    return Event(at, Kind.PROGRESSED, "q", {"progress": progress})


def test_a_run_tells_who_it_is_and_what_it_runs() -> None:
    view = fold_all(
        [
            Event(1, Kind.RUN_STARTED, data={"pid": 10, "jvm_pid": 11, "spark_version": "4.2.0"}),
            Event(2, Kind.DEFINED, data={"queries": ["a", "b"]}),
            Event(3, Kind.QUERY_STARTED, "a", {"id": "x", "guarantee": "exactly-once"}),
        ]
    )

    assert (view.pid, view.jvm_pid, view.last_line_at) == (10, 11, 3)
    assert list(view.queries) == ["a", "b"]
    assert view.queries["a"].guarantee == "exactly-once"
    assert not view.has_worked


def test_batches_are_counted_once_and_rows_add_up() -> None:
    sink = {"numOutputRows": 4}

    view = fold_all([progressed(1, 5, sink=sink), progressed(2, 5), progressed(3, 6, sink=sink)])

    query = view.queries["q"]
    assert (query.batches, query.batch, query.rows_in, query.rows_out) == (2, 6, 30, 8)
    assert view.has_committed


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
    events = [Event(1, Kind.IDLED, f"q{n}") for n in range(QUERIES_MAX * 2)]

    assert len(fold_all(events).queries) == QUERIES_MAX


def test_limits_count_by_the_readers_time_and_people_read_the_drivers() -> None:
    view = fold(RunView(), Event(100.0, Kind.IDLED, "q"), heard_at=7.0)
    view = fold(view, Event(101.0, Kind.SAMPLED, data={"queries": {}}), heard_at=8.0)

    assert (view.heard_at, view.first_heartbeat_at, view.queries["q"].advanced_at) == (
        8.0,
        8.0,
        7.0,
    )
    assert (view.last_line_at, view.queries["q"].last_idle_at) == (101.0, 100.0)


def test_lines_that_make_no_sense_are_survived() -> None:
    strange = [
        Event(1, Kind.RUN_STARTED, data={"pid": "ten"}),
        Event(1, Kind.DEFINED, data={"queries": 7}),
        Event(1, Kind.PROGRESSED, "q", {"progress": "soon"}),
        Event(
            1, Kind.PROGRESSED, "q", {"progress": {"sources": [1, {}], "sink": [], "batchId": None}}
        ),
        Event(1, Kind.PROGRESSED, None, {}),
        Event(1, Kind.SAMPLED, data={"queries": ["q"]}),
        Event(1, Kind.SAMPLED, data={"queries": {"q": "busy"}}),
        Event(1, Kind.QUERY_STOPPED, "q", {"how": 3}),
    ]

    view = fold_all(strange)

    assert view.queries["q"].batches == 0
    assert view.pid is None


def test_waiting_for_a_trigger_is_progress_only_for_a_query_that_has_worked() -> None:
    waiting = {"queries": {"q": {"trigger_active": False, "data_available": False}}}
    begun = Event(1, Kind.QUERY_STARTED, "q")

    opening = fold_all([begun, Event(9, Kind.SAMPLED, data=waiting)])
    between = fold_all([begun, Event(2, Kind.IDLED, "q"), Event(9, Kind.SAMPLED, data=waiting)])

    assert opening.queries["q"].advanced_at == 1
    assert between.queries["q"].advanced_at == 9


def test_the_end_of_queries_is_kept() -> None:
    view = fold_all(
        [
            Event(1, Kind.DRAIN_STARTED, data={"reason": "asked"}),
            Event(2, Kind.QUERY_STOPPED, "q", {"batch": 4, "how": "clean"}),
            Event(3, Kind.THINNED, data={"skipped": 12}),
            Event(4, Kind.EXITED, data={"ending": "drained"}),
        ]
    )

    assert (view.queries["q"].stopped, view.queries["q"].stopped_batch) == ("clean", 4)
    assert (view.drain_reason, view.skipped_lines) == ("asked", 12)
    assert view.exited == {"ending": "drained"}
