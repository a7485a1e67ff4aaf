"""Files that wait for a file source, by its log and its folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

from headrace.checkpoints import waiting_files


def arrive(folder: Path, name: str, at: float, size: int = 10) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (at, at))
    return path


def listed(checkpoint: Path, entry: int, *files: Path, source: int = 0, name: str = "") -> None:
    folder = checkpoint / "sources" / str(source)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"path": f.as_uri(), "timestamp": int(f.stat().st_mtime * 1000), "batchId": entry}
        for f in files
    ]
    text = "\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in lines)])
    (folder / (name or str(entry))).write_text(text)


def test_files_that_are_newer_than_the_log_wait(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in put", tmp_path / "v1"
    old, read = arrive(folder, "a", 1000.0), arrive(folder, "b", 2000.5)
    listed(checkpoint, 0, old)
    listed(checkpoint, 1, read)
    assert waiting_files.count(checkpoint) == (0, 0)

    arrive(folder, "c", 2001.0, 100)
    arrive(folder, "d", 3000.0, 200)
    arrive(folder, ".d.tmp", 3000.0)
    (folder / "folder").mkdir()

    assert waiting_files.count(checkpoint) == (2, 300)


def test_all_file_sources_count_and_others_do_not(tmp_path: Path) -> None:
    checkpoint = tmp_path / "v1"
    for source in range(2):
        folder = tmp_path / f"in-{source}"
        listed(checkpoint, 9, arrive(folder, "a", 1000.0), source=source, name="9.compact")
        arrive(folder, "b", 2000.0)
    kafka = checkpoint / "sources" / "2"
    kafka.mkdir()
    (kafka / "0").write_text('v1\n{"t":{"0":5}}')

    assert waiting_files.count(checkpoint) == (2, 20)


def test_without_a_log_it_is_unknown(tmp_path: Path) -> None:
    assert waiting_files.count(tmp_path) is None
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text("v1\n{broken")
    assert waiting_files.count(tmp_path) is None
