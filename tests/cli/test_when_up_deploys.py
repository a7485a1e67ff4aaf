"""The table "When code is deployed" in docs/guides/deploy.md."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from cli.stage import Project
from headrace.supervisor import main as supervisor
from headrace.supervisor import process

FAKE = (sys.executable, str(Path(__file__).with_name("fake_driver.py")))
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "deploy.md"


@pytest.fixture
def service(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose supervisor ends at once: what was asked of it is left in its requests."""
    monkeypatch.setattr(process, "to_the_end", partial(process.to_the_end, command=FAKE))
    monkeypatch.setattr(supervisor, "main", lambda arguments: 0)
    return project


def deployed(project: Project) -> list[str]:
    files = (project.places.state / "requests").glob("*.json")
    return [json.loads(file.read_text())["pipeline"] for file in files]


def test_a_restart_of_the_service_deploys_nothing(service: Project) -> None:
    service.deployed(version="aaaa1111")

    done = service.headrace("up", "--foreground")

    assert done.exit_code == 0, done.output
    assert deployed(service) == []


@pytest.mark.e2e
def test_the_first_start_of_the_service_deploys_all_pipelines(service: Project) -> None:
    done = service.headrace("up", "--foreground")

    assert done.exit_code == 0, done.output
    assert deployed(service) == ["hello"]


@pytest.mark.e2e
def test_names_are_deployed_in_the_foreground_too(service: Project) -> None:
    service.deployed(version="aaaa1111")

    done = service.headrace("up", "--foreground", "hello")

    assert done.exit_code == 0, done.output
    assert deployed(service) == ["hello"]


def test_the_guide_says_so() -> None:
    text = GUIDE.read_text()

    assert "only if nothing has ever been deployed" in text
    assert "`systemctl restart headrace` deploys" not in text
