"""The page's process is kept: started, restarted with growing delays, ended with the supervisor."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace import config
from headrace.json_file import write_json
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.supervisor import sidecars
from headrace.supervisor.sidecars import Sidecar

METRICS = '[metrics.kafka]\nservers = "127.0.0.1:9092"\n'


class Child:
    def __init__(self) -> None:
        self.code: int | None = None
        self.is_ended = False

    def end(self) -> int:
        self.is_ended = True
        return 0


class Story:
    """Ticks at given seconds; children that end on request."""

    def __init__(self, folder: Path, **web: Any) -> None:
        settings = config.load(folder)
        settings = replace(settings, web=replace(settings.web, **{"enabled": True, **web}))
        self.places = StatePaths(settings.state)
        self.children: list[Child] = []
        self.attendant = Sidecar(
            "the page", "headrace.web.main", settings, self.places.web_log,
            lambda: settings.web.enabled, self.start,  # type: ignore[arg-type]
        )  # fmt: skip

    def start(self, command: list[str], cwd: Path, log: Path) -> Child:
        self.command = command
        self.children.append(Child())
        return self.children[-1]

    def starts_between(self, since: int, until: int) -> list[int]:
        found = []
        for second in range(since, until):
            before = len(self.children)
            self.attendant.tick(float(second))
            if len(self.children) > before:
                found.append(second)
        return found


def _note(started: list[list[str]]) -> Any:
    def start(command: list[str], cwd: Path, log: Path) -> Child:
        started.append(command)
        return Child()

    return start


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_it_is_started_once_and_left_alone(story: Story, tmp_path: Path) -> None:
    assert story.starts_between(100, 200) == [100]
    assert "headrace.web.main" in story.command
    assert str(tmp_path) in story.command


def test_one_that_ends_at_once_is_tried_more_and_more_slowly(story: Story) -> None:
    starts = []
    for second in range(300):
        starts += story.starts_between(second, second + 1)
        story.children[-1].code = 1

    gaps = [b - a for a, b in pairwise(starts)]
    assert gaps[0] <= 4
    assert gaps == sorted(gaps)
    assert max(gaps) <= 61


def test_one_that_lived_well_is_quickly_back(story: Story) -> None:
    story.starts_between(0, 100)
    story.children[-1].code = -9

    assert story.starts_between(100, 110) == [101]


def test_its_log_is_kept_short_also_while_it_lives(story: Story) -> None:
    story.starts_between(0, 100)
    story.places.web_log.parent.mkdir(parents=True)
    story.places.web_log.write_bytes(b"x" * (sidecars.LOG_BYTES + 1))

    story.starts_between(100, 200)

    assert story.places.web_log.stat().st_size == 0
    assert len(story.children) == 1


def test_it_ends_with_the_supervisor(story: Story) -> None:
    story.starts_between(0, 1)

    story.attendant.end()

    assert story.children[0].is_ended


def test_switched_off_there_is_none(tmp_path: Path) -> None:
    assert Story(tmp_path, enabled=False).starts_between(0, 100) == []


def test_the_environment_switches_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_WEB", "off")
    assert not config.load(tmp_path).web.enabled

    monkeypatch.delenv("HEADRACE_WEB")
    assert config.load(tmp_path).web.enabled


NOTIFY = '[notify.hook]\nkind = "webhook"\nurl = "http://127.0.0.1:9"\n'
PROMETHEUS = "[metrics.prometheus]\n"


@pytest.mark.parametrize(
    ("text", "is_started"), [("", False), (METRICS, True), (PROMETHEUS, True), (NOTIFY, True)]
)
def test_the_relay_is_wanted_for_an_exporter_or_a_channel_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_started: bool
) -> None:
    (tmp_path / "headrace.toml").write_text(text)
    settings = config.load(tmp_path)
    started: list[list[str]] = []
    monkeypatch.setattr(sidecars.Sidecar.__init__, "__defaults__", (_note(started),))
    _, relay = sidecars.create_sidecars(settings, StatePaths(settings.state))

    relay.tick(0.0)

    assert bool(started) is is_started


def test_the_relay_is_wanted_once_metrics_are_written_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config.load(tmp_path)
    places = StatePaths(settings.state)
    wanted = Desired("flow", "running", "v1", "dev", "flow.py")
    write_json(places.desired("flow"), wanted.to_json())
    started: list[list[str]] = []
    monkeypatch.setattr(sidecars.Sidecar.__init__, "__defaults__", (_note(started),))
    _, relay = sidecars.create_sidecars(settings, places)
    relay.tick(0.0)
    (tmp_path / "headrace.toml").write_text("[metrics.kafka\n")
    relay.tick(10.0)
    assert started == []

    (tmp_path / "headrace.toml").write_text(METRICS)
    relay.tick(20.0)

    assert len(started) == 1
