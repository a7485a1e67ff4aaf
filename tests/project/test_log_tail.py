"""Following a file that grows, and that is emptied when it has grown too long."""

from __future__ import annotations

from pathlib import Path

from headrace import logs
from headrace.project.log_tail import Tail


def test_lines_come_out_once_and_only_whole(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    tail = Tail(path)
    path.write_text("one\ntw")
    first = tail.lines()
    path.write_text("one\ntwo\n")

    assert first == ["one"]
    assert tail.lines() == ["two"]
    assert tail.lines() == []


def test_a_file_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text("old\n" * 100 + "half a line")
    tail = Tail(path)
    tail.lines()

    assert logs.keep_short(path, 10)
    path.write_text("new\n")

    assert tail.lines() == ["new"]
