"""A restart never deploys: the deployed copy runs until somebody says otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e import rig
from headrace.checkpoints import committed_files
from headrace.driver import class_archive

pytestmark = pytest.mark.e2e
PIPELINE = "small"


def give(project: rig.Project, name: str) -> None:
    folder = project.folder / "incoming"
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text(name + "\n")
    (folder / f".{name}").rename(folder / name)


def marks(project: rig.Project) -> dict[str, str]:
    """Which version of the file wrote each row."""
    rows = [
        json.loads(line)
        for one in committed_files.files(project.folder / "data" / "out")
        for line in Path(one.path).read_text().splitlines()
    ]
    return {row["value"]: row["mark"] for row in rows}


def await_mark(project: rig.Project, name: str) -> str:
    found = rig.eventually(f"row {name} is committed", lambda: marks(project).get(name), 60)
    return str(found)


def assert_classes_are_used(jvm: int) -> None:
    """Mapped, and not left aside: the JVM keeps nothing of an archive that does not fit."""
    maps = Path(f"/proc/{jvm}/maps").read_text()
    assert str(class_archive.default_path()) in maps, "make .venv/.warm keeps Spark's classes ready"


def test_an_edit_waits_for_a_deploy_and_rollback_goes_back(tmp_path: Path) -> None:
    project = rig.Project.copy("small", tmp_path / "project")
    give(project, "a")
    file = project.folder / "pipelines" / "small.py"
    try:
        project.headrace("up")
        assert await_mark(project, "a") == "first"
        assert project.status(PIPELINE)["edited"] is False
        assert_classes_are_used(project.status(PIPELINE)["jvm_pid"])

        file.write_text(file.read_text().replace('"first"', '"second"'))
        rig.kill(project.status(PIPELINE)["jvm_pid"])
        give(project, "b")
        assert await_mark(project, "b") == "first", "the restart must run the deployed copy"
        assert project.status(PIPELINE)["edited"] is True
        assert "edited since it was deployed" in project.headrace("status")

        before = project.status(PIPELINE)["version"]
        project.headrace("up")
        give(project, "c")
        assert await_mark(project, "c") == "second"
        assert project.status(PIPELINE)["version"] != before
        assert project.status(PIPELINE)["edited"] is False

        run = project.status(PIPELINE)["run"]
        project.headrace("rollback", PIPELINE, "--yes")
        rig.eventually("another run", lambda: project.status(PIPELINE)["run"] != run, 90)
        give(project, "d")
        assert await_mark(project, "d") == "first"
        assert project.status(PIPELINE)["version"] == before
    finally:
        project.headrace("down", code=None)
    assert project.marked() == []
