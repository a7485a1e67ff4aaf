"""Processes: what a tree of them has used, and ending those that we started.

Every child carries a mark in its environment that its own children inherit. Invariant: nothing is
signalled that does not carry the mark of this very run of the benchmarks.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path

import psutil

from headrace import process_identity

MARK = "HEADRACE_BENCH"
ID = uuid.uuid4().hex
FOREIGN = ("SPARK_", "PYSPARK_", "HEADRACE_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_")
POLL_S = 0.1
ROLES = {
    "headrace.supervisor.main": "supervisor",
    "headrace.driver.main": "driver",
    "headrace.relay.main": "relay",
    "headrace.web.main": "page",
    "headrace.project.sql_worker": "page",
    "pyspark.daemon": "workers",
}


_scratch: dict[str, str] = {}


def use_scratch(folder: Path) -> None:
    """Where children put temporary files from now on: a JVM that is killed leaves them behind."""
    folder.mkdir(parents=True)
    java = f"-Djava.io.tmpdir={folder}"
    _scratch.update(TMPDIR=str(folder), SPARK_LOCAL_DIRS=str(folder), JAVA_TOOL_OPTIONS=java)


def environment(**more: str) -> dict[str, str]:
    """Ours without anybody's Spark settings in it, and with the mark."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return {**own, **_scratch, MARK: ID, **more}


def cpu_s(root: int) -> dict[str, float]:
    """CPU seconds, user and system, by role; what ended and was waited for is in its parent's."""
    used: dict[str, float] = {}
    for process in _tree(root):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total = times.user + times.system + times.children_user + times.children_system
            role = _role(process)
            used[role] = used.get(role, 0.0) + total
    return used


def memory_mb(root: int) -> float:
    total = 0
    for process in _tree(root):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total / 1e6


def marked() -> list[psutil.Process]:
    """Living processes of this run of the benchmarks, apart from this one."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process_identity.environment(process.pid).get(MARK) == ID
            if is_ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end_all(timeout_s: float = 20.0) -> None:
    """SIGKILL to all that carries our mark, until none is left."""
    deadline = time.monotonic() + timeout_s
    while left := marked():
        if time.monotonic() > deadline:
            raise TimeoutError(f"these would not end: {[process.pid for process in left]}")
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(POLL_S)


def _tree(root: int) -> list[psutil.Process]:
    process = psutil.Process(root)
    return [process, *process.children(recursive=True)]


def _role(process: psutil.Process) -> str:
    """jvm, or one of ROLES; else it is a script."""
    if "java" in process.name():
        return "jvm"
    words = " ".join(process.cmdline())
    return next((role for module, role in ROLES.items() if module in words), "script")


def tail(path: Path, length: int = 3000) -> str:
    return path.read_text(errors="replace")[-length:] if path.exists() else "(no log)"
