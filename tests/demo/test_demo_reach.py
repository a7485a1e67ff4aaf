"""How far queries have read, from checkpoints as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

from headrace import config
from headrace.demo import folder, read_progress
from headrace.demo.paths import DemoPaths


def batch(checkpoint: Path, number: int, files: list[str], *, is_committed: bool = True) -> None:
    """A batch of a file source that read these files, as the source's entry of the same number."""
    log = checkpoint / "sources" / "0"
    for below in (log, checkpoint / "offsets", checkpoint / "commits"):
        below.mkdir(parents=True, exist_ok=True)
    entries = [{"path": f"file:///x%20y/{f}", "timestamp": 1, "batchId": number} for f in files]
    (log / str(number)).write_text("\n".join(["v1", *map(json.dumps, entries)]))
    (checkpoint / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}')
    if is_committed:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def test_only_what_a_committed_batch_read_is_read(tmp_path: Path) -> None:
    batch(tmp_path, 0, ["logs-0.json", "logs-1.json"])
    batch(tmp_path, 1, ["logs-2.json"], is_committed=False)

    assert read_progress.read_by(tmp_path) == {"logs-0.json", "logs-1.json"}
    assert read_progress.last_read(tmp_path) == "logs-1.json"


def test_a_compact_entry_stands_for_all_before_it(tmp_path: Path) -> None:
    for number in range(9):
        batch(tmp_path, number, [f"logs-{number}.json"])
    batch(tmp_path, 9, [])
    whole = [json.dumps({"path": f"/x/logs-{n}.json", "batchId": n}) for n in range(10)]
    (tmp_path / "sources/0/9").unlink()
    (tmp_path / "sources/0/9.compact").write_text("\n".join(["v1", *whole]))
    (tmp_path / "sources/0/3").unlink()
    batch(tmp_path, 10, ["logs-10.json"])

    assert read_progress.read_by(tmp_path) == {f"logs-{n}.json" for n in range(11)}


def test_nothing_is_read_before_the_first_batch(tmp_path: Path) -> None:
    assert read_progress.read_by(tmp_path / "none") == set()
    assert read_progress.last_read(tmp_path / "none") is None


def arrived(demo: DemoPaths, count: int) -> list[str]:
    names = [f"logs-{n:09d}.json" for n in range(count)]
    for name in names:
        (demo.incoming / name).write_text("x\n")
    return names


def test_everything_is_through_when_every_query_has_read_its_input(tmp_path: Path) -> None:
    demo, _, _ = folder.prepare(tmp_path)
    settings = config.load(demo.folder)
    names = arrived(demo, 3)
    for query in read_progress.FROM_INPUT:
        batch(read_progress.checkpoint(settings, query), 0, names)
    log = demo.history / "_spark_metadata"
    log.mkdir(parents=True)
    entry = {"path": "file:///d/part-0.parquet", "size": 9, "action": "add"}
    (log / "0").write_text("v1\n" + json.dumps(entry))

    assert read_progress.pending(settings, demo) == ["logins has 1 file to read"]
    batch(read_progress.checkpoint(settings, "logins"), 0, ["part-0.parquet"])
    assert read_progress.pending(settings, demo) == []
    arrived(demo, 4)
    assert read_progress.pending(settings, demo)[0] == "history has 1 file to read"
    assert read_progress.behind(settings, demo) == 1


def test_alert_rows_that_nobody_took_are_awaited(tmp_path: Path) -> None:
    demo, _, _ = folder.prepare(tmp_path)
    settings = config.load(demo.folder)
    rows = settings.state / "alerts" / "metrics" / "silent" / "7.jsonl"
    rows.parent.mkdir(parents=True)
    rows.write_text("{}\n")

    assert read_progress.pending(settings, demo) == ["1 files with alert rows are not stored yet"]
