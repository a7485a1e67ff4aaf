"""Live tables by name: the newest snapshot, whole, while the next ones are written."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.stage import eventually
from headrace import config
from headrace.connectors import live_snapshots
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.errors import SqlError
from headrace.explore import catalog, live_tables
from headrace.explore import query as questions
from headrace.explore.result import QueryResult
from headrace.model.pipeline import Definition, Query

SCHEMA = "minute int, logins bigint"
ROWS_MAX = 100


def asked(project: Path, text: str, *, schema: str | None = SCHEMA) -> QueryResult:
    sink = {"kind": "live", "path": str(folder(project)), "key": ["minute"], "rows": ROWS_MAX}
    query = Query("logins", "p.py:1", (), sink, "update", {}, None, "exactly-once", "", schema)
    known = Definition("demo", "dev", "v", "demo.py", (), (query,))
    return questions.ask(text, catalog.collect(config.load(project), [known]))


def folder(project: Path) -> Path:
    return project / "results" / "demo" / "logins" / "v1"


def rows(**columns: list[int]) -> pa.Table:
    return pa.table(columns)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "headrace.toml").write_text('[project]\nname = "test"\n')
    return tmp_path


@pytest.fixture
def table(project: Path) -> LiveSnapshots:
    return LiveSnapshots(folder(project), ("minute",), ROWS_MAX, {})


def test_the_newest_snapshot_is_the_table(project: Path, table: LiveSnapshots) -> None:
    for batch, minutes in enumerate(([1, 2], [2, 3])):
        new = rows(minute=minutes, logins=[10 + batch] * 2)
        table.add(batch, new, at=1_767_225_600.5 + batch, is_whole=False)
    (folder(project) / ".2.parquet.tmp").write_bytes(b"PAR1half")

    answer = asked(project, "SELECT * FROM logins ORDER BY minute")

    assert answer.rows == ((1, 10), (2, 11), (3, 11))
    (read,) = answer.tables
    assert (read.table, read.batch, read.at) == ("logins", 1, 1_767_225_601.5)


def test_batch_ten_is_newer_than_batch_nine(project: Path, table: LiveSnapshots) -> None:
    for batch in (8, 9, 10):
        table.add(batch, rows(minute=[1], logins=[batch]), at=float(batch), is_whole=True)

    assert asked(project, "SELECT logins FROM demo.logins").rows == ((10,),)


def test_a_snapshot_that_says_nothing_is_as_old_as_its_file(project: Path) -> None:
    folder(project).mkdir(parents=True)
    pq.write_table(rows(minute=[1], logins=[5]), folder(project) / "4.parquet")
    os.utime(folder(project) / "4.parquet", (1000.0, 1000.0))

    (read,) = asked(project, "SELECT * FROM logins").tables

    assert (read.at, read.batch) == (1000.0, None)


def test_before_the_first_snapshot_it_has_columns_and_no_rows(project: Path) -> None:
    answer = asked(project, "SELECT * FROM logins")

    assert (answer.columns, answer.rows) == (("minute", "logins"), ())
    assert answer.tables[0].at is None


def test_before_the_first_snapshot_unknown_columns_are_said(project: Path) -> None:
    with pytest.raises(SqlError) as caught:
        asked(project, "SELECT * FROM logins", schema=None)

    assert caught.value.code == "nothing-to-read"


def test_a_damaged_snapshot_is_told(project: Path) -> None:
    folder(project).mkdir(parents=True)
    (folder(project) / "0.parquet").write_bytes(b"PAR1 this is not the end")

    with pytest.raises(SqlError) as caught:
        asked(project, "SELECT * FROM logins")

    assert caught.value.code == "sql-failed"


@pytest.mark.thorough
def test_every_answer_is_of_one_batch_while_snapshots_come_and_go(
    project: Path, table: LiveSnapshots
) -> None:
    stop = threading.Event()

    def write() -> None:
        batch = 0
        while not stop.is_set():
            new = rows(minute=list(range(50)), logins=[batch] * 50)
            table.add(batch, new, at=float(batch + 1), is_whole=False)
            batch += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: live_snapshots.newest(folder(project)))
        answers = [
            asked(project, "SELECT min(logins), max(logins), count(*) FROM logins")
            for _ in range(15)
        ]
    finally:
        stop.set()
        writer.join()

    seen = [(answer.tables[0].batch, answer.rows[0]) for answer in answers]
    assert all(row == (batch, batch, 50) for batch, row in seen)
    assert [batch for batch, _ in seen] == sorted(batch for batch, _ in seen)
    assert seen[-1][0] > seen[0][0]


def test_a_snapshot_deleted_while_it_is_asked_about_is_read_to_its_end(
    project: Path, table: LiveSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between what DuckDB is allowed to read and its reading."""
    table.add(7, rows(minute=[1], logins=[5]), at=70.0, is_whole=True)
    lock = questions._restrict

    def lock_and_delete(conn: Any, scans: Any) -> None:
        lock(conn, scans)
        for path in folder(project).glob("*.parquet"):
            path.unlink()

    monkeypatch.setattr(questions, "_restrict", lock_and_delete)

    assert asked(project, "SELECT logins FROM logins").rows == ((5,),)
    assert list(folder(project).glob("*.parquet")) == []


def test_a_copy_outlives_the_snapshot(project: Path, table: LiveSnapshots, tmp_path: Path) -> None:
    table.add(7, rows(minute=[1], logins=[5]), at=70.0, is_whole=True)

    found = live_tables.copy_snapshot(folder(project), tmp_path / "copy.parquet")

    assert found == live_tables.Snapshot(str(tmp_path / "copy.parquet"), 7, 70.0)
