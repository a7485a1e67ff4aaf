"""A small JSON file is whole or not there."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from headrace import json_file
from headrace.errors import StoreError


def test_what_was_written_is_read_and_only_the_owner_may(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.json"

    json_file.write_json(path, {"name": 'it\'s "ü"', "n": [1, None]})

    assert json_file.read_json(path) == {"name": 'it\'s "ü"', "n": [1, None]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert json_file.read_json(tmp_path / "none.json") is None
    (tmp_path / "file").touch()
    assert json_file.read_json(tmp_path / "file" / "below.json") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"a": 1', b"[1]", b"3", b"\xff\xfe", b"{}{}", b"[" * 100_000, b"\x00" * 9],
)
def test_torn_content_is_an_error_with_the_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)

    with pytest.raises(StoreError) as caught:
        json_file.read_json(path)

    assert caught.value.code == "bad-json-file"
    assert caught.value.where == str(path)


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        json_file.read_json(tmp_path)

    assert caught.value.code == "unreadable-file"


def test_what_is_no_json_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    json_file.write_json(path, {"n": 1})

    with pytest.raises(TypeError):
        json_file.write_json(path, {"n": object()})

    assert json_file.read_json(path) == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_rename_that_fails_leaves_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.mkdir()

    with pytest.raises(OSError):
        json_file.write_json(path, {"n": 1})

    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.thorough
def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    json_file.write_json(path, {"n": 0, "text": ""})
    done = threading.Event()

    def write() -> None:
        for n in range(100):
            json_file.write_json(path, {"n": n, "text": "x" * (n * 500)})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = 0
    while not done.is_set():
        body = json_file.read_json(path)
        assert body is not None
        assert len(body["text"]) == body["n"] * 500
        reads += 1
    writer.join()

    assert reads > 0
