"""The supervisor in this process, tick by tick on a clock of the test's own."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace import process_identity
from headrace.json_file import write_json
from headrace.model.events import Event, EventKind
from headrace.model.requests import Action, Request
from headrace.model.runs import Desired, Orders, Process, RunSpec, run_name
from headrace.state import desired, requests, run_folders
from headrace.state.event_file import CHUNK_BYTES
from headrace.store import alerts, db, progress
from headrace.supervisor.loop import TIDY_S, Clock, Supervisor
from headrace.supervisor.running_driver import CHUNKS_PER_TICK
from supervisor.conftest import FAKE_DRIVER, Project, until

WANTED = Desired("orders", "running", "v1", "dev", "orders.py")
STOPPED = replace(WANTED, wanted="stopped")


class Ticking:
    """One supervisor; `now` moves only when the test says so."""

    def __init__(self, project: Project, only: str | None = None) -> None:
        self.now = time.time()
        clock = Clock(steady=lambda: self.now, wall=lambda: self.now)
        self.supervisor = Supervisor(
            project.path, only=only, clock=clock, driver_command=FAKE_DRIVER
        )

    def tick(self, seconds: float = 0.25) -> None:
        self.now += seconds
        self.supervisor.tick(self.now)

    def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """In real time, for what real processes do."""
        ahead = self.now - time.time()

        def look() -> Any:
            self.now = time.time() + ahead
            self.supervisor.tick(self.now)
            return condition()

        return until(look, what=what)

    def go_down(self) -> None:
        self.supervisor.go_down()
        self.until(lambda: self.supervisor.is_done, "its end")


@pytest.fixture
def begin(project: Project) -> Iterator[Callable[..., Ticking]]:
    started: list[Ticking] = []

    def make(only: str | None = None) -> Ticking:
        started.append(Ticking(project, only))
        return started[-1]

    yield make
    for one in started:
        one.supervisor.close()


def spec(project: Project, at: float, pipeline: str = "orders") -> RunSpec:
    name, place = run_name(pipeline, at, "abcd"), str(project.path)
    return RunSpec(name, pipeline, place, str(project.places.state), "v1", "dev", "f.py", at=at)


def marked_leader(project: Project, run: str) -> subprocess.Popen[bytes]:
    """A process that carries a run's mark and leads a session, as a driver or its child may.

    The project ends it with the test.
    """
    marks = {process_identity.RUN_MARK: run, process_identity.STATE_MARK: str(project.places.state)}
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, **marks},
        start_new_session=True,
    )
    project.children.append(child)
    until(lambda: any(m.process.pid == child.pid for m in project.drivers()), what="its mark")
    return child


# ---- Requests


def test_a_wish_to_go_down_that_was_meant_for_the_one_before_is_ignored(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    old = Request("r1", Action.DOWN, "ann", time.time() - 60)
    requests.leave(project.places, old)
    mine = begin()

    mine.tick()
    was_going_down = mine.supervisor.is_going_down
    requests.leave(project.places, replace(old, id="r2", at=mine.now))
    mine.tick()

    answer = requests.answer_of(project.places, "r1", 0)
    assert answer is not None
    assert "older than this supervisor" in answer.text
    assert not was_going_down
    assert mine.supervisor.is_going_down
    assert list(project.places.requests.iterdir()) == []


def test_a_step_that_fails_costs_that_step_only(
    project: Project, begin: Callable[..., Ticking], monkeypatch: pytest.MonkeyPatch
) -> None:
    desired.write(project.places, STOPPED)
    mine = begin()

    def refuse() -> list[int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(psutil, "pids", refuse)  # the machine cannot be looked through
    mine.tick()

    assert project.state("orders")[0] == "stopped"


# ---- Full disks


@pytest.mark.e2e
def test_a_full_disk_is_told_once_waited_for_and_leaves_no_folders(
    project: Project, begin: Callable[..., Ticking], monkeypatch: pytest.MonkeyPatch
) -> None:
    desired.write(project.places, WANTED)
    mine = begin()
    real, tried = os.open, []

    def full(path: Any, flags: int, *mode: int, **named: Any) -> int:
        if flags & os.O_CREAT and Path(path).parent.parent == project.places.runs:
            tried.append(mine.now)
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, flags, *mode, **named)

    monkeypatch.setattr(os, "open", full)
    for _ in range(60):
        mine.tick(0.5)
    mine.tick(0.01)  # whatever the last one tried is decided about now
    folders_left = list(project.places.runs.iterdir())
    state = project.state("orders")
    monkeypatch.undo()
    mine.until(lambda: project.drivers("orders"), "a driver")

    assert 5 <= len(tried) // 2 <= 40  # run.json, and how it ended; with a pause in between
    assert folders_left == []
    assert state[0] == "waiting"
    assert "disk full (No space left on device" in state[1]
    conn = db.open_readonly(project.places.alerts)
    recorded = alerts.list_alerts(conn, "open")
    conn.close()
    assert [alert.key for alert in recorded] == ["restarting:orders"]
    assert project.recorded("orders").count("alert_opened") == 1


@pytest.mark.thorough
def test_failed_starts_are_forgotten_like_old_runs(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    desired.write(project.places, WANTED)
    mine = begin()
    project.places.runs.rmdir()
    project.places.runs.write_text("no folder: nothing can be written below it")

    for _ in range(70):
        mine.tick(2.0)

    assert len(mine.supervisor.keepers["orders"].past) == run_folders.KEPT_PER_PIPELINE


# ---- What a former supervisor left


def test_a_long_file_of_a_run_that_ended_alone_is_read_over_several_ticks(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    desired.write(project.places, STOPPED)
    began = float(int(time.time()) - 3600)
    ended = spec(project, at=began)
    run_folders.write_spec(project.places, ended)
    per_tick = CHUNKS_PER_TICK * CHUNK_BYTES
    padding = "x" * 16_000
    count = 2 * per_tick // len(padding)
    with project.places.events(ended.run).open("w") as file:
        for batch in range(count):
            recorded = {"progress": {"batchId": batch, "numInputRows": 1, "name": padding}}
            file.write(Event(began + batch, EventKind.PROGRESSED, "q", recorded).to_line() + "\n")
    mine = begin()
    keeper = mine.supervisor.keepers["orders"]

    mine.tick()
    after_one = (len(keeper.past), keeper.is_reading)
    mine.tick()
    mine.tick()

    assert after_one == (0, True)
    (past,) = keeper.past
    assert (past.exit.ending, past.committed) == ("vanished", {"q": count})
    assert past.ended_at == began + count - 1  # its last line: it was not us who waited since
    assert run_folders.outcome_of(project.places, ended, mine.now) == past
    conn = db.open_readonly(project.places.history)
    stored = progress.newest(conn, "orders", "q", 10_000)
    conn.close()
    assert len(stored) == count


def test_nothing_is_decided_before_the_last_run_is_read(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    desired.write(project.places, WANTED)
    ended = spec(project, at=1000.0)
    run_folders.write_spec(project.places, ended)
    line = Event(1001.0, EventKind.PROGRESSED, "q", {"progress": {"name": "x" * 100_000}}).to_line()
    lines = 2 * CHUNKS_PER_TICK * CHUNK_BYTES // len(line)
    project.places.events(ended.run).write_text((line + "\n") * lines)
    exit_ = {"ending": "refused", "code": 3, "at": 1002.0, "error": {"what": "No Java."}}
    write_json(project.places.exit(ended.run), exit_)
    mine = begin()

    for _ in range(3):
        mine.tick()

    assert project.state("orders") == ("needs-attention", "no Java")
    assert len(project.runs("orders")) == 1


@pytest.mark.e2e
def test_the_record_of_a_dead_driver_is_believed_before_a_child_that_outlived_it(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    desired.write(project.places, STOPPED)
    ended = spec(project, at=1000.0)
    run_folders.write_spec(project.places, ended)
    child = marked_leader(project, ended.run)
    dead = Process(child.pid, 1.0, process_identity.boot_id())  # its pid is another's by now
    write_json(project.places.process(ended.run), dead.to_json())

    mine = begin()
    keeper = mine.supervisor.keepers["orders"]

    assert keeper.live is None
    mine.until(lambda: not project.drivers(), "an empty process table")
    assert child.wait(5) == -signal.SIGKILL
    assert [past.exit.ending for past in keeper.past] == ["vanished"]


@pytest.mark.e2e
def test_without_a_record_the_oldest_leader_is_the_driver(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    desired.write(project.places, WANTED)
    alive = spec(project, at=1000.0)
    run_folders.write_spec(project.places, alive)
    children = [marked_leader(project, alive.run) for _ in range(3)]

    live = begin().supervisor.keepers["orders"].live

    assert live is not None
    assert live.process.pid == children[0].pid


@pytest.mark.e2e
def test_a_drain_that_was_written_down_and_never_asked_for_is_asked_for(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    first = project.supervise()
    project.deploy("orders")
    project.one_driver("orders")
    (run,) = [one.run for one in project.runs("orders")]
    first.kill()
    first.wait()
    orders = Orders(drain_at=time.time(), drain_reason="stopped by ann")
    run_folders.write_orders(project.places, run, orders)
    wanted = desired.read(project.places, "orders")
    assert wanted is not None
    desired.write(project.places, replace(wanted, wanted="stopped"))

    mine = begin()
    exit_ = mine.until(lambda: project.outcome(run), "its end")

    assert exit_.ending == "drained"


def test_a_record_that_is_damaged_while_the_supervisor_runs_is_written_again(
    project: Project, begin: Callable[..., Ticking]
) -> None:
    desired.write(project.places, STOPPED)
    mine = begin()
    mine.tick()
    project.places.desired("orders").write_text("{")

    mine.tick(TIDY_S)

    assert desired.read(project.places, "orders") == STOPPED


# ---- A supervisor of one pipeline


@pytest.fixture
def left_alone(project: Project) -> Project:
    """Two pipelines of version v1 run, and their supervisor is dead."""
    first = project.supervise()
    for name in ("mine", "other"):
        project.deploy(name)
    for name in ("mine", "other"):
        project.one_driver(name)
    first.kill()
    first.wait()
    return project


@pytest.mark.e2e
def test_a_supervisor_of_one_pipeline_shows_the_others_and_lets_them_live(
    left_alone: Project, begin: Callable[..., Ticking]
) -> None:
    pid = left_alone.one_driver("other")
    ran = len(left_alone.runs("other"))

    mine = begin(only="mine")
    asked = Request("r9", Action.RESTART, "ann", mine.now, "mine")
    requests.leave(left_alone.places, asked)
    mine.until(lambda: len(left_alone.runs("mine")) == 2, "mine is its own")
    mine.until(lambda: left_alone.state("other")[0] == "running", "other is shown")
    mine.go_down()

    assert left_alone.drivers("mine") == []
    assert left_alone.one_driver("other") == pid
    assert len(left_alone.runs("other")) == ran
    wanted = desired.read(left_alone.places, "other")
    assert wanted is not None
    assert (wanted.wanted, wanted.generation) == ("running", 1)


@pytest.mark.e2e
def test_it_starts_nothing_else_also_if_that_dies(
    left_alone: Project, begin: Callable[..., Ticking]
) -> None:
    mine = begin(only="mine")
    mine.tick()

    os.kill(left_alone.one_driver("other"), signal.SIGKILL)
    mine.until(lambda: left_alone.state("other")[0] == "stopped", "it is shown as stopped")
    for _ in range(10):
        mine.tick(1.0)

    assert "not controlled by the supervisor of `headrace run mine`" in left_alone.state("other")[1]
    assert len(left_alone.runs("other")) == 1
    mine.go_down()


@pytest.mark.e2e
def test_a_request_that_names_another_makes_it_its_own_and_drains_before_it_switches(
    left_alone: Project, begin: Callable[..., Ticking]
) -> None:
    first = left_alone.one_driver("other")
    mine = begin(only="mine")
    mine.tick()
    left_alone.version("v2")
    facts = {"pipeline": "other", "version": "v2", "file": "other.py"}
    requests.leave(left_alone.places, Request("r9", Action.DEPLOY, "ann", mine.now, **facts))

    mine.until(lambda: len(left_alone.runs("other")) == 2, "the new version")
    wanted = desired.read(left_alone.places, "other")

    ended = left_alone.outcome(left_alone.runs("other")[0].run)
    assert ended is not None
    assert ended.ending == "drained"
    assert first not in [found.process.pid for found in left_alone.drivers()]
    assert wanted is not None
    assert wanted.previous == ("v1",)
    mine.go_down()
    assert left_alone.drivers("other") == []
    assert len(left_alone.drivers("mine")) == 1, "no request has named it yet"


@pytest.mark.e2e
def test_a_person_s_down_drains_them_all(
    left_alone: Project, begin: Callable[..., Ticking]
) -> None:
    mine = begin(only="mine")
    requests.leave(left_alone.places, Request("r9", Action.DOWN, "ann", mine.now + 0.1))

    mine.until(lambda: mine.supervisor.is_done, "its end")

    assert left_alone.drivers() == []
    ends = [left_alone.outcome(left_alone.runs(name)[0].run) for name in ("mine", "other")]
    assert [end and end.ending for end in ends] == ["drained", "drained"]
