"""`make demo` whole: script, generator, pipeline, a killed JVM, and the count of it all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e import rig

SCRIPT = Path(__file__).parents[2] / "scripts" / "demo"
PIPELINE = "metrics"
QUERIES = {"history", "logins", "heartbeats", "overloaded", "silent", "logs.quarantine"}
pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]


@contextmanager
def demo(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    binary = Path(sys.executable).with_name("headrace")
    env = {**os.environ, "HEADRACE": str(binary), "DEMO_DIR": str(folder)}
    with (folder.parent / "demo.err").open("w") as errors:
        run = subprocess.Popen(
            [SCRIPT, *args], env=env, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield run
    except BaseException as exc:
        exc.add_note((folder.parent / "demo.err").read_text()[-4000:])
        raise
    finally:
        run.kill()
        run.communicate()
        project = rig.Project(folder)
        for left in project.marked():  # only if the demo was killed, just now
            left.kill()


def ended(run: subprocess.Popen[str], folder: Path, timeout_s: float) -> dict[str, Any]:
    out, _ = run.communicate(timeout=timeout_s)
    words = (folder.parent / "demo.err").read_text()
    assert run.returncode == 0, f"{out}\n{words}"
    return dict(json.loads(out.splitlines()[-1]))


def jvm(project: rig.Project) -> int | None:
    found = project.status(PIPELINE).get("jvm_pid") if project.state.exists() else None
    return int(found) if found else None


def kill_jvm(project: rig.Project) -> None:
    pid = rig.eventually("a JVM runs", lambda: jvm(project), 120)
    os.kill(pid, signal.SIGKILL)
    rig.eventually("another JVM runs", lambda: jvm(project) not in (None, pid), 120)


def has_history(folder: Path) -> bool:
    return any((folder / "data" / "metrics").glob("date=*/*.parquet"))


def assert_nothing_is_wrong(told: dict[str, Any], folder: Path) -> None:
    assert (told["lost"], told["doubled"]) == (0, 0), told
    assert told["quarantined"] == told["malformed"] > 0
    assert told["alerts"]["overloaded"] >= 1
    assert told["alerts"]["silent"] >= 1
    assert told["files"] > 0
    assert set(told["queries"]) == QUERIES
    for query in told["queries"].values():
        assert query["rows_in"] > 0
        assert query["rows_out"] > 0
        assert query["batches"] > 0
        assert query["fresh_p50_ms"] > 0
    assert rig.Project(folder).living() == []


def test_the_demo_loses_and_doubles_nothing_when_its_jvm_is_killed(tmp_path: Path) -> None:
    folder, words = tmp_path / "shop", tmp_path / "demo.err"
    with demo(folder, "--for", "60s", "--rate", "100", "--json") as run:
        rig.eventually("the first file of history", lambda: has_history(folder), 150)
        kill_jvm(rig.Project(folder))
        told = ended(run, folder, 600)
    assert_nothing_is_wrong(told, folder)
    assert told["restarts"] >= 1
    assert "wrote" in words.read_text()

    with demo(folder, "--rate", "50") as run:  # the same folder goes on, until Ctrl-C
        rig.eventually("every query has worked", lambda: "running: " in words.read_text(), 180)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=240)
    text = words.read_text()
    assert run.returncode == 0, text
    assert "goes on in" in text
    assert "lost 0, doubled 0" in text
    assert rig.Project(folder).living() == []


@pytest.mark.chaos
def test_three_kills_in_two_minutes_lose_and_double_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    with demo(folder, "--for", "120s", "--json") as run:
        rig.eventually("the first file of history", lambda: has_history(folder), 150)
        for _ in range(3):
            kill_jvm(rig.Project(folder))
            time.sleep(15)  # it is to be killed while it works, not while it starts

        told = ended(run, folder, 700)

    assert_nothing_is_wrong(told, folder)
    assert told["restarts"] >= 3
