"""The checker is checked: every fault it exists for is planted, and it must say so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from e2e import oracle, rig

ROWS = [("a.json", n) for n in range(4)] + [("b.json", n) for n in range(4, 8)]
SIZES = {"a.json": 4, "b.json": 4}


def test_half_a_batch_is_caught() -> None:
    assert oracle.torn(ROWS[:6], SIZES) == ["b.json: 2 of 4 rows visible"]


def test_whole_batches_are_not_torn() -> None:
    assert oracle.torn(ROWS[:4], SIZES) == []
    assert oracle.torn([], SIZES) == []


def test_a_row_that_disappears_again_is_caught() -> None:
    assert oracle.shrunk(ROWS, ROWS[1:]).total() == 1


def test_a_lock_not_taken_shows_as_two_writers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for run in ("kills-1", "kills-2"):
        (tmp_path / "runs" / run).mkdir(parents=True)
    monkeypatch.setattr(rig, "jvm_pids", lambda: [11, 12])
    monkeypatch.setattr(rig, "run_of", {11: "kills-1", 12: "kills-2"}.get)
    jvms = rig.JvmCount(tmp_path)

    jvms.look()

    assert jvms.faults == ["2 JVMs at once: {'kills-1': {11}, 'kills-2': {12}}"]


def test_two_jvms_of_one_run_are_a_fault_if_they_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "kills-1").mkdir(parents=True)
    monkeypatch.setattr(rig, "run_of", lambda pid: "kills-1")
    jvms = rig.JvmCount(tmp_path)
    for living in ([11, 12], [11], *([[11, 13]] * rig.FORK_LOOKS)):
        monkeypatch.setattr(rig, "jvm_pids", living.copy)
        jvms.look()

    assert jvms.faults == ["2 JVMs at once: {'kills-1': {11, 13}}"]


def test_one_writer_and_a_stranger_are_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "runs" / "kills-1").mkdir(parents=True)
    monkeypatch.setattr(rig, "jvm_pids", lambda: [11, 12])
    monkeypatch.setattr(rig, "run_of", {11: "kills-1", 12: "of-another-project"}.get)
    jvms = rig.JvmCount(tmp_path)

    jvms.look()

    assert (jvms.looks, jvms.faults) == (1, [])


def test_a_reader_tells_of_half_a_batch_and_of_rows_that_went_away() -> None:
    answers = iter([ROWS, ROWS[:6], ROWS[:4]])
    reader = rig.Reader("out", lambda: list(next(answers)), SIZES)

    for _ in range(3):
        reader.look()

    assert reader.faults == [
        "out: torn: b.json: 2 of 4 rows visible",
        "out: 2 rows seen before are gone",
        "out: 2 rows seen before are gone",
    ]


def test_a_row_whose_payload_was_changed_is_caught(tmp_path: Path) -> None:
    row = {"file": "a", "id": 1, "key": "k", "amount": 1, "payload": "x", "sha": "not of x"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "part.parquet")

    with pytest.raises(AssertionError, match="corrupt row 1"):
        rig._parquet_rows(tmp_path / "part.parquet")
