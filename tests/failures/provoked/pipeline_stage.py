"""A project whose pipeline is run by the driver's own code, in this process, to share one JVM.

Everything is as in a run of Headrace: a deployed copy of the code, the file of the run, checkpoints
on a disk, `exit.json`, and the command line that reads it. Only the session is there already, and
nobody restarts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from headrace import config, json_file
from headrace.cli.main import main as command_line
from headrace.define import deployed_code
from headrace.driver import checkpoint_lock, exit_report, session
from headrace.driver.main import _Run
from headrace.model.events import EventKind
from headrace.model.runs import Desired, Exit, RunSpec, run_name
from headrace.model.state_paths import StatePaths
from headrace.state import desired, run_folders, supervisor_lookup

NAME = "orders"
HEAD = "import headrace as hr\nfrom pyspark.sql import functions as F\n\n"
SETTINGS = """
[project]
name = "shop"
[sources.lines]
kind = "text"
path = "incoming"
max_files = 1
"""
BEGINNING = 1_700_000_000.0
ATTEMPTS_MAX = 10
HUNG_S = 180.0  # a case that does not fail must not run for ever
SAMPLES = Path(__file__).parents[1] / "samples"
RECORD = "HEADRACE_RECORD_SAMPLES"


@dataclass
class Stage:
    """`settings` are of the session; `toml` goes below the project's own settings."""

    folder: Path
    case: str = ""
    spark: Any = None  # one for all cases that share a JVM
    broker: Any = None
    python: str = ""  # the program for workers
    toml: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    run_dirs: list[Path] = field(default_factory=list)
    given: int = 0  # input files

    @property
    def places(self) -> StatePaths:
        return StatePaths(self.folder / ".headrace")

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoints" / NAME / "out" / "v1"

    def give(self, name: str, *lines: str) -> Path:
        """An input file, there as a whole or not at all."""
        folder = self.folder / "incoming"
        folder.mkdir(exist_ok=True)
        (folder / f".{name}").write_text("".join(f"{line}\n" for line in lines or (name,)))
        self.given += 1  # Spark reads the oldest file first
        os.utime(folder / f".{name}", (BEGINNING + self.given,) * 2)
        os.replace(folder / f".{name}", folder / name)
        return folder / name

    def remote_checkpoints(self) -> None:
        """On a file system that is no local disk to Headrace, so that Spark alone judges them."""
        name = f"case{uuid.uuid4().hex[:8]}"
        hadoop = self.spark.sparkContext._jsc.hadoopConfiguration()
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        link = f"fs.viewfs.mounttable.{name}.link./checkpoints"
        hadoop.set(link, (self.folder / "checkpoints").as_uri())
        self.toml = f'[project]\ncheckpoints = "viewfs://{name}/checkpoints"\n' + self.toml

    def run(self, code: str) -> Exit:
        """Deploys the code and runs it as a driver does, until it ends."""
        pipelines = self.folder / "pipelines"
        pipelines.mkdir(exist_ok=True)
        (self.folder / "incoming").mkdir(exist_ok=True)
        (pipelines / f"{NAME}.py").write_text(HEAD + textwrap.dedent(code).lstrip())
        self._write_settings()
        version = deployed_code.snapshot(self.folder, self.places)
        wanted = Desired(NAME, "running", version, "dev", f"pipelines/{NAME}.py")
        desired.write(self.places, wanted)
        ended = self._attempt(version)
        while ended.failure == "worker-start" and len(self.run_dirs) < ATTEMPTS_MAX:
            ended = self._attempt(version)  # a busy machine; a supervisor would try again, too
        return ended

    def _attempt(self, version: str) -> Exit:
        spec = self._spec(version)
        json_file.write_json(self.places.spec(spec.run), spec.to_json())
        run_dir = self.places.run(spec.run)
        self.run_dirs.append(run_dir)
        with self._session(), _own_process(self.folder):
            return self._drive(spec, run_dir)

    def run_with(
        self, table: str, code: str, fields: Mapping[str, str], options: Mapping[str, str]
    ) -> Exit:
        """With a source or sink of Kafka in the settings; `fields` are as TOML has them."""
        lines = [f"{name} = {text}" for name, text in fields.items()]
        lines += [f"options.{json.dumps(name)} = {json.dumps(v)}" for name, v in options.items()]
        self.toml = "\n".join([f"[{table}]", 'kind = "kafka"', *lines, ""])
        return self.run(code)

    def _write_settings(self) -> None:
        own = self.toml
        project = SETTINGS
        if own.startswith("[project]\n"):  # a table may be there once
            line, _, own = own.removeprefix("[project]\n").partition("\n")
            project = project.replace('name = "shop"', f'name = "shop"\n{line}')
        (self.folder / "headrace.toml").write_text(project + own)

    def run_alone(self, code: str, toml: str = "", *, file: str = "") -> Exit:
        """By `headrace run`, in processes of its own, once. `file` is a script in the project."""
        pipelines = self.folder / "pipelines"
        pipelines.mkdir(exist_ok=True)
        (self.folder / "incoming").mkdir(exist_ok=True)
        text = textwrap.dedent(code).lstrip()
        (self.folder / (file or f"pipelines/{NAME}.py")).write_text(text if file else HEAD + text)
        self.toml = f"[restart]\nretries = 0\n{toml}"
        self._write_settings()
        command = [sys.executable, "-m", "headrace", "--project", str(self.folder), "run"]
        subprocess.run([*command, file or NAME], capture_output=True, timeout=600, check=False)
        spec = run_folders.specs(self.places)[NAME][-1]
        self.run_dirs.append(self.places.run(spec.run))
        past = run_folders.outcome_of(self.places, spec, time.time())
        assert past is not None, "it still runs"
        return past.exit

    def _spec(self, version: str) -> RunSpec:
        now = time.time() + len(self.run_dirs)  # names of runs sort by their second
        return RunSpec(
            run=run_name(NAME, now, uuid.uuid4().hex[:6]), pipeline=NAME, project=str(self.folder),
            state=str(self.places.state), version=version, profile="dev",
            file=f"pipelines/{NAME}.py", at=now,
        )  # fmt: skip

    def _drive(self, spec: RunSpec, run_dir: Path) -> Exit:
        run = _Run(spec, run_dir)
        alarm = threading.Timer(HUNG_S, lambda: os.kill(os.getpid(), signal.SIGTERM))
        alarm.start()
        try:
            exit_ = run.to_the_end()
        finally:
            alarm.cancel()
        self._keep_sample(run)
        json_file.write_json(run_dir / "exit.json", exit_.to_json())
        run.events.tell(EventKind.EXITED, data=exit_.to_json())
        run.events.sync()
        for query in run.queries.all():
            query.query.stop()
        self._release_checkpoints()
        return exit_

    def _release_checkpoints(self) -> None:
        """As the end of the JVM would, which lives on here."""
        for path in [path for path in checkpoint_lock._held if path.is_relative_to(self.folder)]:
            file, _ = checkpoint_lock._held.pop(path)
            file.close()

    @contextlib.contextmanager
    def _session(self) -> Iterator[None]:
        """A session of its own, with Headrace's defaults: the driver finds it as its only one."""
        from pyspark.sql import SparkSession

        fresh = self.spark.newSession()
        mine = config.load(self.folder, "dev").for_pipeline(NAME).spark
        for key, value in _session_settings(self.folder, {**mine, **self.settings}).items():
            fresh.conf.set(key, value)
        before, context = SparkSession._instantiatedSession, self.spark.sparkContext
        python, context.pythonExec = context.pythonExec, self.python or self._quick_python()
        SparkSession._instantiatedSession = SparkSession._activeSession = fresh
        fresh._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(fresh._jsparkSession)
        try:
            yield
        finally:
            for query in fresh.streams.active:
                query.stop()
            SparkSession._instantiatedSession = SparkSession._activeSession = before
            context.pythonExec = python

    def _quick_python(self) -> str:
        """As a driver has it: a worker that starts too late fails its query."""
        return str(session._quick_python(self.folder))

    def _keep_sample(self, run: Any) -> None:
        """The failure's text for the tests without a JVM, if HEADRACE_RECORD_SAMPLES names it."""
        path = run.run_dir / exit_report.TRACE_NAME
        if self.case not in os.environ.get(RECORD, "").split(",") or not path.exists():
            return
        error_class, causes, trace = None, (), path.read_text()
        for query in run.queries.all():
            failure = query.query._jsq.exception()
            if not failure.isEmpty():
                causes, _ = exit_report.java_causes(failure.get())
                error_class = run.queries.terminated[query.run_id][1]
        body = {
            "name": self.case,
            "how": "tests/failures/provoked",
            "error_class": error_class,
            "causes": causes,
            "trace": trace,
        }
        text = json.dumps(body, indent=1)
        for here, neutral in (
            (str(self.folder), "/project"),
            (sys.prefix, "/venv"),
            (str(Path(sys.prefix).resolve()), "/venv"),
            (sys.base_prefix, "/usr/local"),
            (str(Path(__file__).parents[3]), "/headrace"),
        ):
            text = text.replace(here, neutral)
        (SAMPLES / f"{self.case}.json").write_text(text + "\n")

    def events(self) -> list[dict[str, Any]]:
        lines = (self.run_dirs[-1] / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def why(self) -> str:
        """What a person reads, while a supervisor watches."""
        supervisor_lookup.record(self.places)
        done = CliRunner().invoke(command_line, ["--project", str(self.folder), "why", NAME])
        assert done.exit_code == 0, done.output
        return done.stdout


def _session_settings(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    """Those that a session may have of its own; the JVM's stay as they are."""
    conf = session.settings_of(NAME, own, run_dir=folder, cores=2)
    conf |= {"spark.sql.shuffle.partitions": "2"} | dict(own)
    fixed = ("spark.sql.ui.", "spark.sql.streaming.ui.", "spark.sql.warehouse.", "spark.sql.extens")
    return {k: v for k, v in conf.items() if k.startswith("spark.sql.") and not k.startswith(fixed)}


@contextlib.contextmanager
def _own_process(folder: Path) -> Iterator[None]:
    """A driver changes its process: put back what others in this one rely on."""
    environment, here, path = dict(os.environ), Path.cwd(), list(sys.path)
    numbers = (signal.SIGTERM, signal.SIGINT)
    signals = [signal.getsignal(number) for number in numbers]
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
        for number, handler in zip(numbers, signals, strict=True):
            signal.signal(number, handler)
