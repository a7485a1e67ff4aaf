"""Duties of the relay: one that fails or hangs affects no other, and the end takes bounded time."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.project.workspace import Workspace, open_workspace
from headrace.relay import duties
from headrace.relay import main as relay
from headrace.relay.duties import REST_S_MIN, Duty, DutyRoster, describe_hang, rest_s

WAIT_S = 60.0


def until(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.01)


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return open_workspace(tmp_path, "dev")


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties, "REST_S_MIN", 0.01)


def nothing(work: Workspace) -> list[str]:
    return []


def test_a_duty_keeps_its_period_however_long_it_runs() -> None:
    duty = Duty("a", nothing, every_s=5.0)

    assert rest_s(duty, began=100.0, ended=101.0) == 4.0
    assert rest_s(duty, began=100.0, ended=140.0) == REST_S_MIN


def test_a_duty_hangs_once_its_deadline_has_passed() -> None:
    duty = Duty("the export to Mars", nothing, deadline_s=60.0)

    assert describe_hang(duty, None, 500.0) is None
    assert describe_hang(duty, 100.0, 160.0) is None
    assert "the export to Mars hangs" in str(describe_hang(duty, 100.0, 161.0))


@pytest.mark.usefixtures("restless")
def test_a_duty_that_hangs_delays_neither_the_others_nor_the_end(work: Workspace) -> None:
    released, runs = threading.Event(), []

    def hang(_: Workspace) -> list[str]:
        released.wait(WAIT_S)
        return []

    def count(_: Workspace) -> list[str]:
        runs.append(1)
        return []

    stuck = Duty("the stuck one", hang, deadline_s=0.05)
    roster = DutyRoster([stuck, Duty("counts", count, every_s=0.0)], lambda: work)
    until(lambda: len(runs) >= 3)
    until(lambda: roster.problems)
    problems = roster.problems
    began = time.monotonic()
    left = roster.end(1.0)
    took_s = time.monotonic() - began
    released.set()

    assert problems[0].startswith("the stuck one hangs")
    assert left == ["the stuck one"]
    assert took_s < WAIT_S / 2


@pytest.mark.usefixtures("restless")
def test_a_duty_that_fails_is_logged_once_repeated_and_recovers(
    work: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[list[str]] = []

    def fail(_: Workspace) -> list[str]:
        runs.append(roster.problems)
        if len(runs) < 4:
            raise ZeroDivisionError("no")
        return []

    with caplog.at_level(logging.ERROR, logger="headrace.relay"):
        ready = threading.Event()
        roster: DutyRoster
        roster = DutyRoster(
            [Duty("the sum", lambda w: (ready.wait(WAIT_S) and fail(w)) or [], every_s=0.0)],
            lambda: work,
        )
        ready.set()
        until(lambda: len(runs) >= 5)
        left = roster.end(WAIT_S)

    assert left == []
    assert runs[1] == ["the sum failed: ZeroDivisionError: no"]
    assert runs[-1] == []
    assert [record.getMessage() for record in caplog.records] == ["the sum failed; it is repeated"]


def test_at_the_end_a_duty_without_a_problem_runs_once_more_and_is_closed(work: Workspace) -> None:
    done: list[str] = []
    good = Duty(
        "good",
        lambda _: done.append("good") or [],  # type: ignore[func-returns-value]
        lambda: done.append("closed"),
        every_s=WAIT_S,
        has_last_run=True,
    )
    bad = Duty(
        "bad",
        lambda _: done.append("bad") or ["down"],  # type: ignore[func-returns-value]
        every_s=WAIT_S,
        has_last_run=True,
    )
    roster = DutyRoster([good, bad], lambda: work)
    until(lambda: len(done) == 2)

    assert roster.end(WAIT_S) == []
    assert sorted(done) == ["bad", "closed", "good", "good"]


def test_every_duty_of_the_relay_has_a_name_of_its_own() -> None:
    names = [duty.name for duty in relay.duties()]

    assert len(names) == len(set(names)) >= 8


@pytest.mark.e2e
def test_the_relay_ends_with_the_supervisor_though_a_duty_hangs(tmp_path: Path) -> None:
    code = (
        "import threading; from headrace.relay import main; from headrace.relay.duties import Duty;"
        "main.END_S = 0.5; hangs = lambda _: threading.Event().wait();"
        "main.duties = lambda: [Duty('the stuck one', hangs)];"
        f"import sys; sys.exit(main.main([{str(tmp_path)!r}]))"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                             stderr=subprocess.PIPE)  # fmt: skip
    assert child.stdin
    assert child.stderr
    child.stdin.close()
    try:
        assert child.wait(WAIT_S) == 0
        assert b"ended without waiting for: the stuck one" in child.stderr.read()
    finally:
        child.stderr.close()
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            child.wait()
