"""A driver: `python -m headrace.driver.main RUN_DIR`. Read this file first.

Its input is `run.json`, its output `events.jsonl`, and its result `exit.json`. In between it loads
and checks the user's code, starts Spark and the queries, and watches them.
Invariant: unless it is killed with SIGKILL, `exit.json` is written and synced before it ends.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import config, json_file, logs, process_identity
from headrace.driver import exit_report, java, pipeline, script, session, sql_query
from headrace.driver.events import EventsFile
from headrace.driver.running_queries import Queries
from headrace.driver.signals import Signals
from headrace.errors import Error
from headrace.model.events import EventKind
from headrace.model.runs import Ending, Exit, RunSpec
from headrace.model.state_paths import StatePaths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

STOP_SPARK_S = 10.0


def main(argv: list[str]) -> None:
    run_dir = Path(argv[0]).absolute()
    spec = RunSpec.from_json(json_file.read_json(run_dir / "run.json") or {})
    run = _Run(spec, run_dir)
    run.signals.install()
    me = process_identity.identify(os.getpid())
    json_file.write_json(run_dir / "process.json", me.to_json() if me else {})
    os.chdir(spec.project)
    logs.configure(is_guest=spec.script, pipeline=spec.pipeline, run=spec.run)
    run.close(run.to_the_end())


class _Run:
    def __init__(self, spec: RunSpec, run_dir: Path) -> None:
        self.spec = spec
        self.run_dir = run_dir
        self.events = EventsFile(run_dir / "events.jsonl")
        self.queries = Queries(spark=None, events=self.events)
        self.signals = Signals(on_second=self._second_signal)
        self._closing = threading.Lock()

    def to_the_end(self) -> Exit:
        """When the JVM dies, some Python call fails first. The JVM's death is the cause."""
        exit_ = self._run()
        if exit_.code == 0:
            return exit_
        return exit_report.if_jvm_died(self.queries.spark, self.run_dir, within_s=1.0) or exit_

    def _run(self) -> Exit:
        try:
            java.check()
            context = (self.spec, self._settings(), self.run_dir, self.queries)
            if self.spec.define:
                return pipeline.define(*context)
            if self.spec.question:
                return sql_query.answer(*context)
            if self.spec.script:
                return script.run(*context, self.signals, close=self.close)
            return pipeline.run(*context, self.signals)
        except Error as exc:
            logger.error("%s", exc)
            return exit_report.from_error(exc, self.run_dir)
        except BaseException as exc:
            logger.exception("the run failed outside its queries")
            return exit_report.from_exception(exc, self.run_dir)

    def _settings(self) -> config.Settings:
        toml = StatePaths(Path(self.spec.state)).code(self.spec.version) / "headrace.toml"
        return config.load(Path(self.spec.project), self.spec.profile, toml)

    def close(self, exit_: Exit) -> None:
        """Write `exit.json` and end the process, even with stuck threads. Never returns."""
        with self._closing:
            if self.queries.spark is not None and exit_.failure != "jvm-died":
                stopper = threading.Thread(
                    target=self._stop, args=[self.queries.spark], daemon=True
                )
                stopper.start()
                stopper.join(STOP_SPARK_S)
            self._write_exit(exit_)

    def _stop(self, spark: SparkSession) -> None:
        """The JVM of a check or of SQL ends before its caller goes on. The supervisor ends the JVM
        of a run."""
        jvm = session.jvm_process(spark)
        spark.stop()
        if jvm is not None and (self.spec.define or self.spec.question):
            jvm.stdin.close()  # ends the JVM
            jvm.wait()

    def _second_signal(self) -> None:
        """Ends the process before its first query. A drain notices the second signal itself."""
        if not self.queries.all():
            with self._closing:
                self._write_exit(Exit(Ending.DRAINED, code=0, at=time.time()))

    def _write_exit(self, exit_: Exit) -> None:
        """Ends the process with the right exit code, whatever fails before."""
        try:
            session.forget_secrets(self.run_dir / "conf")
            json_file.write_json(self.run_dir / "exit.json", exit_.to_json())
            self.events.tell(EventKind.EXITED, data=exit_.to_json())
            self.events.sync()
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            logger.exception("could not record how the run ended")
        finally:
            os._exit(exit_.code)


if __name__ == "__main__":
    main(sys.argv[1:])
