"""A driver: `python -m headrace.driver.main RUN_DIR`. Read this file first.

It takes everything from `run.json`, tells everything in `events.jsonl`, and its last word is
`exit.json`. In between: load the user's code, check it, start Spark, start the queries, watch them.
Invariant: whatever happens short of a SIGKILL, `exit.json` is written and synced before the end.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import config, jsonfile, logs, processes
from headrace.driver import ending, java, pipeline, question, script, session
from headrace.driver.events import EventsFile
from headrace.driver.fleet import Fleet
from headrace.driver.signals import Signals
from headrace.errors import Error
from headrace.model.events import Kind
from headrace.model.places import Places
from headrace.model.runs import Ending, Exit, RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

STOP_SPARK_S = 10.0


def main(argv: list[str]) -> None:
    run_dir = Path(argv[0]).absolute()
    spec = RunSpec.from_json(jsonfile.read_json(run_dir / "run.json") or {})
    run = _Run(spec, run_dir)
    run.signals.install()
    me = processes.identify(os.getpid())
    jsonfile.write_json(run_dir / "process.json", me.to_json() if me else {})
    os.chdir(spec.project)
    logs.configure(is_guest=spec.script, pipeline=spec.pipeline, run=spec.run)
    run.close(run.to_the_end())


class _Run:
    """Owns the run's files and its one Spark session."""

    def __init__(self, spec: RunSpec, run_dir: Path) -> None:
        self.spec = spec
        self.run_dir = run_dir
        self.events = EventsFile(run_dir / "events.jsonl")
        self.fleet = Fleet(spark=None, events=self.events)
        self.signals = Signals(on_second=self._second_signal)
        self._closing = threading.Lock()

    def to_the_end(self) -> Exit:
        try:
            java.check()
            settings = self._settings()
            if self.spec.define:
                return pipeline.define(self.spec, settings, self.run_dir, self.fleet)
            if self.spec.question:
                return question.answer(self.spec, settings, self.run_dir, self.fleet)
            return self._unless_jvm_died(self._run(settings))
        except Error as exc:
            logger.error("%s", exc)
            return self._unless_jvm_died(ending.of_error(exc, self.run_dir))
        except BaseException as exc:
            logger.exception("the run failed outside its queries")
            return self._unless_jvm_died(ending.of_exception(exc, self.run_dir))

    def _run(self, settings: config.Settings) -> Exit:
        given = (self.spec, settings, self.run_dir, self.fleet, self.signals)
        if self.spec.script:
            return script.run(*given, close=self.close)
        return pipeline.run(*given)

    def _settings(self) -> config.Settings:
        toml = Places(Path(self.spec.state)).code(self.spec.version) / "headrace.toml"
        return config.load(Path(self.spec.project), self.spec.profile, toml)

    def _unless_jvm_died(self, exit_: Exit) -> Exit:
        """A dead JVM shows first as some Python call that failed: name the cause instead."""
        spark = self.fleet.spark
        if exit_.code == 0 or spark is None or not session.is_jvm_gone(spark, within_s=1.0):
            return exit_
        code = session.jvm_process(spark).poll()
        return ending.of_dead_jvm(code, self.run_dir / "driver.log", self.run_dir)

    def close(self, exit_: Exit) -> None:
        """The last words, then the end. Never returns: a stuck thread must not keep us alive."""
        with self._closing:
            if self.fleet.spark is not None and exit_.failure != "jvm-died":
                stopper = threading.Thread(target=self._stop, args=[self.fleet.spark], daemon=True)
                stopper.start()
                stopper.join(STOP_SPARK_S)
            self._write_exit(exit_)

    def _stop(self, spark: SparkSession) -> None:
        """Who asked for a check or an answer goes on with a machine that is free again; what a run
        leaves is the supervisor's to end."""
        jvm = session.jvm_process(spark)
        spark.stop()
        if jvm is not None and (self.spec.define or self.spec.question):
            jvm.stdin.close()  # it ends with that
            jvm.wait()

    def _second_signal(self) -> None:
        """Before the first query there is nothing to wait for; a drain hurries by itself."""
        if not self.fleet.all():
            with self._closing:
                self._write_exit(Exit(Ending.DRAINED, code=0, at=time.time()))

    def _write_exit(self, exit_: Exit) -> None:
        """Whatever goes wrong here, the process ends, and with the right code."""
        try:
            session.forget_secrets(self.run_dir / "conf")
            jsonfile.write_json(self.run_dir / "exit.json", exit_.to_json())
            self.events.tell(Kind.EXITED, data=exit_.to_json())
            self.events.sync()
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            logger.exception("the last words could not all be written")
        finally:
            os._exit(exit_.code)


if __name__ == "__main__":
    main(sys.argv[1:])
