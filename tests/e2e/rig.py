"""A real project under real load: a generator, readers that never stop looking, the command line.

Nothing here knows Headrace's inside: it uses the command line (`status` in this process: it is
asked all the time), the files a user would read, and the operating system. What it sees goes into
lists that the proofs assert on.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from e2e import oracle
from headrace import process_identity
from headrace.checkpoints import committed_files
from headrace.project import status
from headrace.project.workspace import open_workspace

PROJECTS = Path(__file__).parent / "projects"
BEGINNING = datetime(2026, 3, 1, tzinfo=UTC)
ROWS_PER_FILE = 50
# A deadline is for what hangs: three workers on two cores make everything else only slow.
PATIENCE = 3


def eventually(what: str, check: Callable[[], Any], timeout_s: float, every_s: float = 0.2) -> Any:
    """The first true answer of `check`; an AssertionError that says what never came true."""
    deadline = time.monotonic() + timeout_s * PATIENCE
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {timeout_s * PATIENCE} s: {what}; last answer: {answer!r}"
            )
        time.sleep(every_s)


@dataclass
class Project:
    """A project folder and the command line on it."""

    folder: Path

    @classmethod
    def copy(cls, name: str, target: Path) -> Project:
        shutil.copytree(PROJECTS / name, target)
        return cls(target)

    @property
    def state(self) -> Path:
        return self.folder / ".headrace"

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "headrace", "--project", str(self.folder), *args]

    def headrace(
        self,
        *args: str,
        code: int | None = 0,
        timeout_s: float = 120,
        env: dict[str, str] | None = None,
    ) -> str:
        done = subprocess.run(
            self.command(*args),
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout_s * PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if code is not None and done.returncode != code:
            raise AssertionError(
                f"headrace {' '.join(args)}: exit {done.returncode}, not {code}\n"
                f"{done.stdout}\n{done.stderr}"
            )
        return done.stdout + done.stderr if code != 0 else done.stdout

    def status(self, pipeline: str) -> dict[str, Any]:
        """What `headrace status --json` prints, without a process for each look."""
        seen = status.overview(open_workspace(self.folder, "dev"), ())
        found = json.loads(json.dumps(seen.to_json()))["pipelines"]
        return next((p for p in found if p["name"] == pipeline), {})

    def supervisor_pid(self) -> int:
        return int(json.loads((self.state / "supervisor.json").read_text())["pid"])

    def live_run(self, pipeline: str) -> Path:
        """The newest run folder; names sort by time."""
        return max((self.state / "runs").glob(f"{pipeline}-*"), key=lambda p: p.name)

    def marked(self) -> list[psutil.Process]:
        return list(marked_processes(self.state))

    def living(self) -> list[str]:
        """Whatever still lives in the project's folder, also what carries no mark of a run."""
        return [f"{p.pid}: {' '.join(p.cmdline())[:200]}" for p in processes_in(self.folder)]

    def give(self, name: str) -> None:
        """One input file with one row, there as a whole or not at all."""
        folder = self.folder / "incoming"
        folder.mkdir(exist_ok=True)
        (folder / f".{name}").write_text(name + "\n")
        os.replace(folder / f".{name}", folder / name)


def marked_processes(state: Path) -> Iterator[psutil.Process]:
    """Every living process of any run below this state folder: drivers, JVMs, Python workers."""
    runs = {p.name for p in (state / "runs").glob("*")} if (state / "runs").exists() else set()
    for process in psutil.process_iter(["pid", "status"]):
        with contextlib.suppress(psutil.Error):
            is_alive = process.info["status"] != psutil.STATUS_ZOMBIE
            if (
                is_alive
                and process_identity.environment(process.pid).get(process_identity.RUN_MARK) in runs
            ):
                yield process


def processes_in(folder: Path) -> Iterator[psutil.Process]:
    """Living processes that work in this folder: supervisors, drivers, JVMs, Python workers."""
    for process in psutil.process_iter(["pid", "status"]):
        with contextlib.suppress(psutil.Error):
            is_alive = process.info["status"] != psutil.STATUS_ZOMBIE
            if is_alive and Path(process.cwd()).is_relative_to(folder):
                yield process


def words(process: psutil.Process) -> list[str]:
    """Its command line; [] if it has ended meanwhile."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


@dataclass
class Generator:
    """Writes input files, whole, at a steady pace; remembers every row it wrote."""

    folder: Path
    every_s: float
    seed: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        rng = random.Random(self.seed)
        number = 0
        while not self._stop.wait(self.every_s):
            self.write_file(rng, number)
            number += 1

    def write_file(self, rng: random.Random, number: int) -> None:
        name = f"rows-{number:06d}.json"
        lines = []
        for _ in range(ROWS_PER_FILE):
            row = self._row(rng, name)
            self.rows.append(row)
            lines.append(json.dumps(row))
        self.sizes[name] = ROWS_PER_FILE
        temp = self.folder / f".{name}"
        temp.write_text("\n".join(lines) + "\n")
        os.replace(temp, self.folder / name)

    def _row(self, rng: random.Random, file: str) -> dict[str, Any]:
        number = len(self.rows)
        payload = rng.randbytes(12).hex()
        at = BEGINNING + timedelta(seconds=number // 20)
        return {
            "id": number,
            "file": file,
            "key": f"k{rng.randrange(5)}",
            "amount": rng.randrange(1000),
            "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "payload": payload,
            "sha": hashlib.sha256(payload.encode()).hexdigest(),
        }


Row = tuple[Any, ...]


def expected_rows(generator: Generator) -> list[Row]:
    return [(r["file"], r["id"], r["key"], r["amount"], r["sha"]) for r in generator.rows]


def expected_counts(generator: Generator) -> dict[str, tuple[int, int]]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in generator.rows:
        at = datetime.strptime(row["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        start = int(at.timestamp()) // 60 * 60
        entry = found[f"{start}-{row['key']}"]
        entry[0] += 1
        entry[1] += row["amount"]
    return {name: (n, total) for name, (n, total) in found.items()}


def history_rows(folder: Path) -> list[Row]:
    """What the file sink's own log says is committed, read file by file."""
    if not (folder / "_spark_metadata").exists():
        return []
    return [row for one in committed_files.files(folder) for row in _parquet_rows(Path(one.path))]


def batch_rows(folder: Path) -> list[Row]:
    files = sorted(folder.glob("batch=*/*.parquet"))
    return [row for file in files for row in _parquet_rows(file)]


def count_rows(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for file in folder.glob("*.json"):
        body = json.loads(file.read_text())
        found[file.stem] = (body["n"], body["total"])
    return found


def _parquet_rows(file: Path) -> list[Row]:
    found = file.stat()
    return _rows_of(file, (found.st_ino, found.st_mtime_ns, found.st_size))


@functools.cache
def _rows_of(file: Path, as_it_is: tuple[int, int, int]) -> list[Row]:
    """Read again only if it is another file now: readers look twice a second, all through a run."""
    table = pq.ParquetFile(file).read(columns=["file", "id", "key", "amount", "sha", "payload"])
    rows = []
    for r in table.to_pylist():
        if hashlib.sha256(r["payload"].encode()).hexdigest() != r["sha"]:
            raise AssertionError(f"corrupt row {r['id']} in {file}")
        rows.append((r["file"], r["id"], r["key"], r["amount"], r["sha"]))
    return rows


@dataclass
class Reader:
    """Reads an output all through a run: whole batches only, and never fewer rows than before."""

    name: str
    read: Callable[[], list[Row]]
    sizes: dict[str, int]
    every_s: float = 0.5
    reads: int = 0
    faults: list[str] = field(default_factory=list)
    _last: Counter[Row] = field(default_factory=Counter)

    def look(self) -> None:
        rows = self.read()
        self.reads += 1
        self.faults += [
            f"{self.name}: torn: {t}"
            for t in oracle.torn(((r[0], r[1]) for r in rows), dict(self.sizes))
        ]
        if gone := oracle.shrunk(self._last, rows):
            self.faults.append(f"{self.name}: {gone.total()} rows seen before are gone")
        self._last = Counter(rows)


FORK_LOOKS = 10


@dataclass
class JvmCount:
    """At most one living JVM a pipeline, looked at ten times a second."""

    state: Path
    every_s: float = 0.1
    looks: int = 0
    faults: list[str] = field(default_factory=list)
    _doubles: Counter[frozenset[int]] = field(default_factory=Counter)

    def look(self) -> None:
        by_run: dict[str, set[int]] = defaultdict(set)
        for pid in jvm_pids():
            run = run_of(pid)
            if run and (self.state / "runs" / run).exists():
                by_run[run].add(pid)
        self.looks += 1
        pids = frozenset().union(*by_run.values())
        self._doubles = Counter({pids: self._doubles[pids] + 1})
        # Two of one run may be a fork that has not become its program yet; a JVM stays.
        is_here_to_stay = len(by_run) > 1 or self._doubles[pids] >= FORK_LOOKS
        if len(pids) > 1 and is_here_to_stay:
            self.faults.append(f"{len(pids)} JVMs at once: {dict(by_run)}")


def jvm_pids() -> list[int]:
    """Living JVMs of drivers. A zombie has no threads left and can write nothing.

    spark-submit asks a small JVM of its own (launcher.Main) for the command line first. And a JVM
    that starts a program is for a moment there twice: the fork still has its parent's command line.
    """
    found: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (Path(entry.path) / "cmdline").read_bytes().split(b"\0")
                is_java = command[0].endswith(b"/java")
                is_asking = b"org.apache.spark.launcher.Main" in command
                if is_java and b"org.apache.spark.deploy.SparkSubmit" in command and not is_asking:
                    stat = (Path(entry.path) / "stat").read_text()
                    found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return [pid for pid, parent in found.items() if parent not in found]


def run_of(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if line.startswith(b"HEADRACE_RUN_ID="):
                return line.split(b"=", 1)[1].decode()
    return None


@contextlib.contextmanager
def looking(*watchers: Any) -> Iterator[None]:
    """Each watcher's `look` in a thread of its own until the block ends; its errors are faults."""
    stop = threading.Event()

    def loop(watcher: Any) -> None:
        while not stop.wait(watcher.every_s):
            try:
                watcher.look()
            except Exception as exc:
                watcher.faults.append(f"{type(exc).__name__}: {exc}")

    threads = [threading.Thread(target=loop, args=(w,), daemon=True) for w in watchers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def kill(*pids: int | None) -> None:
    for pid in pids:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
