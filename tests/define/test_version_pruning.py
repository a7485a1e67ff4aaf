"""Old versions are removed, except those that a pipeline runs, should run, or may go back to."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.define import deployed_code
from headrace.json_file import write_json
from headrace.model.runs import Desired, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import desired, run_folders

DAY_S = 86_400.0
WANTED = Desired("shop", "running", "current", "dev", "pipelines/shop.py")


@pytest.fixture
def places(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / ".headrace")


def keep(places: StatePaths, *names: str, days: float = 2.0) -> None:
    for name in names:
        places.code(name).mkdir(parents=True)
        age(places.version(name), days)


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def ran(places: StatePaths, version: str, number: int, *, is_over: bool = True) -> None:
    run = f"shop-20260101T0000{number:02d}-abcd"
    where = (str(places.state.parent), str(places.state))
    spec = RunSpec(run, "shop", *where, version, "dev", "pipelines/shop.py", at=float(number))
    run_folders.write_spec(places, spec)
    if is_over:
        write_json(places.exit(run), {})


def left(places: StatePaths) -> set[str]:
    return {path.name for path in places.versions.iterdir()}


def test_a_version_that_was_only_checked_goes_after_a_day(places: StatePaths) -> None:
    keep(places, "old")
    keep(places, "young", days=0.9)

    assert deployed_code.prune(places, time.time()) == ["old"]
    assert left(places) == {"young"}


def test_a_version_that_was_only_checked_is_discarded(places: StatePaths) -> None:
    project = places.state.parent
    (project / "shop.py").write_text("")
    version = deployed_code.snapshot(project, places)

    deployed_code.discard(places, version, deployed_code.stamp(places, version))

    assert left(places) == set()


def test_a_version_that_a_deploy_has_taken_up_is_not_discarded(places: StatePaths) -> None:
    project = places.state.parent
    (project / "shop.py").write_text("")
    version = deployed_code.snapshot(project, places)
    known = deployed_code.stamp(places, version)
    assert deployed_code.snapshot(project, places) == version, "the deploy finds the same code"

    deployed_code.discard(places, version, known)

    assert left(places) == {version}


def test_a_version_that_should_run_is_not_discarded(places: StatePaths) -> None:
    keep(places, "current")
    desired.write(places, WANTED)

    deployed_code.discard(places, "current", deployed_code.stamp(places, "current"))

    assert left(places) == {"current"}


def test_what_should_run_and_what_comes_back_after_a_run_stay(places: StatePaths) -> None:
    keep(places, "current", "former", "old")
    former = replace(WANTED, version="former").to_json()
    desired.write(places, replace(WANTED, dev=True, former=former))

    deployed_code.prune(places, time.time())

    assert left(places) == {"current", "former"}


def test_what_runs_stays_also_if_something_else_should_run(places: StatePaths) -> None:
    keep(places, "current", *(f"run{number}" for number in range(12)))
    desired.write(places, WANTED)
    ran(places, "run0", 0, is_over=False)
    for number in range(1, 12):
        ran(places, f"run{number}", number)

    deployed_code.prune(places, time.time())

    assert "run0" in left(places)
    assert "run1" not in left(places)


def test_the_last_ten_deployed_versions_stay(places: StatePaths) -> None:
    earlier = tuple(f"v{number:02d}" for number in range(15))
    keep(places, "current", *earlier)
    desired.write(places, replace(WANTED, previous=earlier))

    deployed_code.prune(places, time.time())

    assert left(places) == {"current", *earlier[-10:]}


def test_the_version_that_a_rollback_left_stays(places: StatePaths) -> None:
    keep(places, "current", "newer")
    desired.write(places, WANTED)
    ran(places, "newer", 1)
    ran(places, "current", 2)

    deployed_code.prune(places, time.time())

    assert left(places) == {"current", "newer"}


def test_a_version_that_is_deployed_again_is_as_good_as_new(
    places: StatePaths, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("A = 1\n")
    version = deployed_code.snapshot(tmp_path, places)
    age(places.version(version), 2.0)

    again = deployed_code.snapshot(tmp_path, places)

    assert again == version
    assert deployed_code.prune(places, time.time()) == []


def test_half_a_copy_that_a_crash_left_goes_too(places: StatePaths) -> None:
    keep(places, ".tmpabc")

    assert deployed_code.prune(places, time.time()) == [".tmpabc"]


def test_without_versions_nothing_is_removed(places: StatePaths) -> None:
    assert deployed_code.prune(places, time.time()) == []
