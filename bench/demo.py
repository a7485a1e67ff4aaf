"""What the metric-processing application costs: `headrace demo` at its own rate, all six queries.

Measured from the first commit of every query on: CPU of everything (generator, terminal,
supervisor, driver, JVM, workers), the most memory, and how old each answer was. The demo counts by
itself what was lost and doubled; anything but nothing ends the benchmark.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import psutil

from bench import tree

START_S = 300.0
END_S = 600.0
SAMPLE_S = 1.0
BEGUN = "s to go"  # what the demo says once every query has committed


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    found = []
    for number in range(1, rounds + 1):
        one = {"round": number} | measured(folder / str(number), seconds)
        print(f"demo {number}: {one}", flush=True)
        found.append(one)
    return found


def measured(folder: Path, seconds: float) -> dict[str, Any]:
    folder.mkdir(parents=True)
    said = folder / "said"
    command = [sys.executable, "-m", "headrace", "demo", "--dir", str(folder / "project")]
    command += ["--for", f"{seconds}s", "--json"]
    with said.open("wb") as words, (folder / "told").open("w+b") as told:
        began = time.monotonic()
        child = subprocess.Popen(command, env=tree.environment(), stdout=told, stderr=words)
        _await(child, said)
        start_s = time.monotonic() - began
        used = _watched(seconds)
        if child.wait(END_S) != 0:
            raise RuntimeError(f"the demo ended with {child.returncode}: {tree.tail(said)}")
        body = _last(told)
    if body["lost"] or body["doubled"] or body["quarantined"] != body["malformed"]:
        raise RuntimeError(f"the demo's answer is wrong: {body}")
    fresh = {name: query["fresh_p50_ms"] for name, query in body["queries"].items()}
    lines = body["queries"]["history"]["rows_in"]
    return {"start_s": round(start_s, 1), **used, "lines": lines, "fresh_p50_ms": fresh}


def _await(child: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + START_S
    while BEGUN not in said.read_text(errors="replace"):
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the demo did not begin: {tree.tail(said)}")
        time.sleep(0.2)


def _watched(seconds: float) -> dict[str, Any]:
    begin, before, memory = time.monotonic(), _cpu_s(), 0.0
    while time.monotonic() < begin + seconds:
        time.sleep(SAMPLE_S)
        memory = max(memory, _memory_mb())
    elapsed, used = time.monotonic() - begin, _cpu_s() - before
    percent = 100 * used / elapsed / (os.cpu_count() or 1)
    return {
        "seconds": round(elapsed, 1),
        "cpu_s": round(used, 1),
        "cpu_percent_of_all": round(percent, 1),
        "memory_mb": round(memory),
    }


def _cpu_s() -> float:
    """Of all that lives; nothing of it ends while it is watched."""
    total = 0.0
    for process in tree.marked():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _memory_mb() -> float:
    total = 0
    for process in tree.marked():
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total / 1e6


def _last(told: IO[bytes]) -> dict[str, Any]:
    told.seek(0)
    found: dict[str, Any] = json.loads(told.read().splitlines()[-1])
    return found
