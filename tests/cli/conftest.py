"""The fixture `project`: see stage.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.stage import PIPELINE, SETTINGS, Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("HEADRACE_PROFILE", raising=False)
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text(SETTINGS)
    (folder / "pipelines" / "hello.py").write_text(PIPELINE)
    monkeypatch.chdir(folder)
    return Project(folder)
