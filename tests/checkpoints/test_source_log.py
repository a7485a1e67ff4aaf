"""A file source's log: when each file of a batch arrived, however long the log is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.checkpoints import source_logs


def line(entry: int, ms: int, name: str = "a") -> str:
    body = {"path": f"file:///in/{name}-{entry}.json", "timestamp": ms, "batchId": entry}
    return json.dumps(body, separators=(",", ":"))


def write(checkpoint: Path, name: str, lines: list[str]) -> Path:
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["v1", *lines]))
    return folder / name


def test_every_file_of_the_entry_is_found_with_its_time(tmp_path: Path) -> None:
    write(tmp_path, "3", [line(3, 100), line(3, 200, "b")])

    assert source_logs.arrivals(tmp_path, 0, 2, 3) == [(100, 1.0), (200, 1.0)]


def test_a_compact_log_holds_all_and_only_the_batchs_own_count(tmp_path: Path) -> None:
    write(tmp_path, "9.compact", [line(n, n * 10) for n in range(10)])

    assert source_logs.arrivals(tmp_path, 0, 8, 9) == [(90, 1.0)]


def test_a_batch_may_have_several_entries(tmp_path: Path) -> None:
    write(tmp_path, "8", [line(8, 80)])
    write(tmp_path, "9.compact", [line(n, n * 10) for n in range(10)])
    write(tmp_path, "10", [line(10, 100)])

    assert [ms for ms, _ in source_logs.arrivals(tmp_path, 0, 7, 10)] == [80, 90, 100]


def test_an_entry_that_is_missing_makes_the_batch_unknown(tmp_path: Path) -> None:
    write(tmp_path, "1", [line(1, 10)])

    assert source_logs.arrivals(tmp_path, 0, -1, 1) == []
    assert source_logs.arrivals(tmp_path, 5, 0, 1) == []
    assert source_logs.arrivals(tmp_path / "nowhere", 0, 0, 1) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        "v1\n{",
        'v1\n{"batchId":1}',
        'v1\n{"timestamp":"x","batchId":1}',
        'v1\n["batchId":1]',
    ],
)
def test_a_damaged_log_is_not_known(tmp_path: Path, text: str) -> None:
    write(tmp_path, "1", []).write_text(text)

    assert source_logs.arrivals(tmp_path, 0, 0, 1) == []


def test_a_name_that_looks_like_another_entry_is_not_taken_for_it(tmp_path: Path) -> None:
    write(tmp_path, "19.compact", [line(1, 10), line(19, 190), line(190, 1900)])

    assert source_logs.arrivals(tmp_path, 0, 18, 19) == [(190, 1.0)]


def test_of_very_many_files_some_are_looked_at_and_stand_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_logs, "BYTES_MAX", 80_000)
    write(tmp_path, "0", [line(0, n) for n in range(20_000)])

    found = source_logs.arrivals(tmp_path, 0, -1, 0)

    times = [ms for ms, _ in found]
    assert len(times) <= source_logs.FILES_MAX
    assert times[0] < 1_000
    assert times[-1] > 19_000  # from its beginning to its end
    assert sum(weight for _, weight in found) == pytest.approx(20_000, rel=0.1)


def test_of_a_long_history_only_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_logs, "BYTES_MAX", 8_000)
    old = [line(n // 100, 1) for n in range(1_900)]
    write(tmp_path, "19.compact", [*old, line(19, 7), line(19, 8)])

    assert source_logs.arrivals(tmp_path, 0, 18, 19) == [(7, 1.0), (8, 1.0)]
