"""What a killed check or SQL query leaves in runs/ is removed by the next one."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace import process_identity
from headrace.json_file import write_json
from headrace.model.runs import RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders

SPEC = RunSpec("", "check", "/p", "/s", "v1", "dev", "f.py", define=("f.py",))
DEAD = {"pid": 1 << 30, "started": 1.0, "boot": "another"}


@pytest.fixture
def places(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path)


def leave(places: StatePaths, process: dict[str, Any], age_s: float = 120, **changes: Any) -> str:
    run = "check-20260101T000000-abcd"
    write_json(places.spec(run), replace(SPEC, run=run, **changes).to_json())
    write_json(places.process(run), process)
    then = time.time() - age_s
    os.utime(places.run(run), (then, then))
    return run


@pytest.mark.parametrize("changes", [{}, {"define": (), "question": {"sql": "SELECT 1"}}])
def test_a_folder_whose_process_has_ended_is_removed(
    places: StatePaths, changes: dict[str, Any]
) -> None:
    run = leave(places, DEAD, **changes)

    assert run_folders.remove_leftovers(places, time.time()) == [run]
    assert not places.run(run).exists()


def test_a_check_that_still_runs_keeps_its_folder(places: StatePaths) -> None:
    me = process_identity.identify(os.getpid())
    assert me is not None
    leave(places, me.to_json())

    assert run_folders.remove_leftovers(places, time.time()) == []


def test_a_check_whose_result_is_not_read_yet_keeps_its_folder(places: StatePaths) -> None:
    leave(places, DEAD, age_s=1)

    assert run_folders.remove_leftovers(places, time.time()) == []


def test_a_run_of_a_pipeline_that_is_called_check_stays(places: StatePaths) -> None:
    leave(places, DEAD, define=())

    assert run_folders.remove_leftovers(places, time.time()) == []
