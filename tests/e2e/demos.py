"""`headrace demo` as a person starts it, for the tests of it and of its page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import rig
from headrace.health.conditions import table
from headrace.health.run_view import RunView, fold
from headrace.model.events import Event
from headrace.model.limits import HealthLimits

BUSY = "falling-behind"  # says something about the machine that the tests share
SCRIPT = Path(__file__).parents[2] / "scripts" / "demo"
PIPELINE = "metrics"
QUERIES = {"history", "logins", "heartbeats", "overloaded", "silent", "logs.quarantine"}


@dataclass
class Demo:
    """One `make demo`, and all that it has said."""

    project: rig.Project
    process: subprocess.Popen[str]
    errors: Path

    @property
    def said(self) -> str:
        return self.errors.read_text()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self, timeout_s: float) -> str:
        """Its output, once it has come to a good end."""
        out, _ = self.process.communicate(timeout=timeout_s * rig.PATIENCE)
        assert self.process.returncode == 0, f"{out}\n{self.said}"
        return out


@contextmanager
def demo(folder: Path, *args: str, **env: str) -> Iterator[Demo]:
    binary = Path(sys.executable).with_name("headrace")
    env = {**os.environ, "HEADRACE": str(binary), "DEMO_DIR": str(folder), **env}
    errors = folder.parent / "demo.err"
    with errors.open("w") as file:
        run = subprocess.Popen(
            [SCRIPT, *args], env=env, stdout=subprocess.PIPE, stderr=file, text=True
        )
    project = rig.Project(folder)
    try:
        yield Demo(project, run, errors)
    except BaseException as exc:
        exc.add_note(errors.read_text()[-4000:])
        raise
    finally:
        run.kill()
        run.communicate()
        # Only if the demo was killed, just now.
        for left in (*project.marked(), *rig.processes_in(folder)):
            left.kill()


def told(output: str) -> dict[str, Any]:
    return dict(json.loads(output.splitlines()[-1]))


def jvm(project: rig.Project) -> int | None:
    found = project.status(PIPELINE).get("jvm_pid") if project.state.exists() else None
    return int(found) if found else None


def kill_jvm(project: rig.Project) -> None:
    pid = rig.eventually("a JVM runs", lambda: jvm(project), 120)
    os.kill(pid, signal.SIGKILL)
    rig.eventually("another JVM runs", lambda: jvm(project) not in (None, pid), 120)


def has_history(folder: Path) -> bool:
    return any((folder / "data" / "metrics").glob("date=*/*.parquet"))


def has_committed(project: rig.Project) -> bool:
    queries = project.status(PIPELINE).get("queries", []) if project.state.exists() else []
    return len(queries) >= len(QUERIES) and all(query["batches"] for query in queries)


def findings(project: rig.Project) -> set[tuple[str, str | None]]:
    """Whatever was found wrong at any moment of its runs, by their own events."""
    found: set[tuple[str, str | None]] = set()
    for file in project.state.glob("runs/*/events.jsonl"):
        view = RunView()
        for number, line in enumerate(file.read_text().splitlines()):
            event = Event.from_line(line)
            view = fold(view, event, event.at)
            if number % 20 == 0:
                seen = table.by_query(view, HealthLimits()).values()
                found |= {(one.slug, one.query) for each in seen for one in each}
    return found


def assert_nothing_is_wrong(said: dict[str, Any], folder: Path) -> None:
    assert (said["lost"], said["doubled"]) == (0, 0), said
    assert said["quarantined"] == said["malformed"] > 0
    assert said["alerts"]["overloaded"] >= 1
    assert said["alerts"]["silent"] >= 1
    assert said["files"] > 0
    assert set(said["queries"]) == QUERIES
    for query in said["queries"].values():
        assert query["rows_in"] > 0
        assert query["rows_out"] > 0
        assert query["batches"] > 0
        assert query["fresh_p50_ms"] > 0
    assert rig.Project(folder).living() == []
