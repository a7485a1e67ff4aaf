"""Ctrl-C to `headrace run` in eight phases, once and twice: what it says, its code, what is left.

All share one project, in any order: each test gives it a row of its own. Whatever was interrupted
before, the last run finds every row, once. Code 0 says that nothing was cut: drained, or no query
had started yet; 1 that a batch was, or that what it was running had failed already. Phases are
reached by files and processes that show them, never by waiting for a while.

1 imports · 2 supervisor starting · 3 driver before its JVM (just launched; in the user's imports) ·
4 JVM starting · 5 building queries · 6 first batch · 7 idle · 8 draining, and waiting to restart
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from e2e import rig

pytestmark = pytest.mark.e2e
PIPELINE = "holding"
NOTHING = "stopped before anything had started"
NO_QUERY = "holding stopped before any of its queries had started"
DRAINED = "holding drained: every query stopped at a batch boundary"
START_S = 90.0


@dataclass
class Running:
    """`headrace run` in its own process, and what it has said so far."""

    project: rig.Project
    process: subprocess.Popen[bytes]
    output: Path
    runs_before: frozenset[str] = field(default_factory=frozenset)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def interrupt_twice(self) -> None:
        """As fast as two can be told from one another: the kernel keeps one of a kind waiting."""
        self.interrupt()
        self.until_said("draining")
        self.interrupt()

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def until_said(self, words: str) -> None:
        self.until(f"it says {words!r}", lambda: words in self.said())

    def until_asked_to_stop(self) -> None:
        """The supervisor tells of it once the driver has its SIGTERM."""
        folder = self.folder()
        assert folder
        log = self.project.state / "supervisor.log"

        def is_told() -> bool:
            lines = log.read_text().splitlines()
            return any("drain_started" in one and folder.name in one for one in lines)

        self.until("the driver is asked to stop", is_told)

    def until(self, what: str, check: Callable[[], Any], every_s: float = 0.05) -> None:
        def look() -> Any:
            if answer := check():
                return answer
            assert self.process.poll() is None, f"it ended before {what}:\n{self.said()}"
            return None

        rig.eventually(what, look, START_S, every_s)

    def folder(self) -> Path | None:
        """Of this command's newest driver run."""
        runs = (self.project.state / "runs").glob(f"{PIPELINE}-*")
        mine = [run for run in runs if run.name not in self.runs_before]
        return max(mine, key=lambda run: run.name) if mine else None

    def events(self) -> list[str]:
        folder = self.folder()
        path = folder / "events.jsonl" if folder else None
        if path is None or not path.exists():
            return []
        lines = path.read_text().splitlines()
        return [json.loads(line)["event"] for line in lines if line.endswith("}")]

    def driver_pid(self) -> int:
        folder = self.folder()
        assert folder
        return int(json.loads((folder / "process.json").read_text())["pid"])

    def has_jvm(self) -> bool:
        folder = self.folder()
        return folder is not None and any(rig.run_of(pid) == folder.name for pid in rig.jvm_pids())

    def has_open(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{self.process.pid}/fd")
            return any(os.readlink(fd).endswith(name) for fd in folder.iterdir())
        return False

    def has_mapped(self, part: str) -> bool:
        with contextlib.suppress(psutil.Error):
            maps = psutil.Process(self.process.pid).memory_maps(grouped=True)
            return any(part in one.path for one in maps)
        return False

    def end(self) -> tuple[int, str]:
        """Its code and words; whatever it was told, it leaves nobody behind and no half row."""
        code = self.process.wait(60 * rig.PATIENCE)
        assert "Traceback" not in self.said(), self.said()
        assert self.project.living() == []
        assert not (self.project.state / "supervisor.json").exists()
        assert max(rows(self.project).values(), default=1) == 1, "doubled"
        return code, self.said()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> rig.Project:
    return rig.Project.copy("holding", tmp_path_factory.mktemp("interrupts") / "project")


@pytest.fixture
def start(
    project: rig.Project, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Running]]:
    """Starts `run`, held where it is asked to stand; nothing holds it once the test has ended."""
    given = len(list((project.folder / "incoming").glob("row-*")))
    started: list[Running] = []

    def begin(hold: str | None = None) -> Running:
        project.give(f"row-{given + len(started)}")
        if hold:
            (project.folder / f"hold-{hold}").touch()
        runs = frozenset(path.name for path in (project.state / "runs").glob("*"))
        output = tmp_path / f"output-{len(started)}"
        with output.open("wb") as out:
            process = subprocess.Popen(
                project.command("run", PIPELINE),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        started.append(Running(project, process, output, runs))
        return started[-1]

    yield begin
    release(project)
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
    for left in rig.processes_in(project.folder):
        rig.kill(left.pid)


def release(project: rig.Project) -> None:
    for path in (*project.folder.glob("hold-*"), *project.folder.glob("at-*")):
        path.unlink()


def rows(project: rig.Project) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in (project.folder / "data").glob("[0-9]*"):
        found.update(path.read_text().split())
    return found


def stands(running: Running, phase: str) -> None:
    running.until(f"it stands at {phase}", (running.project.folder / f"at-{phase}").exists)


@pytest.mark.parametrize("times", [1, 2])
def test_in_its_imports_nothing_has_started(start: Callable[..., Running], times: int) -> None:
    running = start()
    running.until("it imports", lambda: running.has_mapped("pydantic_core"), every_s=0.005)
    for _ in range(times):
        running.interrupt()
    code, said = running.end()
    assert (code, running.folder()) == (0, None), said
    assert said.strip().endswith(NOTHING)


@pytest.mark.parametrize("times", [1, 2])
def test_while_the_supervisor_starts_nothing_has_started(
    start: Callable[..., Running], times: int
) -> None:
    running = start()
    running.until("its log is open", lambda: running.has_open("supervisor.log"), every_s=0.001)
    for _ in range(times):
        running.interrupt()
    code, said = running.end()
    assert code == 0, said
    # On a busy machine the test itself may be late, and meet a driver that was just launched.
    assert said.strip().endswith(NOTHING if running.folder() is None else NO_QUERY), said


@pytest.mark.parametrize("times", [1, 2])
def test_right_after_the_launch_of_the_driver(start: Callable[..., Running], times: int) -> None:
    running = start()
    running.until("a run folder", running.folder, every_s=0.002)
    for _ in range(times):
        running.interrupt()
    code, said = running.end()
    assert code == 0, said
    assert NOTHING in said or NO_QUERY in said, said


def test_in_the_users_imports_once(start: Callable[..., Running], project: rig.Project) -> None:
    running = start(hold="import")
    stands(running, "import")
    assert not running.has_jvm()
    running.interrupt()
    running.until_asked_to_stop()
    release(project)
    code, said = running.end()
    assert code == 0, said
    assert NO_QUERY in said
    assert "run_started" not in running.events(), "no JVM is started for a run that is to stop"


def test_in_the_users_imports_twice(start: Callable[..., Running]) -> None:
    running = start(hold="import")
    stands(running, "import")
    running.interrupt_twice()
    code, said = running.end()
    assert code == 0, said
    assert "cutting" in said
    assert NO_QUERY in said
    assert "run_started" not in running.events()


def test_while_the_jvm_starts_once(start: Callable[..., Running]) -> None:
    running = start()
    running.until("a JVM", running.has_jvm)
    assert "run_started" not in running.events()
    running.interrupt()
    code, said = running.end()
    assert code == 0, said
    assert NO_QUERY in said
    assert "query_started" not in running.events()


def test_while_the_jvm_starts_twice(start: Callable[..., Running]) -> None:
    running = start()
    running.until("a JVM", running.has_jvm)
    running.interrupt_twice()
    code, said = running.end()
    assert code == 0, said
    assert NO_QUERY in said
    assert "query_started" not in running.events()


def test_while_queries_are_built_once(start: Callable[..., Running], project: rig.Project) -> None:
    running = start(hold="build")
    stands(running, "build")
    running.interrupt()
    running.until_asked_to_stop()
    release(project)
    code, said = running.end()
    assert code == 0, said
    assert NO_QUERY in said
    assert "query_started" not in running.events()


def test_while_queries_are_built_twice(start: Callable[..., Running]) -> None:
    running = start(hold="build")
    stands(running, "build")
    running.interrupt_twice()
    code, said = running.end()
    assert code == 0, said
    assert NO_QUERY in said
    assert "query_started" not in running.events()


def test_in_a_batch_once_waits_for_it_and_commits(
    start: Callable[..., Running], project: rig.Project
) -> None:
    running = start(hold="batch")
    stands(running, "batch")
    running.interrupt()
    running.until("it drains", lambda: "drain_started" in running.events())
    release(project)
    code, said = running.end()
    assert code == 0, said
    assert DRAINED in said
    assert "kept: stopped cleanly after batch" in said
    assert not missing(project), "the batch that was waited for is there"


def test_in_a_batch_twice_cuts_and_the_next_run_does_it_again(
    start: Callable[..., Running], project: rig.Project
) -> None:
    running = start(hold="batch")
    stands(running, "batch")
    running.interrupt()
    running.until("it drains", lambda: "drain_started" in running.events())  # phase 8
    running.interrupt()
    code, said = running.end()
    assert code == 1, said
    assert "cutting" in said
    assert "kept: CUT" in said
    assert missing(project), "a batch that was cut is not there"

    release(project)
    running = start()
    running.until("all rows are there", lambda: not missing(project))
    running.until("it is idle", lambda: is_idle(running))  # phase 7
    running.interrupt_twice()
    code, said = running.end()
    assert (code, DRAINED in said) in ((0, True), (1, False)), said
    assert not missing(project)


def test_while_it_waits_to_restart_once(
    start: Callable[..., Running], project: rig.Project
) -> None:
    running = start()
    running.until("all rows are there", lambda: not missing(project))
    running.until("it is idle", lambda: is_idle(running))
    rig.kill(running.driver_pid())
    running.until_said("holding is waiting")
    running.interrupt()
    code, said = running.end()
    assert code == 1, said
    assert "holding vanished" in said
    assert "stopped while waiting for the next attempt" in said


def test_after_all_of_them_nothing_is_lost_or_doubled(
    start: Callable[..., Running], project: rig.Project
) -> None:
    running = start()
    running.until("all rows are there", lambda: not missing(project))
    running.until("it is idle", lambda: is_idle(running))
    running.interrupt()
    code, said = running.end()
    assert code == 0, said
    assert DRAINED in said
    given = Counter(path.name for path in (project.folder / "incoming").glob("row-*"))
    assert rows(project) == given


def missing(project: rig.Project) -> set[str]:
    given = {path.name for path in (project.folder / "incoming").glob("row-*")}
    return given - set(rows(project))


def is_idle(running: Running) -> bool:
    queries = running.project.status(PIPELINE).get("queries") or [{}]
    return queries[0].get("data_available") is False and not queries[0].get("trigger_active")
