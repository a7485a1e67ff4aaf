"""conftest.py keeps what it says: seen on a small suite of its own, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import gone
from headrace import process_identity

pytestmark = pytest.mark.e2e

CONFTEST = Path(__file__).parent / "conftest.py"


def run_suite(folder: Path, test: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(
        CONFTEST.read_text().replace("GRACE_S = 15.0", "GRACE_S = 1.0")
    )
    (folder / "test_small.py").write_text(test)
    clean = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    return subprocess.run(
        command,
        cwd=folder,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


SKIPS = [
    "import pytest\ndef test_it():\n    pytest.skip('no broker')\n",
    "import pytest\n@pytest.mark.skip(reason='no broker')\ndef test_it(): ...\n",
    "import pytest\npytest.skip('no broker', allow_module_level=True)\n",
]


@pytest.mark.parametrize("test", SKIPS)
def test_a_skip_is_a_failure_under_ci(tmp_path: Path, test: str) -> None:
    done = run_suite(tmp_path, test, CI="true")

    assert done.returncode != 0
    assert "skipped under CI" in done.stdout
    assert "no broker" in done.stdout


def test_a_skip_is_a_skip_elsewhere(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SKIPS[0])

    assert done.returncode == 0
    assert "1 skipped" in done.stdout


def test_a_process_left_behind_fails_the_suite_and_is_ended(tmp_path: Path) -> None:
    leaver = (
        "import pathlib, subprocess, sys\n"
        "def test_it():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'],\n"
        "                             start_new_session=True)\n"
        "    pathlib.Path('pid').write_text(str(child.pid))\n"
    )

    done = run_suite(tmp_path, leaver)

    assert done.returncode == 1
    assert "processes left behind" in done.stdout
    pid = int((tmp_path / "pid").read_text())
    assert process_identity.identify(pid) is None


def test_a_suite_that_cleans_up_passes(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "def test_it():\n    assert True\n")

    assert done.returncode == 0


def test_a_zombie_counts_as_gone() -> None:
    child = psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert gone.alive([child]) == [child]

        os.kill(child.pid, signal.SIGKILL)

        assert gone.alive_at_last([psutil.Process(child.pid)]) == []
        assert psutil.pid_exists(child.pid)
    finally:
        child.kill()
        child.wait()


ONCE_MORE = Path(__file__).parents[1] / "scripts" / "once-more"
FLAKY = """
from pathlib import Path

def test_flaky():
    seen = Path("seen")
    is_first = not seen.exists()
    seen.touch()
    assert not is_first

def test_sound(): ...
"""
BROKEN = "\ndef test_broken():\n    assert False\n"


@pytest.mark.parametrize(("test", "code"), [(FLAKY, 0), (FLAKY + BROKEN, 1)])
def test_what_failed_runs_once_more_and_is_called_flaky_if_it_passes(
    tmp_path: Path, test: str, code: int
) -> None:
    (tmp_path / "test_small.py").write_text(test)
    clean = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_ADDOPTS")}
    run = {"cwd": tmp_path, "env": clean, "capture_output": True, "text": True, "check": False}

    first = subprocess.run([sys.executable, "-m", "pytest", "-q", "--rootdir", "."], **run)
    again = subprocess.run([sys.executable, ONCE_MORE, str(first.returncode), "-q"], **run)

    assert first.returncode == 1
    assert again.returncode == code
    flaky = [line for line in again.stdout.splitlines() if line.startswith("FLAKY")]
    assert flaky == ["FLAKY test_small.py::test_flaky"]
    assert "test_sound" not in again.stdout


def test_a_run_that_was_interrupted_is_not_run_again(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, ONCE_MORE, "2"], cwd=tmp_path, check=False)

    assert done.returncode == 2
