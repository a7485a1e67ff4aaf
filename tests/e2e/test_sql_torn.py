"""`headrace sql` sees what is committed, whatever a killed writer has left in the folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest

import gone
from e2e import rig

pytestmark = pytest.mark.e2e
PIPELINE = "torn"
PARTS, ROWS = 4, 300
EACH = PARTS * ROWS  # rows of an input file, which is a batch
COUNT = "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM "


def give(project: rig.Project, name: str) -> None:
    lines = [f"{name} {part} {row}\n" for part in range(PARTS) for row in range(ROWS)]
    folder = project.folder / "incoming"
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("".join(lines))
    os.replace(folder / f".{name}", folder / name)


def on_disk(project: rig.Project) -> list[Path]:
    return sorted((project.folder / "data" / "kept").glob("*.parquet"))


def asked(project: rig.Project, table: str, *options: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        project.headrace("sql", COUNT + table, "--json", "--timeout", "180s", *options)
    )
    return told


def counted(project: rig.Project, table: str = "kept", *options: str) -> list[int]:
    (row,) = asked(project, table, *options)["rows"]
    found: list[int] = row
    return found


def plain_count(files: list[Path]) -> int | None:
    """What somebody gets who reads all files of the folder; None if that fails."""
    given = {"files": [str(file) for file in files]}
    with duckdb.connect(":memory:") as conn:
        try:
            ((found,),) = conn.execute(
                "SELECT count(*) FROM read_parquet($files)", given
            ).fetchall()
        except duckdb.Error:
            return None
    return int(found)


def test_half_a_batch_of_a_killed_writer_is_never_seen(tmp_path: Path) -> None:
    project = rig.Project.copy("torn", tmp_path / "project")
    hold = project.folder / "hold"
    give(project, "first")
    try:
        project.headrace("up")
        log = project.folder / "data" / "kept" / "_spark_metadata"
        rig.eventually("the first batch is committed", (log / "0").exists, 90)
        before = counted(project)

        hold.touch()
        give(project, "second")
        rig.eventually("the second batch stands", (project.folder / "at-hold").exists, 60)
        rig.eventually(
            "its other files are written", lambda: len(on_disk(project)) >= 2 * PARTS, 60
        )
        jvm = psutil.Process(project.status(PIPELINE)["jvm_pid"])
        rig.kill(jvm.pid)
        assert gone.alive_at_last([jvm]) == []

        torn = on_disk(project)
        plain = plain_count(torn)
        ours = asked(project, "kept")
        sparks = asked(project, f"{PIPELINE}.kept", "--spark")

        hold.unlink()
        rig.eventually("the second batch is committed", (log / "1").exists, 120)
        after = counted(project)
        project.headrace("down")
    finally:
        hold.unlink(missing_ok=True)
        project.headrace("down", code=None)

    assert before == [EACH, EACH]
    assert len(torn) >= 2 * PARTS, "a plain listing shows files of the cut batch"
    assert plain is None or plain > EACH, "and who reads it fails, or counts too much"
    assert ours["rows"] == sparks["rows"] == [[EACH, EACH]]
    for told in (ours, sparks):
        assert [(one["name"], one["batch"]) for one in told["tables"]] == [("kept", 0)]
    assert after == [2 * EACH, 2 * EACH], "each row once"
    assert project.marked() == [], "processes left after down"
