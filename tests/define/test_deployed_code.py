from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.define import deployed_code
from headrace.errors import ConfigError
from headrace.model.state_paths import StatePaths


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text('[project]\nname = "x"\n')
    (folder / "pipelines" / "a.py").write_text("A = 1\n")
    return folder


@pytest.fixture
def places(project: Path) -> StatePaths:
    return StatePaths(project / ".headrace")


def copied(places: StatePaths, version: str) -> set[str]:
    root = places.code(version)
    return {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}


def test_a_version_is_the_code_and_the_settings(project: Path, places: StatePaths) -> None:
    version = deployed_code.snapshot(project, places)

    assert copied(places, version) == {"headrace.toml", "pipelines/a.py"}


def test_the_same_content_is_the_same_version(project: Path, places: StatePaths) -> None:
    first = deployed_code.snapshot(project, places)
    (project / "pipelines" / "a.py").touch()

    assert deployed_code.snapshot(project, places) == first


def test_an_edit_is_another_version_and_leaves_the_first_as_it_was(
    project: Path, places: StatePaths
) -> None:
    first = deployed_code.snapshot(project, places)
    (project / "pipelines" / "a.py").write_text("A = 2\n")

    second = deployed_code.snapshot(project, places)

    assert second != first
    assert (places.code(first) / "pipelines" / "a.py").read_text() == "A = 1\n"


@pytest.mark.parametrize(
    "name",
    [".venv/x.py", "venv/x.py", "data/x.py", "checkpoints/x.py", ".headrace/x.py", "notes.txt",
     "__pycache__/x.py", "node_modules/x.py"],
)  # fmt: skip
def test_what_is_not_code_is_left_out(project: Path, places: StatePaths, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True, parents=True)
    (project / name).write_text("x")
    if name.startswith("venv"):
        (project / "venv" / "pyvenv.cfg").write_text("")

    assert copied(places, deployed_code.snapshot(project, places)) == {
        "headrace.toml",
        "pipelines/a.py",
    }


def test_include_takes_more_files_along(project: Path, places: StatePaths) -> None:
    (project / "model.bin").write_bytes(b"\0\1")

    version = deployed_code.snapshot(project, places, ["*.bin"])

    assert (places.code(version) / "model.bin").read_bytes() == b"\0\1"
    assert deployed_code.differs(project, places, version, ["*.bin"]) == []


def test_differs_names_what_was_edited_added_and_deleted(project: Path, places: StatePaths) -> None:
    (project / "old.py").write_text("")
    version = deployed_code.snapshot(project, places)
    assert deployed_code.differs(project, places, version) == []

    (project / "pipelines" / "a.py").write_text("A = 2\n")
    (project / "new.sql").write_text("select 1")
    (project / "old.py").unlink()

    assert deployed_code.differs(project, places, version) == [
        "new.sql",
        "old.py",
        "pipelines/a.py",
    ]


def test_a_package_that_changed_counts_as_an_edit(
    project: Path, places: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = deployed_code.snapshot(project, places)
    now = {**deployed_code.installed_packages(), "click": "99.0"}
    monkeypatch.setattr(deployed_code, "installed_packages", lambda: now)

    assert [c.split()[0] for c in deployed_code.differs(project, places, version)] == ["click"]


def test_a_deploy_with_another_package_is_another_version_that_counts_as_unedited(
    project: Path, places: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deployed_code.snapshot(project, places)
    now = {**deployed_code.installed_packages(), "click": "99.0"}
    monkeypatch.setattr(deployed_code, "installed_packages", lambda: now)

    second = deployed_code.snapshot(project, places)

    assert second != first
    assert deployed_code.differs(project, places, second) == []
    assert [c.split()[0] for c in deployed_code.differs(project, places, first)] == ["click"]


def test_a_package_installed_while_a_process_runs_is_noticed_by_it(
    project: Path, places: StatePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    version = deployed_code.snapshot(project, places)

    (packages / "thing-1.0.dist-info").mkdir()
    (packages / "thing-1.0.dist-info" / "METADATA").write_text("Name: thing\nVersion: 1.0\n")

    assert deployed_code.differs(project, places, version) == ["thing none → 1.0"]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff\xfe", b"{}", b'{"version": 1, "at": "x", "files": []}']
)
def test_a_damaged_record_of_a_version_is_read_from_its_files(
    project: Path, places: StatePaths, damage: bytes
) -> None:
    version = deployed_code.snapshot(project, places)
    (places.version(version) / "version.json").write_bytes(damage)

    assert deployed_code.differs(project, places, version) == []
    assert [one["version"] for one in deployed_code.list_versions(places)] == [version]
    (project / "pipelines" / "a.py").write_text("A = 2\n")
    assert deployed_code.differs(project, places, version) == ["pipelines/a.py"]


def test_a_script_outside_of_the_project_is_copied_too(
    project: Path, places: StatePaths, tmp_path: Path
) -> None:
    script = tmp_path / "elsewhere.py"
    script.write_text("print(1)\n")

    version = deployed_code.snapshot(project, places, outside=script)

    assert deployed_code.code_path(places, version, str(script)).read_text() == "print(1)\n"
    assert deployed_code.differs(project, places, version) == []


def test_a_folder_that_is_no_project_is_refused_before_it_is_copied(
    project: Path, places: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployed_code, "FILES_MAX", 3)
    for number in range(5):
        (project / f"f{number}.py").write_text("")

    with pytest.raises(ConfigError) as caught:
        deployed_code.snapshot(project, places)

    assert caught.value.code == "project-too-large"
    assert not places.versions.exists()


def test_versions_are_listed_by_age(project: Path, places: StatePaths) -> None:
    first = deployed_code.snapshot(project, places)
    (project / "b.py").write_text("")
    second = deployed_code.snapshot(project, places)

    assert [v["version"] for v in deployed_code.list_versions(places)] == [first, second]
