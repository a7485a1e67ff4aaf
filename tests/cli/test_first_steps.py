"""The first minutes of a newcomer, with Spark: `init`, `check`, `run`, Ctrl-C; real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.stage import eventually
from e2e import rig

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def headrace(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", *args],
        cwd=folder, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_what_init_writes_is_checked_runs_and_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README has it: `init`, `run` inside the folder, and Ctrl-C ends it."""
    folder = tmp_path / "hello"
    written = headrace(tmp_path, "init", "hello")
    command = [sys.executable, "-m", "headrace", "run", "hello"]
    errors = tmp_path / "run.err"
    with errors.open("w") as out:
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=out)
    try:
        eventually(lambda: list((folder / "data/words").glob("*.parquet")), timeout_s=150)
        waited = headrace(folder, "wait", "hello", "--until", "caught-up", "--timeout", "120s")
        run.send_signal(signal.SIGINT)
        code = run.wait(90)
    finally:
        run.kill()
        run.wait()
    words = errors.read_text()
    checked = headrace(folder, "check", "--json")
    left = [process.cmdline() for process in rig.processes_in(folder)]
    question = (
        "SELECT word, count(*) AS n, max(at) AS newest FROM words GROUP BY word "
        "ORDER BY n DESC, word LIMIT 3"
    )
    monkeypatch.setenv("TZ", "America/New_York")  # moments are told in UTC wherever one sits
    asked = [headrace(folder, "sql", question, "--json", *more) for more in ((), ("--spark",))]

    assert written.returncode == 0, written.stderr
    assert (checked.returncode, waited.returncode) == (0, 0), waited.stderr
    assert left == [], "a check leaves no JVM behind"
    queries = json.loads(checked.stdout)["pipelines"][0]["queries"]
    assert [query["guarantee"] for query in queries] == ["exactly-once", "exactly-once"]
    assert code == 0, words
    assert "stopped cleanly" in words
    answers = [json.loads(one.stdout) for one in asked]
    assert len(answers[0]["rows"]) == 3
    assert answers[0]["rows"] == answers[1]["rows"], "DuckDB and Spark see the same"
    assert answers[0]["tables"][0]["batch"] is not None
