"""Starting and ending processes: drivers, the supervisor, the child that defines, companions.

The only module of Headrace with Popen and os.kill. Invariant: nothing is signalled that has not
just been proven to be ours (see `headrace/processes.py`), and nothing is started through a shell.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from headrace import processes
from headrace.errors import DefinitionError, SetupError
from headrace.jsonfile import read_json, write_json
from headrace.model.places import Places
from headrace.model.runs import Exit, Process, RunSpec, run_name
from headrace.state import folders, supervisors

# Without the working folder on its path: a file there must not pass for a module of Python's own.
PYTHON = (sys.executable, "-P", "-m")
DRIVER = (*PYTHON, "headrace.driver.main")
SUPERVISOR = (*PYTHON, "headrace.supervisor.main")
POLL_S = 0.05
START_S = 30.0
TAIL_BYTES = 4000
_children: list[subprocess.Popen[bytes]] = []  # kept until polled, else they stay zombies
_codes: dict[int, int] = {}  # of children that ended, by pid
CODES_MAX = 1000


def spawn_driver(spec: RunSpec, places: Places, command: Sequence[str] = DRIVER) -> Process:
    """run.json is written already. The driver leads a session of its own and outlives us.

    A run that starts no query carries no mark of our state: it is nobody's survivor.
    """
    run_dir = places.run(spec.run)
    environment = {**os.environ, processes.RUN_MARK: spec.run, "PYTHONUNBUFFERED": "1"}
    environment.pop(processes.STATE_MARK, None)
    if not (spec.define or spec.question):
        environment[processes.STATE_MARK] = str(places.state)
    # O_APPEND: the supervisor cuts the file short while the driver holds it open.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(places.log(spec.run), flags, 0o600)
    try:
        child = subprocess.Popen(
            [*command, str(run_dir)],
            cwd=spec.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        os.close(log)
    _children.append(child)
    _codes.pop(child.pid, None)  # of an earlier child with this pid
    # A child that is dead already stays a zombie until polled, so its pid is nobody else's yet.
    return processes.identify(child.pid) or Process(child.pid, 0.0, processes.boot_id())


def collect_children() -> None:
    """Take note of children that ended, so that they do not stay zombies. Cheap; every tick."""
    for child in list(_children):
        code = child.poll()
        if code is not None:
            _children.remove(child)
            _codes[child.pid] = code
    while len(_codes) > CODES_MAX:
        del _codes[next(iter(_codes))]


def code_of(process: Process) -> int | None:
    """The exit code of a child that ended (below zero: a signal); of others nobody knows."""
    collect_children()
    return _codes.get(process.pid)


def ask_to_end(process: Process) -> bool:
    """SIGTERM: the first drains, the second cuts."""
    return _signal(process, signal.SIGTERM)


def end_now(process: Process) -> bool:
    return _signal(process, signal.SIGKILL)


def dump_threads(jvm_pid: int, run: str, state: Path) -> bool:
    """A JVM prints its threads to its own output, which is the run's driver.log, and goes on."""
    process = processes.identify(jvm_pid)
    if process is None or not processes.is_marked(process, run, state):
        return False
    return _is_java(jvm_pid) and _signal(process, signal.SIGQUIT)


def _is_java(pid: int) -> bool:
    """SIGQUIT ends everything that is not a JVM."""
    import psutil

    try:
        return "java" in psutil.Process(pid).name().lower()
    except psutil.Error:
        return False


def _signal(process: Process, number: int) -> bool:
    if process.pid <= 1 or process.pid == os.getpid() or not processes.is_alive(process):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)
        return True
    return False


def reap(runs: Iterable[str], state: Path, timeout_s: float = 10.0) -> list[int]:
    """SIGKILL whatever is left of these runs (Python, JVM, pyspark daemons) until none is.

    Returns the pids that would not go: a process in the kernel's hands, on a dead disk.
    """
    wanted = set(runs)
    deadline = time.monotonic() + timeout_s
    while True:
        collect_children()
        left = [found for found in processes.marked(state) if found.run in wanted]
        if not left or time.monotonic() > deadline:
            return [found.process.pid for found in left]
        for found in left:
            end_now(found.process)
        time.sleep(POLL_S)


def end_runs(runs: Iterable[str], state: Path) -> int:
    """SIGKILL to all that carries the mark of these runs, without waiting. How many there were."""
    wanted = set(runs)
    left = [found for found in processes.marked(state) if found.run in wanted]
    return sum(end_now(found.process) for found in left)


def start_supervisor(project: Path, profile: str, places: Places | None = None) -> Process:
    """Detached: it outlives this process and its terminal. Waits until it holds the lock."""
    if places is None:
        from headrace import config

        places = Places(config.load(project, profile).state)
    places.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = places.supervisor_log
    begin = log.stat().st_size if log.exists() else 0
    child = _detached([*SUPERVISOR, str(project), "--profile", profile], project, log)
    return _await_supervisor(child, places, begin)


def detach(command: Sequence[str], cwd: Path, log: Path) -> Process:
    """A process that outlives this one and its terminal."""
    child = _detached(command, cwd, log)
    found = processes.identify(child.pid)
    if found is None:
        raise SetupError(
            f"{command[0]} ended at once.",
            why=tail_of(log).strip() or "it left no words",
            where=str(log),
            fix="look into that log, mend what it says, and run the same again",
            slug="process-ended",
        )
    return found


def _detached(command: Sequence[str], cwd: Path, log: Path) -> subprocess.Popen[bytes]:
    marks = (processes.RUN_MARK, processes.STATE_MARK)
    environment = {name: value for name, value in os.environ.items() if name not in marks}
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )
    finally:
        os.close(handle)
    _children.append(child)
    return child


def _await_supervisor(child: subprocess.Popen[bytes], places: Places, begin: int) -> Process:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        running = supervisors.running(places)
        if running is not None and running.pid == child.pid:
            return running
        if child.poll() is not None:
            if running is not None:
                return running  # another one was quicker, and that is as good
            break
        time.sleep(POLL_S)
    tail = tail_of(places.supervisor_log, begin)
    ended = f"ended with code {child.returncode}" if child.returncode is not None else "hangs"
    raise SetupError(
        f"The supervisor did not start: it {ended}.",
        why=tail.strip() or "it left no words",
        where=str(places.supervisor_log),
        fix="run it in sight: headrace up --foreground",
        slug="supervisor-start",
    )


def to_the_end(
    places: Places, spec: RunSpec, timeout_s: float, command: Sequence[str] = DRIVER
) -> Exit:
    """A driver that starts no query, waited for. Its folder goes again unless it failed oddly."""
    what = "question" if spec.question else "check"
    spec = replace(spec, run=spec.run or run_name(what, time.time(), secrets.token_hex(2)))
    write_json(places.spec(spec.run), spec.to_json())
    process = spawn_driver(spec, places, command)
    deadline = time.monotonic() + timeout_s
    try:
        while processes.is_alive(process) and time.monotonic() < deadline:
            collect_children()
            time.sleep(POLL_S)
        if processes.is_alive(process):
            raise SetupError(
                f"The {what} did not end within {timeout_s:.0f} s.",
                why=tail_of(places.log(spec.run)).strip() or "it printed nothing",
                where=str(places.log(spec.run)),
                fix="give it more time: --timeout"
                if spec.question
                else "look for code that runs when the file is imported, such as a network call",
                slug="question-timeout" if spec.question else "check-timeout",
            )
    finally:
        end_now(process)  # also when the person pressed Ctrl-C
        collect_children()
        folders.forget_secrets(places, spec.run)
    body = read_json(places.exit(spec.run))
    if body is None:
        if file := (read_json(places.defining(spec.run)) or {}).get("file"):
            raise _ended_by(str(file), code_of(process), places.log(spec.run))
        tail = tail_of(places.log(spec.run)).strip()
        raise SetupError(
            f"The {what} ended without a result.",
            why=tail or "it was killed, or the machine ran out of memory",
            where=str(places.log(spec.run)),
            fix="run it again; if it stays so, look into that log",
            slug="question-vanished" if spec.question else "check-vanished",
        )
    shutil.rmtree(places.run(spec.run), ignore_errors=True)
    return Exit.from_json(body)


def _ended_by(file: str, code: int | None, log: Path) -> DefinitionError:
    if code is None:
        how = "ended"
    else:
        how = f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
    last = (tail_of(log).strip().splitlines() or [""])[-1]
    return DefinitionError(
        f"{file} ended the check: the process {how} while it ran this file.",
        why="A pipeline's file is run once to read its definitions. os._exit, a crash in a native "
        f"library and a lack of memory end that process.{f' Its last output: {last}' * bool(last)}",
        where=file,
        fix=f"Remove what ends the process from {file}, then: headrace check {file}",
        slug="definition-exited",
    )


class Companion:
    """A process that ends when its standard input does: with us, also if we are killed."""

    def __init__(self, command: Sequence[str], cwd: Path, log: Path) -> None:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._child = subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us alone
            )
        finally:
            os.close(handle)

    @property
    def code(self) -> int | None:
        """Of a companion that ended."""
        return self._child.poll()

    def end(self, timeout_s: float = 10.0) -> int:
        """Lets it finish what it is doing; its exit code."""
        assert self._child.stdin is not None  # noqa: S101 - asked for above
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()


def finished(command: Sequence[str], cwd: Path, log: Path, timeout_s: float) -> str | None:
    """A command, waited for: None once it has ended well, else why it has not."""
    run = Companion(command, cwd, log)
    deadline = time.monotonic() + timeout_s
    try:
        while run.code is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if run.code is None:
            return f"it was not done within {timeout_s:.0f} s"
        words = tail_of(log).strip() or f"it ended with code {run.code}, without a word"
        return words if run.code else None
    finally:
        run.end()


def tail_of(path: Path, begin: int = 0) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
