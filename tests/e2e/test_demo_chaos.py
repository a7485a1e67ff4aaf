"""`make demo`, killed three times, and left alone for half an hour: for `make chaos`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2e import demos, rig

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.mark.chaos
def test_three_kills_in_two_minutes_lose_and_double_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    with demos.demo(folder, "--for", "120s", "--json") as run:
        rig.eventually("the first file of history", lambda: demos.has_history(folder), 150)
        for _ in range(3):
            demos.kill_jvm(run.project)
            time.sleep(15)  # it is to be killed while it works, not while it starts

        told = demos.told(run.ended(700))

    demos.assert_nothing_is_wrong(told, folder)
    assert told["restarts"] >= 3


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_half_an_hour_of_the_demo_reports_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    states = set()
    with demos.demo(folder, "--for", "30m", "--json") as run:
        rig.eventually("it works", lambda: demos.has_committed(run.project), 150)
        while run.process.poll() is None:
            status = run.project.status(demos.PIPELINE)
            states.add(status.get("state"))
            time.sleep(5)  # how often it looks, for as long as the demo takes
        told = demos.told(run.ended(60))

    demos.assert_nothing_is_wrong(told, folder)
    assert demos.findings(run.project) == set()
    assert "degraded" not in states
