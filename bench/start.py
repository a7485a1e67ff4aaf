"""How long until work is done: from a start, and from a `kill -9` of the JVM, to the next commit.

Small batches, so that a batch takes next to no time. For comparison the same pipeline as a bare
script: what is left of Headrace's time without it is Spark's own start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench import feed, machine, steady, tree
from bench.sides import (
    PIPELINE,
    Load,
    Running,
    bare_kept,
    checkpoint_of,
    command,
    headrace,
    project,
    through_headrace,
)

ROWS_PER_FILE = 1000
FILES = 5000
EVERY = "1 second"
KINDS = {
    "run": "`headrace run`: from Enter to the first commit",
    "bare": "a bare script: from Enter to the first commit",
    "kill": "`kill -9` of the JVM: from the kill to the first new commit",
}
HEALTHY_S = 3.0  # a little more than healthy_after_s: the next kill is again the first
STOP_S = 90.0
SETTLE_S = 2.0


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    load = Load(feed.make(folder / "feed", files=FILES, rows_per_file=ROWS_PER_FILE), 1, EVERY)
    found = []
    for number in range(1, rounds + 1):
        machine.settle(SETTLE_S)
        found.append(_told(number, "run", _by_run(folder / f"{number}-run", load)))
        machine.settle(SETTLE_S)
        found.append(_told(number, "bare", _by_script(folder / f"{number}-bare", load)))
    machine.settle(SETTLE_S)
    with through_headrace(folder / "kill", load) as running:
        steady.await_commit(running, 0, steady.START_S)
        for number in range(1, rounds + 1):
            found.append(_told(number, "kill", _by_kill(folder / "kill", running)))
    return found


def _told(number: int, kind: str, seconds: float) -> dict[str, Any]:
    one = {"round": number, "kind": kind, "seconds": round(seconds, 2)}
    print(f"start {one}", flush=True)
    return one


def _by_run(folder: Path, load: Load) -> float:
    home = project(folder, load)
    log = folder / "run.log"
    try:
        with log.open("wb") as out:
            begin = time.monotonic()
            child = subprocess.Popen(
                command(home, "run", PIPELINE),
                cwd=home,
                env=tree.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        checkpoint = checkpoint_of(home)
        running = Running(child.pid, checkpoint, home / "data", log, lambda: tree.tail(log))
        steady.await_commit(running, 0, steady.START_S)
        took = time.monotonic() - begin
        child.send_signal(signal.SIGINT)
        child.wait(STOP_S)
        return took
    finally:
        tree.end_all()


def _by_script(folder: Path, load: Load) -> float:
    begin = time.monotonic()
    with bare_kept(folder, load) as running:
        steady.await_commit(running, 0, steady.START_S)
        return time.monotonic() - begin


def _by_kill(home: Path, running: Running) -> float:
    """Counted from the signal; the newest commit is read once the JVM can write no more."""
    time.sleep(HEALTHY_S)
    jvm = _jvm_pid(home)
    begin = time.monotonic()
    os.kill(jvm, signal.SIGKILL)
    while tree.is_alive(jvm):
        time.sleep(steady.POLL_S)
    steady.await_commit(running, steady.newest(running) + 1, steady.START_S)
    return time.monotonic() - begin


def _jvm_pid(home: Path) -> int:
    """Of the run that lives now; it carries our mark, so it is ours to kill."""
    told = json.loads(headrace(home, "status", "--json"))["pipelines"]
    pid = next(int(one["jvm_pid"]) for one in told if one["name"] == PIPELINE)
    if pid not in {process.pid for process in tree.marked()}:
        raise RuntimeError(f"the JVM {pid} is not one of ours")
    return pid
