"""Runs, events, pipelines, audit, alerts: once is once, and odd names come back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StoreError
from headrace.model.alerts import OpenAlert
from headrace.model.requests import Request
from headrace.model.runs import Exit, RunSpec
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.store import alerts, audit, db, events, pipeline_status, runs

ODD = [
    "it's",
    'say "x"',
    "100%",
    "a_b%",
    "a;DROP TABLE runs;--",
    "ünïcode",
    "日本",
    "a\x00b",
    "",
    "\\",
]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[db.Store]:
    conn = db.open_history(tmp_path / "history.db")
    yield conn
    conn.close()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[db.Store]:
    conn = db.open_alerts(tmp_path / "alerts.db")
    yield conn
    conn.close()


def spec(run: str = "p-20250101T000000-aaaa", at: float = 10.0, pipeline: str = "p") -> RunSpec:
    return RunSpec(run, pipeline, "/project", "/state", "v", "dev", "p.py", attempt=2, at=at)


def open_one(conn: db.Store, key: str = "k", at: float = 1.0, title: str = "t") -> bool:
    return alerts.open_once(conn, OpenAlert(key, "rule", "p", title, "critical", "q", {"n": 1}), at)


def test_a_run_is_recorded_from_its_start_to_its_end(history: db.Store) -> None:
    runs.record_start(history, spec())
    runs.record_end(history, spec().run, Exit("failed", 1, 19.0, query="q", batch=4), 20.0)

    run = runs.list_runs(history, "p")[0]

    assert (run.started_at, run.ended_at) == (10.0, 20.0)
    assert run.spec.attempt == 2
    assert run.exit == Exit("failed", 1, 20.0, query="q", batch=4)


def test_a_second_start_or_end_of_a_run_changes_nothing(history: db.Store) -> None:
    starts = [runs.record_start(history, spec()), runs.record_start(history, spec(at=99.0))]
    ends = [
        runs.record_end(history, spec().run, Exit("failed", 1, 1.0), 20.0),
        runs.record_end(history, spec().run, Exit("drained", 0, 1.0), 30.0),
    ]

    run = runs.list_runs(history)[0]

    assert starts == ends == [True, False]
    assert (run.started_at, run.ended_at) == (10.0, 20.0)


def test_the_end_of_a_run_that_a_new_history_does_not_know_is_kept(history: db.Store) -> None:
    runs.record_end(history, "my-pipe-20250101T000000-aaaa", Exit("vanished", 1, 1.0), 20.0)

    run = runs.list_runs(history, "my-pipe")[0]

    assert (run.started_at, run.exit) == (None, Exit("vanished", 1, 20.0))


def test_a_start_that_comes_after_its_end_is_filled_in(history: db.Store) -> None:
    runs.record_end(history, spec().run, Exit("finished", 0, 1.0), 20.0)
    runs.record_start(history, spec())

    run = runs.list_runs(history, "p")[0]

    assert (run.started_at, run.spec.version, run.ended_at) == (10.0, "v", 20.0)


def test_runs_are_listed_newest_first_and_limited(history: db.Store) -> None:
    for number in range(5):
        runs.record_start(history, spec(f"p-{number}", at=float(number)))
    runs.record_start(history, spec("other", at=9.0, pipeline="other"))

    assert [r.name for r in runs.list_runs(history, "p", limit=2)] == ["p-4", "p-3"]
    assert runs.list_runs(history)[0].name == "other"


def test_recent_events_come_in_order_and_can_be_followed(history: db.Store) -> None:
    for number in range(5):
        events.add(history, float(number), "p", None, "kind", f"event {number}", {"n": number})
    first = events.recent(history, "p", limit=2)

    events.add(history, 9.0, "p", None, "kind", "event 9")
    events.add(history, 9.0, "other", None, "kind", "not mine")
    then = events.recent(history, "p", limit=10, after=first[-1].id)

    assert [e.text for e in first] == ["event 3", "event 4"]
    assert [e.text for e in then] == ["event 9"]
    assert first[0].data == {"n": 3}


def test_huge_event_data_is_cut_and_says_so(history: db.Store) -> None:
    events.add(history, 1.0, "p", None, "kind", "text", {"big": "x" * 10_000_000, "small": 1})

    data = events.recent(history)[0].data

    assert data == {"small": 1, "trimmed": ["big"]}


def status(name: str = "p", why: str = "all is well") -> PipelineStatus:
    queries = (QueryStatus("q", "running", rows_in=5), QueryStatus("r", "stalled"))
    return PipelineStatus(name, "running", why, restarts=2, queries=queries)


def test_a_status_comes_back_as_it_was_put(history: db.Store) -> None:
    pipeline_status.put(history, status("b"))
    pipeline_status.put(history, status("a"))

    assert pipeline_status.read_all(history) == [status("a"), status("b")]
    assert pipeline_status.read(history, "b") == status("b")
    assert pipeline_status.read(history, "none") is None


def test_putting_the_same_status_writes_nothing(history: db.Store) -> None:
    put = [pipeline_status.put(history, s) for s in (status(), status(), status(why="else"))]

    assert put == [True, False, True]
    assert pipeline_status.read_all(history) == [status(why="else")]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"name": 1', '{"queries": [1]}', "{}"])
def test_a_status_row_that_cannot_be_read_is_left_out(history: db.Store, body: str) -> None:
    pipeline_status.put(history, status("good"))
    history.execute("INSERT INTO pipelines VALUES ('bad', ?)", (body,))

    assert [s.name for s in pipeline_status.read_all(history)] == ["good"]


def test_a_request_stands_in_the_audit_once(history: db.Store) -> None:
    request = Request("id1", "stop", "ann", 5.0, pipeline="p")

    added = [audit.add(history, request, "stopping p") for _ in range(2)]

    assert added == [True, False]
    entry = audit.list_entries(history, "p")[0]
    assert (entry.by, entry.what, entry.at, entry.text) == ("ann", "stop", 5.0, "stopping p")


def test_an_alert_opens_once_and_counts_what_follows(book: db.Store) -> None:
    opened = [open_one(book, at=t, title=f"t{t}") for t in (1.0, 2.0, 3.0)]

    alert = alerts.list_alerts(book, "open")[0]

    assert opened == [True, False, False]
    assert (alert.opened_at, alert.updated_at, alert.updates) == (1.0, 3.0, 2)
    assert (alert.title, alert.data, alert.reopened) == ("t3.0", {"n": 1}, 0)


def test_an_alert_is_resolved_once(book: db.Store) -> None:
    open_one(book)

    assert [alerts.resolve(book, "k", t) for t in (5.0, 6.0)] == [True, False]
    assert alerts.list_alerts(book, "open") == []
    assert alerts.list_alerts(book, "resolved")[0].resolved_at == 5.0


def test_resolving_what_never_opened_is_false(book: db.Store) -> None:
    assert not alerts.resolve(book, "k", 5.0)


def test_a_condition_that_comes_back_is_a_new_episode_and_is_counted(book: db.Store) -> None:
    for round_ in range(3):
        open_one(book, at=10.0 * round_)
        alerts.resolve(book, "k", 10.0 * round_ + 1)
    open_one(book, at=99.0)

    listed = alerts.list_alerts(book, "all")

    assert [a.reopened for a in listed] == [3, 2, 1, 0]
    assert len(alerts.list_alerts(book, "open")) == 1


@pytest.mark.thorough
@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=30))
def test_at_most_one_alert_a_key_is_open_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool]]
) -> None:
    conn = db.open_alerts(tmp_path_factory.mktemp("alerts") / "alerts.db")
    open_now: set[str] = set()
    with db.transaction(conn):  # one commit instead of thirty: they are synced
        for at, (key, is_opening) in enumerate(steps):
            if is_opening:
                assert open_one(conn, key, float(at)) == (key not in open_now)
                open_now.add(key)
            else:
                assert alerts.resolve(conn, key, float(at)) == (key in open_now)
                open_now.discard(key)
    assert sorted(a.key for a in alerts.list_alerts(conn, "open")) == sorted(open_now)
    conn.close()


@pytest.mark.parametrize("name", ODD)
def test_odd_names_come_back_as_they_were(history: db.Store, book: db.Store, name: str) -> None:
    pipeline_status.put(history, status(name))
    events.add(history, 1.0, name, name, "kind", name, {name: name})
    runs.record_start(history, spec(name, pipeline=name))
    open_one(book, key=name, title=name)
    events.add(history, 1.0, "another", None, "kind", "text")

    assert pipeline_status.read(history, name) == status(name)
    assert [(e.run, e.text, e.data) for e in events.recent(history, name)] == [
        (name, name, {name: name})
    ]
    assert [r.name for r in runs.list_runs(history, name)] == [name]
    assert alerts.list_alerts(book)[0].title == name
    assert alerts.resolve(book, name, 2.0)


def test_a_name_that_is_no_unicode_is_refused_and_nothing_is_written(history: db.Store) -> None:
    with pytest.raises(StoreError) as caught:
        events.add(history, 1.0, "bad\udcff", None, "kind", "text")

    assert caught.value.code == "bad-text"
    assert events.recent(history) == []


def test_a_text_whose_bytes_were_damaged_is_still_listed(history: db.Store) -> None:
    events.add(history, 1.0, "p", None, "kind", "text", {"n": 1})
    history.execute("UPDATE events SET text = CAST(x'ff41' AS TEXT), data = '{\"n\": '")

    event = events.recent(history, "p")[0]

    assert (event.text, event.data) == ("\ufffdA", {})
