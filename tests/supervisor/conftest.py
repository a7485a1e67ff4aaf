"""A project with fake drivers, and the supervisor as a real process or in this one."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace import process_identity
from headrace.model.requests import Action, Reply, Request
from headrace.model.runs import Exit, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import requests, run_folders, supervisor_lookup
from headrace.store import db, events, pipeline_status
from headrace.supervisor import process

FAKE_DRIVER = (sys.executable, str(Path(__file__).parent.parent / "fakes" / "driver.py"))
LIMITS = """
[restart]
delay_s_min = 0.2
delay_s_max = 1
healthy_after_s = 1
[watchdog]
start_s = 3
alive_s = 1.5
stall_s = 1
kill_after = 2
[drain]
timeout_s = 2
kill_s = 1
"""


def until(condition: Callable[[], Any], timeout_s: float = 60.0, what: str = "") -> Any:
    """Polls; the condition's first true answer, or a failure that says what was waited for."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what or condition}")
        time.sleep(0.02)


@dataclass
class Project:
    path: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    asked: int = 0

    @property
    def places(self) -> StatePaths:
        return StatePaths(self.path / ".headrace")

    def behave(self, **pipelines: dict[str, Any]) -> None:
        (self.path / "behaviour.json").write_text(json.dumps(pipelines))

    def version(self, name: str = "v1", limits: str = LIMITS) -> str:
        code = self.places.code(name)
        code.mkdir(parents=True, exist_ok=True)
        (code / "headrace.toml").write_text(limits)
        self.places.state.chmod(0o700)
        return name

    def supervise(self) -> subprocess.Popen[bytes]:
        """A supervisor as a process, once it is ready."""
        module = [sys.executable, "-m", "headrace.supervisor.main", str(self.path)]
        command = [*module, "--driver-command", shlex.join(FAKE_DRIVER)]
        self.places.state.mkdir(mode=0o700, exist_ok=True)
        with (self.path / "supervisor.out").open("ab") as out:
            child = subprocess.Popen(command, stdout=out, stderr=out)
        self.children.append(child)

        def is_ready() -> bool:
            running = supervisor_lookup.running(self.places)
            return child.poll() is not None or (running is not None and running.pid == child.pid)

        until(is_ready, what="a supervisor")
        return child

    def ask(self, what: Action, pipeline: str = "", **more: Any) -> Reply:
        self.asked += 1
        request = Request(f"r{self.asked}", what, "ann", time.time(), pipeline, **more)
        requests.leave(self.places, request)
        answer = requests.answer_of(self.places, request.id, 10)
        assert answer is not None, "no answer"
        return answer

    def deploy(self, pipeline: str, version: str = "v1") -> Reply:
        self.version(version)
        file = f"{pipeline}.py"
        return self.ask(Action.DEPLOY, pipeline, version=version, file=file)

    def runs(self, pipeline: str) -> list[RunSpec]:
        return run_folders.specs(self.places).get(pipeline, [])

    def drivers(self, pipeline: str | None = None) -> list[process_identity.MarkedProcess]:
        found = process_identity.find_marked(self.places.state)
        return [m for m in found if not pipeline or m.run.startswith(f"{pipeline}-")]

    def one_driver(self, pipeline: str, beside: int | None = None) -> int:
        """The pid of the one driver that lives and has made itself known."""

        def find() -> int | None:
            found = [m for m in self.drivers(pipeline) if m.is_leader]
            if len(found) != 1 or found[0].process.pid == beside:
                return None
            is_beating = "sampled" in self.events_text(found[0].run)
            return found[0].process.pid if is_beating else None

        return int(until(find, what=f"one driver of {pipeline}"))

    def events_text(self, run: str) -> str:
        path = self.places.events(run)
        return path.read_text() if path.exists() else ""

    def outcome(self, run: str) -> Exit | None:
        body = self.places.run(run) / "outcome.json"
        return Exit.from_json(json.loads(body.read_text())["exit"]) if body.exists() else None

    def state(self, pipeline: str) -> tuple[str, str]:
        try:
            conn = db.open_readonly(self.places.history)
        except Exception:
            return "", ""
        with conn:
            found = pipeline_status.read(conn, pipeline)
        conn.close()
        return (found.state, found.why) if found else ("", "")

    def recorded(self, pipeline: str) -> list[str]:
        conn = db.open_readonly(self.places.history)
        kinds = [one.kind for one in events.recent(conn, pipeline, 1000)]
        conn.close()
        return kinds


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    made.behave()
    made.version()
    yield made
    for child in made.children:
        if child.poll() is None:
            child.kill()
        child.wait()
    # A child between fork and exec carries no mark yet: a second look finds it.
    for _ in range(2):
        time.sleep(0.1)
        for found in process_identity.find_marked(made.places.state):
            os.kill(found.process.pid, signal.SIGKILL)
        until(
            lambda: not process_identity.find_marked(made.places.state),
            what="an empty process table",
        )
    process.collect_children()


@pytest.fixture
def stranger() -> Iterator[psutil.Popen]:
    child = psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()
