"""`make demo`, killed three times while it works: for `make chaos`."""

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
