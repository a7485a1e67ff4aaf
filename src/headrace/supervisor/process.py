"""Starts and ends processes: drivers, the supervisor, checks, companions.

The only module with Popen and os.kill. Invariant: a process is signalled only after a check that it
is ours (see `headrace/process_identity.py`), and nothing is started through a shell.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headrace import config, process_identity
from headrace.errors import DefinitionError, SetupError
from headrace.json_file import read_json, write_json
from headrace.model.runs import Exit, Process, RunSpec, run_name
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders, supervisor_lookup

# -P keeps the working folder off sys.path: a file there must not hide a standard module.
PYTHON = (sys.executable, "-P", "-m")
DRIVER = (*PYTHON, "headrace.driver.main")
SUPERVISOR = (*PYTHON, "headrace.supervisor.main")
POLL_S = 0.05
START_S = 30.0
TAIL_BYTES = 4000
_children: list[subprocess.Popen[bytes]] = []  # polled, or they would stay zombies
_codes: dict[int, int] = {}  # exit codes of children, by pid
CODES_MAX = 1000


def spawn_driver(spec: RunSpec, places: StatePaths, command: Sequence[str] = DRIVER) -> Process:
    """Requires run.json. The driver leads its own session and outlives this process.

    A run that starts no query does not carry the state mark: it must not count as a survivor.
    """
    run_dir = places.run(spec.run)
    environment = {**os.environ, process_identity.RUN_MARK: spec.run, "PYTHONUNBUFFERED": "1"}
    environment.pop(process_identity.STATE_MARK, None)
    if not (spec.define or spec.question):
        environment[process_identity.STATE_MARK] = str(places.state)
    arguments = [*command, str(run_dir)]
    child = _spawn(arguments, Path(spec.project), places.log(spec.run), env=environment)
    _children.append(child)
    _codes.pop(child.pid, None)  # of an earlier child with this pid
    # A dead child stays a zombie until polled, so its pid cannot be reused yet.
    return process_identity.identify(child.pid) or Process(
        child.pid, 0.0, process_identity.boot_id()
    )


def _spawn(
    command: Sequence[str],
    cwd: Path,
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    umask: int = -1,
) -> subprocess.Popen[bytes]:
    """In its own session, so that Ctrl-C goes to this process only."""
    # O_APPEND: the supervisor truncates the file while the child holds it open.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=umask,
        )
    finally:
        os.close(output)


def collect_children() -> None:
    """Polls children, so that ended ones do not stay zombies. Cheap; called in every tick."""
    for child in list(_children):
        code = child.poll()
        if code is not None:
            _children.remove(child)
            _codes[child.pid] = code
    while len(_codes) > CODES_MAX:
        del _codes[next(iter(_codes))]


def code_of(process: Process) -> int | None:
    """The exit code of a child that ended (negative: a signal); None for other processes."""
    collect_children()
    return _codes.get(process.pid)


def ask_to_end(process: Process) -> bool:
    """SIGTERM: the first drains, the second cuts."""
    return _signal(process, signal.SIGTERM)


def end_now(process: Process) -> bool:
    return _signal(process, signal.SIGKILL)


def dump_threads(jvm_pid: int, run: str, state: Path) -> bool:
    """SIGQUIT: a JVM prints its threads to its output, the driver.log, and continues."""
    process = process_identity.identify(jvm_pid)
    if process is None or not process_identity.is_marked(process, run, state):
        return False
    return _is_java(jvm_pid) and _signal(process, signal.SIGQUIT)


def _is_java(pid: int) -> bool:
    """SIGQUIT would end a process that is not a JVM."""
    import psutil

    try:
        return "java" in psutil.Process(pid).name().lower()
    except psutil.Error:
        return False


def _signal(process: Process, number: int) -> bool:
    if process.pid <= 1 or process.pid == os.getpid() or not process_identity.is_alive(process):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)
        return True
    return False


def reap(runs: Collection[str], state: Path, timeout_s: float = 10.0) -> list[int]:
    """SIGKILL all processes of these runs (Python, JVM, pyspark daemons) until they have ended.

    Returns the remaining pids, such as a process that waits in the kernel for a dead disk.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        collect_children()
        left = _processes_of(runs, state)
        if not left or time.monotonic() > deadline:
            return [process.pid for process in left]
        for process in left:
            end_now(process)
        time.sleep(POLL_S)


def end_runs(runs: Collection[str], state: Path) -> int:
    """SIGKILL all processes of these runs without waiting. Returns their number."""
    return sum(end_now(process) for process in _processes_of(runs, state))


def _processes_of(runs: Collection[str], state: Path) -> list[Process]:
    return [marked.process for marked in process_identity.find_marked(state) if marked.run in runs]


def start_supervisor(project: Path, profile: str) -> Process:
    """Starts a supervisor that outlives this process, and waits until it holds the lock."""
    places = StatePaths(config.load(project, profile).state)
    places.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = places.supervisor_log
    begin = log.stat().st_size if log.exists() else 0
    child = _spawn_detached([*SUPERVISOR, str(project), "--profile", profile], project, log)
    return _await_supervisor(child, places, begin)


def detach(command: Sequence[str], cwd: Path, log: Path) -> Process:
    """Starts a process that outlives this one and its terminal."""
    child = _spawn_detached(command, cwd, log)
    process = process_identity.identify(child.pid)
    if process is None:
        fix = "Fix the error shown in that log, then run the command again."
        raise _error_with_log(f"{command[0]} exited immediately.", log, fix, slug="process-ended")
    return process


def _error_with_log(what: str, log: Path, fix: str, slug: str, begin: int = 0) -> SetupError:
    why = tail_of(log, begin).strip() or "It printed nothing."
    return SetupError(what, why=why, where=str(log), fix=fix, slug=slug)


def _spawn_detached(command: Sequence[str], cwd: Path, log: Path) -> subprocess.Popen[bytes]:
    marks = (process_identity.RUN_MARK, process_identity.STATE_MARK)
    environment = {name: value for name, value in os.environ.items() if name not in marks}
    child = _spawn(command, cwd, log, env=environment, umask=0o077)
    _children.append(child)
    return child


def _await_supervisor(child: subprocess.Popen[bytes], places: StatePaths, begin: int) -> Process:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        running = supervisor_lookup.running(places)
        if running is not None and running.pid == child.pid:
            return running
        if child.poll() is not None:
            if running is not None:
                return running  # another one started first
            break
        time.sleep(POLL_S)
    code = child.returncode
    ended = f"was not ready within {START_S:.0f} s" if code is None else f"exited with code {code}"
    what = f"The supervisor did not start: it {ended}."
    fix = "Run `headrace up --foreground` to see its output."
    raise _error_with_log(what, places.supervisor_log, fix, slug="supervisor-start", begin=begin)


def to_the_end(
    places: StatePaths, spec: RunSpec, timeout_s: float, command: Sequence[str] = DRIVER
) -> Exit:
    """Runs a driver that starts no query, and waits. Keeps its folder if there is no result."""
    name, what = ("question", "query") if spec.question else ("check", "check")
    run_folders.remove_leftovers(places, time.time())
    spec = replace(spec, run=spec.run or run_name(name, time.time(), secrets.token_hex(2)))
    write_json(places.spec(spec.run), spec.to_json())
    log = places.log(spec.run)
    process = spawn_driver(spec, places, command)
    deadline = time.monotonic() + timeout_s
    try:
        while process_identity.is_alive(process) and time.monotonic() < deadline:
            collect_children()
            time.sleep(POLL_S)
        if process_identity.is_alive(process):
            late = f"The {what} did not finish within {timeout_s:.0f} s."
            fix = "Look for code that runs when the file is imported, such as a network call."
            fix = "Increase --timeout." if spec.question else fix
            slug = "question-timeout" if spec.question else "check-timeout"
            raise _error_with_log(late, log, fix, slug)
    finally:
        end_now(process)  # also after Ctrl-C
        collect_children()
        run_folders.forget_secrets(places, spec.run)
    body = read_json(places.exit(spec.run))
    if body is None:
        if file := (read_json(places.defining(spec.run)) or {}).get("file"):
            error = _early_exit_error(str(file), code_of(process), log)
            run_folders.remove(places, spec.run)
            raise error
        raise SetupError(
            f"The {what} exited without a result.",
            why=tail_of(log).strip()
            or "It printed nothing. It may have been killed, for "
            "example because the machine ran out of memory.",
            where=str(log),
            fix=f"Run the {what} again. If this happens again, read the log.",
            slug="question-vanished" if spec.question else "check-vanished",
        )
    run_folders.remove(places, spec.run)
    return Exit.from_json(body)


def _early_exit_error(file: str, code: int | None, log: Path) -> DefinitionError:
    how = f"was killed by signal {-code}" if code and code < 0 else f"exited with code {code}"
    how = "exited" if code is None else how
    last = last_line(log)
    return DefinitionError(
        f"{file} could not be checked: the process {how} while running it.",
        why="Headrace runs a pipeline file once to read its definitions. Typical causes of "
        "an early exit are os._exit, a crash in a native library, and running out of memory."
        f"{f' The last output of the process: {last}' * bool(last)}",
        where=file,
        fix=f"Find the code in {file} that makes the process exit, or free some memory. Then run "
        f"`headrace check {file}`.",
        slug="definition-exited",
    )


class Companion:
    """A process that ends when its standard input closes: with this one, even after a SIGKILL."""

    def __init__(self, command: Sequence[str], cwd: Path, log: Path) -> None:
        self._child = _spawn(command, cwd, log, stdin=subprocess.PIPE)

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._child.poll()

    def end(self, timeout_s: float = 10.0) -> int:
        """Closes its standard input and waits; returns the exit code."""
        assert self._child.stdin is not None  # noqa: S101 - a pipe, see above
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()


def run_command(command: Sequence[str], cwd: Path, log: Path, timeout_s: float) -> str | None:
    """Runs a command. Returns None if it succeeded, else the reason."""
    run = Companion(command, cwd, log)
    deadline = time.monotonic() + timeout_s
    try:
        while run.code is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if run.code is None:
            return f"it did not finish within {timeout_s:.0f} s"
        output = tail_of(log).strip() or f"it exited with code {run.code} and printed nothing"
        return output if run.code else None
    finally:
        run.end()


def last_line(path: Path) -> str:
    return (tail_of(path).strip().splitlines() or [""])[-1]


def tail_of(path: Path, begin: int = 0) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
