"""`init` writes a project that is complete, and never overwrites."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import config
from headrace.cli import scaffold
from headrace.cli.main import main
from headrace.define import loader


def test_init_writes_a_project_whose_settings_load_and_pipeline_is_found(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["init", str(tmp_path / "hello")])

    assert done.exit_code == 0, done.output
    settings = config.load(tmp_path / "hello")
    assert settings.name == "hello"
    assert list(loader.discover(settings)) == ["hello"]
    assert "headrace run hello" in done.stdout


def test_what_init_writes_can_be_read() -> None:
    files = scaffold.files('we"ird')

    assert tomllib.loads(files["headrace.toml"])["project"]["name"] == 'we"ird'
    ast.parse(files["pipelines/hello.py"])


def test_a_clash_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("mine")

    done = CliRunner().invoke(main, ["init", str(tmp_path)])

    assert done.exit_code == 2
    assert "already contains headrace.toml" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["headrace.toml"]


def test_a_folder_with_other_files_is_fine(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    done = CliRunner().invoke(main, ["init", str(tmp_path)])

    assert done.exit_code == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_init_in_the_current_folder_needs_no_cd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(main, ["init"])

    assert done.exit_code == 0
    assert "cd " not in done.stdout


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = CliRunner().invoke(main, ["init", str(tmp_path / "file" / "below")])

    assert done.exit_code == 3
    assert "Cannot write" in done.stderr
