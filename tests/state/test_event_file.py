"""One reader of events files: whole lines only, bounded, with positions that can be stored."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.model.events import Event, EventKind
from headrace.state import event_file
from headrace.state.event_file import CHUNK_BYTES, EventFile, last_events


def line(at: float, kind: EventKind = EventKind.IDLED, padding: int = 0) -> bytes:
    return (Event(at, kind, "q", {"padding": "x" * padding}).to_line() + "\n").encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_a_torn_line_waits_for_its_end(path: Path) -> None:
    file, whole = EventFile(path), line(2.0)
    path.write_bytes(line(1.0) + whole[:10])

    first = file.events()
    position = file.position
    with path.open("ab") as writer:
        writer.write(whole[10:])
    second = file.events()

    assert [event.at for event in first] == [1.0]
    assert position == len(line(1.0))
    assert [event.at for event in second] == [2.0]


def test_a_missing_file_has_no_events(path: Path) -> None:
    assert EventFile(path).events() == []
    assert last_events(path, 10) == []


def test_lines_that_are_not_events_are_passed_over(path: Path) -> None:
    newer = b'{"at": 1, "event": "a_kind_of_next_year"}\n'
    path.write_bytes(b"\n\xff\xfe\n{}\n[1]\nnull\n" + newer + line(7.0))

    assert [event.at for event in EventFile(path).events()] == [7.0]
    assert [event.at for event in last_events(path, 100)] == [7.0]


def test_one_read_is_bounded_and_says_when_it_has_all(path: Path) -> None:
    count = 3 * CHUNK_BYTES // len(line(1.0, padding=5000))
    path.write_bytes(line(1.0, padding=5000) * count)
    file, pieces = EventFile(path), []

    while not file.is_at_end:
        pieces.append(len(file.events()))

    assert sum(pieces) == count
    assert max(pieces) < count / 2


def test_a_line_longer_than_a_read_is_read_whole_by_a_reader_without_memory(path: Path) -> None:
    path.write_bytes(line(1.0, padding=3 * CHUNK_BYTES) + line(2.0, padding=CHUNK_BYTES))

    first = EventFile(path)
    assert [event.at for event in first.events()] == [1.0]
    assert [event.at for event in EventFile(path, first.position).events()] == [2.0]


def test_a_line_above_the_limit_is_skipped_and_logged_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_file, "LINE_BYTES_MAX", 2 * CHUNK_BYTES)
    path.write_bytes(line(1.0) + line(2.0, padding=9 * CHUNK_BYTES) + line(3.0))

    with caplog.at_level(logging.WARNING):
        found = list(EventFile(path).remaining())

    assert [event.at for event in found] == [1.0, 3.0]
    assert len(caplog.records) == 1
    assert "skipped a line" in caplog.text


def test_only_events_of_the_wanted_kinds_are_returned(path: Path) -> None:
    spaced = b'{"at": 3.0, "event": "exited"}\n'
    path.write_bytes(line(1.0) + line(2.0, EventKind.DEFINED) + spaced)

    assert [e.at for e in EventFile(path).events({EventKind.DEFINED, EventKind.EXITED})] == [2, 3]
    assert [e.at for e in last_events(path, 9, {EventKind.IDLED})] == [1]


@pytest.mark.parametrize("padding", [10, 700_000])
def test_the_last_lines_are_found_from_the_end(path: Path, padding: int) -> None:
    path.write_bytes(b"".join(line(n, padding=padding) for n in range(9)) + b'{"at": 1')

    assert [event.at for event in last_events(path, 3)] == [6, 7, 8]
    assert [event.at for event in last_events(path, 100)] == list(range(9))


def test_of_very_long_lines_the_last_are_read_within_a_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_file, "_END_BYTES_MAX", 3 << 20)
    path.write_bytes(b"".join(line(n, padding=1 << 20) for n in range(9)))

    assert [event.at for event in last_events(path, 100)] == [7, 8]
