"""The two ways to run a pipeline: through Headrace, or as a bare PySpark script.

Each is a context manager that yields a `Running` and leaves no process behind, whatever happens.
Invariant: both get the same Spark settings, in the same file, from `headrace.driver.session`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import tree
from bench.feed import Feed
from headrace import config
from headrace.driver import class_archive, session

HERE = Path(__file__).parent
PROJECT, LOGS, SCRIPTS = HERE / "project", HERE / "logs", HERE / "scripts"
PIPELINE, QUERY = "events", "kept"
STOP_S = 180.0
OWN = ("spark.app.name", "spark.sql.warehouse.dir")  # differ by nature

SETTINGS = """\
[project]
name = "bench"

[sources.incoming]
kind = "text"
path = "{path}"
max_files = {max_files}

[restart]
healthy_after_s = 1  # each kill is the first one: the delay does not double

[pipelines.events.queries.kept]
every = "{every}"
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What a side is given to do."""

    feed: Feed
    max_files: int
    every: str = "0 seconds"


@dataclass(frozen=True, slots=True)
class Running:
    root: int  # the process at the top of the tree
    checkpoint: Path
    output: Path
    settings: Path  # Spark's properties file, as far as it is no secret
    logs: Callable[[], str]

    def require_alive(self) -> None:
        if not tree.is_alive(self.root):
            raise RuntimeError(f"the process {self.root} ended:\n{self.logs()}")


def project(folder: Path, load: Load) -> Path:
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = SETTINGS.format(path=load.feed.folder, max_files=load.max_files, every=load.every)
    (folder / "headrace.toml").write_text(text)
    return folder


def headrace(folder: Path, *words: str, timeout_s: float = STOP_S) -> str:
    done = subprocess.run(
        command(folder, *words),
        env=tree.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}"
        raise RuntimeError(f"headrace {' '.join(words)}: exit {done.returncode}\n{said}")
    return done.stdout


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "headrace", "--project", str(folder), *words]


@contextlib.contextmanager
def through_headrace(folder: Path, load: Load) -> Iterator[Running]:
    """`headrace up`: the real supervisor, detached. On a clean end it is drained by `down`."""
    home = project(folder, load)
    with kept_up(home, PIPELINE, QUERY) as running:
        yield running


@contextlib.contextmanager
def kept_up(
    home: Path, pipeline: str, query: str, profile: str = "dev", *, is_drained: bool = True
) -> Iterator[Running]:
    """One pipeline of a project, and one query of it to look at. Not drained: a real-time batch
    would be waited for, of which nothing is measured any more."""
    try:
        headrace(home, "--profile", profile, "up", pipeline)
        yield _running(home, pipeline, query, profile)
        if is_drained:
            headrace(home, "down")
    finally:
        tree.end_all()


@contextlib.contextmanager
def going_up(
    home: Path, pipeline: str, query: str, profile: str = "dev", *, is_drained: bool = True
) -> Iterator[tuple[subprocess.Popen[bytes], Running]]:
    """The same, from the moment that there is a run: `headrace up` itself still waits for it."""
    with (home / "up.log").open("wb") as out:
        up = subprocess.Popen(
            command(home, "--profile", profile, "up", pipeline),
            env=tree.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield up, _running(home, pipeline, query, profile)
        if up.wait(STOP_S) != 0:
            raise RuntimeError(f"headrace up: exit {up.returncode}\n{tree.tail(home / 'up.log')}")
        if is_drained:
            headrace(home, "down")
    finally:
        tree.end_all()


def _running(home: Path, pipeline: str, query: str, profile: str) -> Running:
    run = newest_run(home, pipeline)
    pid = json.loads((home / ".headrace" / "supervisor.json").read_text())["pid"]
    return Running(
        root=int(pid),
        checkpoint=Path(config.load(home, profile).checkpoint(pipeline, query)),
        output=home / "data" / query,
        settings=run / "conf" / session.KEPT,
        logs=lambda: _logs(home, pipeline),
    )


def checkpoint_of(home: Path) -> Path:
    return home / "checkpoints" / PIPELINE / QUERY / "v1"


def newest_run(home: Path, pipeline: str = PIPELINE) -> Path:
    deadline = time.monotonic() + STOP_S
    while True:
        if runs := runs_of(home, pipeline):
            return runs[-1]
        if time.monotonic() > deadline:
            raise TimeoutError(f"no run of {pipeline} was started:\n{_logs(home, pipeline)}")
        time.sleep(0.05)


def runs_of(home: Path, pipeline: str = PIPELINE) -> list[Path]:
    """Oldest first: names sort by time."""
    return sorted((home / ".headrace" / "runs").glob(f"{pipeline}-*"), key=lambda p: p.name)


def _logs(home: Path, pipeline: str = PIPELINE) -> str:
    newest = runs_of(home, pipeline)[-1:]
    files = [home / ".headrace" / "supervisor.log", *(run / "driver.log" for run in newest)]
    return "\n".join(f"--- {file.name}\n{tree.tail(file)}" for file in files)


def our_settings(folder: Path, user: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a pipeline of Headrace gets when its owner sets nothing but `user`."""
    java, cores = class_archive.use(class_archive.default_path()), os.cpu_count() or 1
    return session.settings_of(
        PIPELINE, user or {}, run_dir=folder, cores=cores, java=java, environment=tree.environment()
    )


@contextlib.contextmanager
def bare(
    folder: Path,
    script: str,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    path: Path = PROJECT,
) -> Iterator[Running]:
    """A script of `scripts/`. On a clean end it gets SIGTERM and has to end by itself with 0."""
    folder.mkdir(parents=True)
    session.write_conf(folder / "conf", settings)
    log = folder / "script.log"
    environment = tree.environment(
        SPARK_CONF_DIR=str(folder / "conf"),
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        PYTHONPATH=str(path),
        TZ="UTC",  # the days of an answer are checked
        PYTHONDONTWRITEBYTECODE="1",
    )
    try:
        with log.open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, str(SCRIPTS / script), *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        yield Running(
            root=child.pid,
            checkpoint=folder / "checkpoint",
            output=folder / "output",
            settings=folder / "conf" / "spark-defaults.conf",
            logs=lambda: tree.tail(log),
        )
        child.send_signal(signal.SIGTERM)
        if child.wait(STOP_S) != 0:
            raise RuntimeError(f"{script} ended with {child.returncode}:\n{tree.tail(log)}")
    finally:
        tree.end_all()


@contextlib.contextmanager
def bare_kept(folder: Path, load: Load) -> Iterator[Running]:
    """The pipeline of `project/` as a script, with the settings that Headrace would give it."""
    places = [str(load.feed.folder), str(folder / "output"), str(folder / "checkpoint")]
    arguments = [*places, str(load.max_files), load.every]
    with bare(folder, "kept.py", arguments, our_settings(folder)) as running:
        yield running


def settings_in(file: Path) -> dict[str, str]:
    lines = file.read_text().splitlines()
    pairs = dict(line.split(" ", 1) for line in lines if line)
    return {key: value for key, value in pairs.items() if key not in OWN}
