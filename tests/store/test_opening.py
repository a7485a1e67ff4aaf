"""A database opens and works, or is set aside and replaced; only locks and full disks raise."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.model.alerts import OpenAlert
from headrace.store import alerts, db, events, migrations

NOW = 1_700_000_000.0


def filled(path: Path) -> bytes:
    """A healthy history of some pages, all of it in the main file."""
    conn = db.open_history(path)
    with db.transaction(conn):
        for number in range(400):
            events.add(conn, number, f"p{number}", None, "kind", "words " * 20, {"n": number})
    conn.close()
    return path.read_bytes()


def copies(path: Path) -> list[Path]:
    found = path.parent.glob(f"{path.name}.corrupt-*")
    return sorted(p for p in found if not p.name.endswith(("-wal", "-shm")))


def works(conn: db.Store) -> bool:
    events.add(conn, 1.0, "p", None, "kind", "text")
    return len(events.recent(conn, "p")) == 1


def flip_pages(content: bytes) -> bytes:
    """The head of every page but the first: what a lost or misplaced write leaves."""
    size = int.from_bytes(content[16:18], "big")
    pages = [bytearray(content[i : i + size]) for i in range(0, len(content), size)]
    for page in pages[1:]:
        page[:8] = bytes(b ^ 0xFF for b in page[:8])
    return b"".join(pages)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "not a database": lambda content: b"this is a text file, not a database\n" * 200,
    "a short text": lambda content: b"{}",
    "header overwritten": lambda content: b"\xff" * 100 + content[100:],
    "half of it": lambda content: content[: len(content) // 2],
    "one page left": lambda content: content[:4096],
    "first page cut": lambda content: content[:1000],
    "pages flipped": flip_pages,
    "zeros after the first page": lambda content: content[:4096] + bytes(len(content) - 4096),
    "the schema itself": lambda content: content[:100] + b"\x00" * 3996 + content[4096:],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_history_is_set_aside_and_begun_anew(tmp_path: Path, name: str) -> None:
    path = tmp_path / "history.db"
    damaged = DAMAGES[name](filled(path))
    path.write_bytes(damaged)

    conn = db.open_history(path, clock=lambda: NOW)

    assert works(conn)
    assert [p.name for p in copies(path)] == ["history.db.corrupt-20231114T221320Z"]
    assert copies(path)[0].read_bytes() == damaged
    assert conn.note is not None
    assert "history.db.corrupt-20231114T221320Z" in conn.note
    conn.close()


def test_a_healthy_file_opens_again_without_a_note(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    filled(path)

    conn = db.open_history(path)

    assert conn.note is None
    assert copies(path) == []
    assert len(events.recent(conn, limit=1000)) == 400
    conn.close()


def test_a_missing_state_folder_is_made_and_only_the_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state" / "history.db"

    conn = db.open_history(path)
    works(conn)

    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "history.db-wal" in modes
    conn.close()


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.touch()

    conn = db.open_history(path)

    assert works(conn)
    assert copies(path) == []
    conn.close()


def test_a_folder_in_the_way_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.mkdir()

    conn = db.open_history(path)

    assert works(conn)
    assert copies(path)[0].is_dir()
    conn.close()


def test_a_database_of_another_program_is_set_aside_untouched(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    stranger = sqlite3.connect(path)
    stranger.execute("CREATE TABLE theirs (x)")
    stranger.commit()
    stranger.close()
    content = path.read_bytes()

    conn = db.open_history(path)

    assert works(conn)
    assert copies(path)[0].read_bytes() == content
    assert "theirs" in (conn.note or "")
    conn.close()


def test_a_history_that_lacks_a_table_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    filled(path)
    other = sqlite3.connect(path)
    other.execute("DROP TABLE runs")
    other.close()

    conn = db.open_history(path)

    assert works(conn)
    assert "lacks the table runs" in (conn.note or "")
    conn.close()


def test_a_wal_deleted_after_a_crash_costs_rows_but_not_the_history(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    writer = db.open_history(path)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    works(writer)
    crashed = tmp_path / "crashed" / "history.db"
    crashed.parent.mkdir()
    shutil.copy(path, crashed)  # without -wal and -shm: as if they had been deleted
    writer.close()

    conn = db.open_history(crashed)

    assert works(conn)
    conn.close()


def test_a_wal_of_garbage_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    filled(path)
    Path(f"{path}-wal").write_bytes(b"\x00garbage" * 4096)

    conn = db.open_history(path)

    assert len(events.recent(conn, limit=1000)) == 400
    conn.close()


def test_only_the_newest_damaged_histories_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for number in range(5):
        path.write_bytes(b"garbage" * 1000)
        db.open_history(path, clock=lambda n=number: NOW + n).close()  # type: ignore[misc]

    stamps = [p.name[-7:] for p in copies(path)]

    assert stamps == ["221322Z", "221323Z", "221324Z"]


def test_two_damages_in_one_second_do_not_overwrite_each_other(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for content in (b"first" * 1000, b"second" * 1000):
        path.write_bytes(content)
        db.open_history(path, clock=lambda: NOW).close()

    assert {p.read_bytes()[:5] for p in copies(path)} == {b"first", b"secon"}


def newer(path: Path, schema: migrations.Schema) -> None:
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {len(schema.steps) + 1}")
    other.close()


def test_a_newer_history_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    filled(path)
    newer(path, migrations.HISTORY)

    conn = db.open_history(path)

    assert works(conn)
    assert "it was written by a newer Headrace" in (conn.note or "")
    conn.close()


def test_newer_alerts_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "alerts.db"
    db.open_alerts(path).close()
    newer(path, migrations.ALERTS)

    with pytest.raises(StoreError) as caught:
        db.open_alerts(path)

    assert caught.value.code == "store-newer"
    assert "Install the newer version" in (caught.value.fix or "")
    assert copies(path) == []


def test_alerts_of_a_damaged_file_are_taken_over_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "alerts.db"
    conn = db.open_alerts(path)
    with db.transaction(conn):
        for number in range(300):
            alerts.open_once(conn, OpenAlert(f"k{number}", "rule", "p", "title " * 20), 1.0)
    conn.close()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 2 * 4096])

    conn = db.open_alerts(path, clock=lambda: NOW)

    kept = alerts.list_alerts(conn, "open")
    assert 50 < len(kept) <= 300
    assert f"{len(kept)} alerts recovered" in (conn.note or "")
    assert alerts.resolve(conn, kept[0].key, 2.0)
    conn.close()


def test_alerts_that_are_no_database_at_all_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "alerts.db"
    path.write_bytes(b"garbage" * 1000)

    conn = db.open_alerts(path)

    assert alerts.open_once(conn, OpenAlert("k", "rule", "p", "title"), 1.0)
    assert "0 alerts recovered" in (conn.note or "")
    conn.close()


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "BUSY_S", 0.2)


@pytest.mark.usefixtures("short_patience")
def test_a_locked_database_is_reported_as_locked_and_not_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    conn = db.open_history(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError) as caught:
        events.add(conn, 1.0, "p", None, "kind", "text")
    with pytest.raises(StoreError) as caught_at_open:
        db.open_history(path)
    other.execute("ROLLBACK")

    assert caught.value.code == caught_at_open.value.code == "store-locked"
    assert copies(path) == []
    assert works(conn)
    other.close()
    conn.close()


@pytest.mark.thorough
def test_many_processes_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from headrace.store import db, events
        sys.stdin.read(1)
        conn = db.open_history(Path(sys.argv[1]))
        assert conn.note is None, conn.note
        events.add(conn, 1.0, "p", None, "kind", "text")
        conn.close()
    """)
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE)
        for _ in range(4)
    ]

    for child in children:
        child.communicate(b"go")

    conn = db.open_history(path)
    assert [child.returncode for child in children] == [0] * 4
    assert len(events.recent(conn, "p")) == 4
    conn.close()


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    conn = db.open_history(tmp_path / "history.db")

    def write_and_fail() -> None:
        with db.transaction(conn):
            events.add(conn, 1.0, "p", None, "kind", "text")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()

    assert events.recent(conn) == []
    assert not conn.in_transaction
    conn.close()


def test_damage_met_while_running_says_so_and_opening_again_helps(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    content = filled(path)
    conn = db.open_history(path)
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    conn.execute("PRAGMA shrink_memory")  # or it would answer from what it has read before

    with pytest.raises(StoreError) as caught:
        events.recent(conn, limit=1000)
    conn.close()
    again = db.open_history(path)

    assert caught.value.code == "store-broken"
    assert works(again)
    again.close()


def test_a_file_deleted_under_an_open_connection_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    conn = db.open_history(path)
    before = db.is_in_place(conn)

    os.unlink(path)

    assert before
    assert not db.is_in_place(conn)
    conn.close()


def test_a_full_database_is_reported_as_full_and_works_again_with_space(tmp_path: Path) -> None:
    conn = db.open_history(tmp_path / "history.db")
    pages = conn.execute("PRAGMA page_count").fetchone()[0]
    conn.execute(f"PRAGMA max_page_count = {pages + 2}")

    def write_much() -> None:
        with db.transaction(conn):
            for number in range(1000):
                events.add(conn, number, "p", None, "kind", "words " * 100)

    with pytest.raises(StoreError) as caught:
        write_much()
    conn.execute("PRAGMA max_page_count = 100000")

    assert caught.value.code == "store-full"
    assert works(conn)
    conn.close()


@pytest.mark.thorough
def test_a_reader_sees_whole_transactions_while_a_writer_writes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    db.open_history(path).close()
    done = threading.Event()

    def write() -> None:
        conn = db.open_history(path)
        for number in range(100):
            with db.transaction(conn):
                for _ in range(5):
                    events.add(conn, number, "p", None, "kind", "text")
        conn.close()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reader = db.open_readonly(path)
    counts = [0]
    while not done.is_set():
        counts.append(len(events.recent(reader, "p", limit=1000)))
    writer.join()
    counts.append(len(events.recent(reader, "p", limit=1000)))
    reader.close()

    assert counts == sorted(counts)
    assert all(count % 5 == 0 for count in counts)
    assert counts[-1] == 500


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    db.open_history(path).close()
    reader = db.open_readonly(path)

    with pytest.raises(StoreError) as caught:
        events.add(reader, 1.0, "p", None, "kind", "text")

    assert caught.value.code == "store-unwritable"
    reader.close()


def test_a_reader_of_nothing_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        db.open_readonly(tmp_path / "history.db")

    assert caught.value.code == "no-store"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_store_gives_none_and_a_damaged_one_only_if_the_answer_is_optional(
    tmp_path: Path,
) -> None:
    damaged = tmp_path / "alerts.db"
    damaged.write_bytes(b"not a database, but as long as one would be" * 100)

    assert db.read(tmp_path / "history.db", alerts.list_alerts) is None
    assert db.read(damaged, alerts.list_alerts, is_optional=True) is None
    with pytest.raises(StoreError):
        db.read(damaged, alerts.list_alerts)


@pytest.mark.parametrize("name", ["not a database", "half of it", "header overwritten"])
def test_a_reader_of_a_damaged_file_says_so_and_moves_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(DAMAGES[name](filled(path)))

    with pytest.raises(StoreError) as caught:
        events.recent(db.open_readonly(path), limit=1000)

    assert caught.value.code == "store-broken"
    assert [p.name for p in tmp_path.iterdir() if "corrupt" in p.name] == []


def test_a_reader_refuses_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    filled(path)
    newer(path, migrations.HISTORY)

    with pytest.raises(StoreError) as caught:
        db.open_readonly(path)

    assert caught.value.code == "store-newer"


@pytest.mark.parametrize("folder", ["a b", "100%25", "what?#;x", "naïve-ø", 'it\'s "so"', "[x]*"])
def test_odd_folder_names_are_opened_by_writer_and_reader(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "history.db"
    conn = db.open_history(path)
    works(conn)

    reader = db.open_readonly(path)

    assert len(events.recent(reader)) == 1
    assert [p.name for p in tmp_path.iterdir()] == [folder]
    reader.close()
    conn.close()


def test_every_step_of_a_migration_is_counted(tmp_path: Path) -> None:
    conn = db.open_history(tmp_path / "history.db")

    assert conn.execute("PRAGMA user_version").fetchone()[0] == len(migrations.HISTORY.steps)
    assert conn.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    conn.close()


def test_an_older_schema_is_brought_up_to_date_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    filled(path)
    old = migrations.HISTORY
    more = migrations.Schema(
        application_id=old.application_id,
        steps=(*old.steps, ("ALTER TABLE events ADD COLUMN extra TEXT",)),
        disposable=True,
    )
    monkeypatch.setattr(migrations, "HISTORY", more)

    conn = db.open_history(path)

    assert conn.note is None
    assert db.rows(conn, "SELECT count(extra IS NULL) AS n FROM events")[0]["n"] == 400
    assert conn.execute("PRAGMA user_version").fetchone()[0] == len(old.steps) + 1
    conn.close()
