"""What is old goes, in bites; what is open or running stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.alerts import OpenAlert
from headrace.model.progress import from_spark
from headrace.model.requests import Request
from headrace.model.runs import Exit, RunSpec
from headrace.store import alerts, audit, db, events, progress, retention, runs
from headrace.store.retention import DAY_S, RetentionLimits

NOW = 1_700_000_000.0


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[db.Store]:
    opened = db.open_history(tmp_path / "history.db")
    yield opened
    opened.close()


def add_progress(conn: db.Store, age_days: float, batch: int) -> None:
    body = {"batchId": batch, "numInputRows": 1}
    progress.add(conn, "p", "r", "q", NOW - age_days * DAY_S, from_spark(body))


def counted(conn: db.Store, table: str) -> int:
    return int(db.rows(conn, f"SELECT count(*) AS n FROM {table}")[0]["n"])  # noqa: S608


def test_each_kind_of_progress_has_its_own_age(conn: db.Store) -> None:
    for batch, age_days in enumerate([401, 399, 31, 29, 4, 2]):
        add_progress(conn, age_days, batch)

    retention.prune(conn, NOW)

    assert [r.batch for r in progress.newest(conn, "p", "q")] == [5]
    assert counted(conn, "progress_minute") == 3
    assert counted(conn, "progress_hour") == 5


def test_raw_rows_above_the_limit_go_oldest_first_in_bites(conn: db.Store) -> None:
    for batch in range(50):
        add_progress(conn, 0.001, batch)

    gone = retention.prune(conn, NOW, RetentionLimits(raw_rows_max=10, bite_rows=7))

    assert gone["progress"] == 40
    assert [r.batch for r in progress.newest(conn, "p", "q")] == list(range(40, 50))


def test_a_clock_that_jumped_back_takes_nothing_away(conn: db.Store) -> None:
    for batch in range(5):
        add_progress(conn, 0, batch)

    gone = retention.prune(conn, NOW - 1000 * DAY_S)

    assert set(gone.values()) == {0}


def test_old_events_go_in_bites_and_new_ones_stay(conn: db.Store) -> None:
    for number in range(20):
        events.add(conn, NOW - 31 * DAY_S, "p", None, "kind", f"old {number}")
    events.add(conn, NOW - 29 * DAY_S, "p", None, "kind", "new")

    gone = retention.prune(conn, NOW, RetentionLimits(bite_rows=3))

    assert gone["events"] == 20
    assert [e.text for e in events.recent(conn)] == ["new"]


def test_too_many_events_go_oldest_first(conn: db.Store) -> None:
    for number in range(20):
        events.add(conn, NOW, "p", None, "kind", str(number))

    retention.prune(conn, NOW, RetentionLimits(events_rows_max=5))

    assert [e.text for e in events.recent(conn)] == ["15", "16", "17", "18", "19"]


def test_a_run_that_has_not_ended_is_never_taken_away(conn: db.Store) -> None:
    for run in ("old", "living"):
        runs.record_start(conn, RunSpec(run, "p", "", "", "v", "dev", "p.py", at=1.0))
    runs.record_end(conn, "old", Exit("failed", 1, 2.0), 2.0)

    retention.prune(conn, NOW)

    assert [r.name for r in runs.list_runs(conn)] == ["living"]


def test_old_audit_entries_go(conn: db.Store) -> None:
    audit.add(conn, Request("1", "stop", "ann", NOW - 401 * DAY_S), "old")
    audit.add(conn, Request("2", "stop", "ann", NOW), "new")

    retention.prune(conn, NOW)

    assert [e.text for e in audit.list_entries(conn)] == ["new"]


def test_an_open_alert_is_never_taken_away(tmp_path: Path) -> None:
    conn = db.open_alerts(tmp_path / "alerts.db")
    for key in ("open", "resolved"):
        alerts.open_once(conn, OpenAlert(key, "rule", "p", "title"), 1.0)
    alerts.resolve(conn, "resolved", 2.0)

    gone = retention.prune_alerts(conn, NOW)

    assert gone == 1
    assert [a.key for a in alerts.list_alerts(conn, "all")] == ["open"]
    conn.close()


def test_space_is_given_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    conn = db.open_history(path)
    with db.transaction(conn):
        for number in range(2000):
            events.add(conn, 1.0, "p", None, "kind", "words " * 50 + str(number))
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.stat().st_size

    retention.prune(conn, NOW)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    assert path.stat().st_size < before / 2
    conn.close()
