"""Totals only grow: batches and runs count once, whatever is read again, pruned or restarted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.progress import Progress, from_spark
from headrace.model.runs import Exit, RunSpec
from headrace.store import db, migrations, progress, retention, runs, totals

DAY_S = 86_400.0


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[db.Store]:
    with closing(db.open_history(tmp_path / "history.db")) as conn:
        yield conn


def batch(number: int, *, rows: int = 10, out: int | None = 4, ms: float = 300.0) -> Progress:
    return from_spark(
        {
            "batchId": number, "numInputRows": rows, "sink": {"numOutputRows": out},
            "durationMs": {"triggerExecution": ms},
            "stateOperators": [
                {"numRowsTotal": 7 + number, "memoryUsedBytes": 700, "numRowsDroppedByWatermark": 2}
            ],
        }
    )  # fmt: skip


def add(conn: db.Store, number: int, run: str = "r1", at: float = 100.0, **facts: object) -> bool:
    counts = {"quarantine.bad": 3.0} if run == "r1" else None
    return progress.add(conn, "p", run, "q", at, batch(number, **facts), None, counts)  # type: ignore[arg-type]


def spec(run: str, restarts: int = 0) -> RunSpec:
    return RunSpec(run, "p", "/p", "/p/s", "v", "dev", "p.py", restarts=restarts, at=100.0)


def test_a_batch_counts_once_however_often_it_is_reported(conn: db.Store) -> None:
    assert [add(conn, n) for n in (0, 1, 1, 0)] == [True, True, False, False]
    add(conn, 2, run="r2", at=300.0)

    (found,) = totals.read_queries(conn)
    assert (found.batches, found.rows_in, found.rows_out, found.late) == (3, 30, 12, 6)
    assert found.quarantined == 6
    assert (found.at, found.state_rows, found.state_bytes, found.last_ms) == (300.0, 9, 700, 300.0)


def test_what_is_not_known_is_not_zero(conn: db.Store) -> None:
    progress.add(conn, "p", "r", "q", 1.0, from_spark({"batchId": 0, "numInputRows": 1}))

    (found,) = totals.read_queries(conn)
    assert (found.rows_out, found.quarantined, found.state_rows, found.last_ms) == (None,) * 4
    assert totals.read_durations(conn) == {}


def test_durations_are_counted_by_length(conn: db.Store) -> None:
    for number, ms in enumerate((50.0, 100.0, 101.0, 4e6)):
        add(conn, number, ms=ms)

    found = totals.read_durations(conn)["p", "q"]
    assert [(one.le_ms, one.batches, one.ms) for one in found] == [
        (100.0, 2, 150.0),
        (250.0, 1, 101.0),
        (float("inf"), 1, 4e6),
    ]


def test_totals_stay_when_the_rows_behind_them_are_pruned(conn: db.Store) -> None:
    for number in range(3):
        add(conn, number)
    runs.record_start(conn, spec("p-20260101T000000-a", restarts=1))
    runs.record_end(conn, "p-20260101T000000-a", Exit("failed", 1, 101.0, kind="data"), 101.0)

    retention.prune(conn, 100.0 + 399 * DAY_S)
    assert not add(conn, 1), "a pruned batch does not count again"

    assert totals.read_queries(conn)[0].batches == 3
    assert totals.read_pipelines(conn)["p", totals.RESTARTS] == {"": 1}

    retention.prune(conn, 102.0 + 400 * DAY_S)
    assert totals.read_queries(conn) == []
    assert totals.read_pipelines(conn) == {}


def test_restarts_and_failures_count_once_by_their_kind(conn: db.Store) -> None:
    first, second = "p-20260101T000000-a", "p-20260101T000001-b"
    for _ in range(2):
        runs.record_start(conn, spec(first))
        runs.record_end(conn, first, Exit("failed", 1, 5.0, kind="retry"), 5.0)
        runs.record_start(conn, spec(second, restarts=1))
        runs.record_end(conn, second, Exit("vanished", -9, 6.0), 6.0)
    runs.record_end(conn, "p-20260101T000002-c", Exit("drained", 0, 7.0), 7.0)
    runs.record_end(conn, "p-20260101T000003-d", Exit("cut", 1, 8.0), 8.0)

    found = totals.read_pipelines(conn)
    assert found["p", totals.RESTARTS] == {"": 1}
    assert found["p", totals.FAILURES] == {"retry": 1, "vanished": 1}


def test_an_older_history_keeps_its_totals(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as old:
        for step in migrations.HISTORY.steps[:3]:
            for statement in step:
                old.execute(statement)
        for hour in (0, 3600):
            old.execute(
                "INSERT INTO progress_hour (pipeline, query, start, batches, rows_in, rows_in_min,"
                " rows_in_max, rows_out, dropped) VALUES ('p', 'q', ?, 5, 50, 1, 20, NULL, 2)",
                (hour,),
            )
        for run, body in (("a", '{"restarts": 2}'), ("b", '{"restarts": 0}'), ("c", "torn")):
            old.execute(
                "INSERT INTO runs (run, pipeline, version, profile, attempt, started_at, spec)"
                " VALUES (?, 'p', '', '', 1, 5.0, ?)",
                (run, body),
            )
        old.execute(f"PRAGMA application_id = {migrations.HISTORY.application_id}")
        old.execute("PRAGMA user_version = 3")
        old.commit()

    with closing(db.open_history(path)) as conn:
        assert conn.note is None
        add(conn, 0, at=7200.0)
        (found,) = totals.read_queries(conn)
        restarts = totals.read_pipelines(conn)["p", totals.RESTARTS]

    assert (found.batches, found.rows_in, found.rows_out, found.late) == (11, 110, 4, 6)
    assert restarts == {"": 1}
