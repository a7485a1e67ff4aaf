"""What the supervisor itself costs: twenty pipelines with drivers that only tell.

Idle drivers tell a heartbeat every 5 s and Spark's idle event every 10 s, as real ones do; busy
ones also a batch a second. The supervisor, its files and its store are the real ones.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench import tree
from bench.sides import SCRIPTS
from headrace.model.requests import Action, Request
from headrace.model.state_paths import StatePaths
from headrace.state import requests, supervisor_lookup
from headrace.store import db, pipeline_status

PIPELINES = 20
KINDS = {"idle": 0.0, "busy": 1.0}  # seconds between two batches; 0: none
WINDOWS_MAX = 3
START_S = 120.0
STOP_S = 60.0
SETTLE_S = 10.0
VERSION = "v1"
DRIVER = (sys.executable, str(SCRIPTS / "quiet_driver.py"))


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    found = []
    for kind, batches_s in KINDS.items():
        with supervised(folder / kind, batches_s) as pid:
            for number in range(1, min(rounds, WINDOWS_MAX) + 1):
                one = {"round": number, "kind": kind, "pipelines": PIPELINES}
                one |= watch(psutil.Process(pid), seconds)
                print(f"supervisor {number}: {one}", flush=True)
                found.append(one)
    return found


def watch(supervisor: psutil.Process, seconds: float) -> dict[str, Any]:
    """Its own CPU time, without that of the drivers; the most memory that was seen."""
    begin, before = time.monotonic(), supervisor.cpu_times()
    memory = supervisor.memory_info().rss
    while time.monotonic() < begin + seconds:
        time.sleep(1.0)
        memory = max(memory, supervisor.memory_info().rss)
    after, elapsed = supervisor.cpu_times(), time.monotonic() - begin
    used = after.user + after.system - before.user - before.system
    return {
        "seconds": round(elapsed, 2),
        "cpu_s": round(used, 3),
        "cpu_percent": round(100 * used / elapsed, 2),
        "memory_mb": round(memory / 1e6, 1),
    }


@contextmanager
def supervised(folder: Path, batches_s: float, settings: str = "") -> Iterator[int]:
    """`settings` are more of headrace.toml."""
    places = StatePaths(folder / ".headrace")
    places.code(VERSION).mkdir(parents=True)
    places.state.chmod(0o700)
    for toml in (folder / "headrace.toml", places.code(VERSION) / "headrace.toml"):
        toml.write_text(f'[project]\nname = "bench"\n{settings}')
    module = [sys.executable, "-m", "headrace.supervisor.main", str(folder)]
    log = folder / "supervisor.out"
    try:
        with log.open("wb") as out:
            child = subprocess.Popen(
                [*module, "--driver-command", shlex.join(DRIVER)],
                env=tree.environment(HEADRACE_BENCH_BATCHES_S=str(batches_s)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        _until(lambda: supervisor_lookup.running(places) is not None, "a supervisor", log)
        for number in range(PIPELINES):
            _deploy(places, f"pipeline-{number:02d}", log)
        _until(lambda: running(places) == PIPELINES, f"{PIPELINES} running pipelines", log)
        time.sleep(SETTLE_S)
        yield child.pid
        if running(places) != PIPELINES:
            raise AssertionError(f"pipelines ended while they were watched:\n{tree.tail(log)}")
        child.send_signal(signal.SIGTERM)
        child.wait(STOP_S)
    finally:
        tree.end_all()


def _deploy(places: StatePaths, name: str, log: Path) -> None:
    asked = Request(
        f"deploy-{name}", Action.DEPLOY, "bench", time.time(), name, VERSION, file=f"{name}.py"
    )
    requests.leave(places, asked)
    answer = requests.answer_of(places, asked.id, START_S)
    if answer is None or not answer.ok:
        raise RuntimeError(f"{name} was not deployed: {answer}\n{tree.tail(log)}")


def running(places: StatePaths) -> int:
    conn = db.open_readonly(places.history)
    try:
        return sum(one.state == "running" for one in pipeline_status.read_all(conn))
    finally:
        conn.close()


def _until(condition: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {START_S:.0f} s: {what}\n{tree.tail(log)}")
        time.sleep(0.1)
