"""Runs a user's PySpark script unchanged, and watches its queries.

Headrace does not create the session: Spark would then ignore the script's `.master()` and
`.config()`. Our defaults are in a properties file, which the script's settings override. Hooks on
PySpark's classes do the rest: `getOrCreate` adds the listener, the writer's options are noted,
`start` locks the checkpoint and records the query's line, `stop` drains the queries first.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, secrets
from headrace.connectors import jars
from headrace.connectors.files import FORMATS
from headrace.define import deployed_code
from headrace.driver import (
    class_archive,
    exit_report,
    pipeline,
    plan_analysis,
    script_execution,
    script_packages,
    session,
)
from headrace.driver import running_queries as driver_queries
from headrace.driver.count_plan import plan_script_counts
from headrace.driver.drain import drain
from headrace.driver.run_loop import RunLoop
from headrace.driver.running_queries import Claim, Queries, RunningQuery
from headrace.driver.script_queries import ScriptQueries
from headrace.driver.signals import Signals
from headrace.errors import DefinitionError, Error
from headrace.model import dropwizard
from headrace.model.events import EventKind
from headrace.model.limits import DrainLimits
from headrace.model.runs import Exit, RunSpec
from headrace.model.state_paths import StatePaths

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

RETURN_S = 10.0  # for a script to return after its queries have ended, and for its exit functions
# Spark's own defaults apply to these, so that the script writes what it wrote before.
NOT_OURS = {"spark.master", "spark.app.name", session.TIMESTAMPS}
NO_REPLAY = {"TextSocket": "socket", "RateStream": "rate"}


def run(
    spec: RunSpec,
    settings: config.Settings,
    run_dir: Path,
    queries: Queries,
    signals: Signals,
    close: Callable[[Exit], None],
) -> Exit:
    """The script runs in the main thread, as it would alone, and the run loop in another.

    That other thread calls `close` to end the process if the script does not return after its
    queries have ended.
    """
    mine = settings.for_pipeline(spec.pipeline)
    _prepare(spec, mine, run_dir, {}, is_local=False)
    script = _Script(
        spec,
        queries,
        signals,
        mine.drain,
        prepare=functools.partial(_prepare, spec, mine, run_dir),
        forget_secrets=functools.partial(session.forget_secrets, run_dir / "conf"),
    )
    script.hook()
    outcome: list[Exit] = []
    over = threading.Event()
    loop = RunLoop(queries, signals, mine.drain, run_dir, is_open=lambda: not script.done.is_set())

    def watch_and_close() -> None:
        outcome.append(loop.until_the_end())
        script.settled.set()
        if not over.wait(RETURN_S):
            close(outcome[0])

    threading.Thread(target=watch_and_close, name="watch", daemon=True).start()
    loop.failed_outside = _execute(script, run_dir)
    if loop.failed_outside is None:
        script.report_end()
    script.done.set()
    script.settled.wait()
    atexit._run_exitfuncs()  # the process ends by `os._exit`, which skips them
    over.set()
    return outcome[0]


def _prepare(
    spec: RunSpec,
    settings: config.Settings,
    run_dir: Path,
    own: Mapping[str, str],
    *,
    is_local: bool,
) -> None:
    """Write our defaults. Those for a local master are added once the master is known, with `own`,
    the settings of the script's builder."""
    given = dict(settings.spark)
    metrics = dropwizard.spark_settings(settings.dropwizard, {**given, **own}, spec.pipeline)
    given |= {key: value for key, value in metrics.items() if key not in own}
    user = {key: secrets.resolve(value) for key, value in given.items()}
    code = _copy(spec).read_text(encoding="utf-8", errors="replace")
    texts = [code, os.environ.get(script_packages.SUBMIT, "")]
    user |= jars.settings(jars.detect_bundles((), texts), user)
    master = {} if is_local else {"spark.master": "not known yet"}
    conf = session.settings_of(
        spec.pipeline,
        master | user,
        run_dir=run_dir,
        cores=os.cpu_count() or 1,
        java=class_archive.use(class_archive.default_path()),
        environment=os.environ,
    )
    kept = {k: v for k, v in conf.items() if k not in NOT_OURS or k in user}
    session.write_conf(run_dir / "conf", kept, given)
    folders = (_copy(spec).parent, _original(spec).parent)
    on_this_machine = conf["spark.master"].startswith("local")  # headrace.toml may name a cluster
    session.prepare_environment(run_dir / "conf", folders, is_local=on_this_machine)


def _copy(spec: RunSpec) -> Path:
    return deployed_code.code_path(StatePaths(Path(spec.state)), spec.version, spec.file)


def _original(spec: RunSpec) -> Path:
    """The user's file: `__file__`, tracebacks and places refer to it."""
    return Path(spec.project) / spec.file


def _execute(script: _Script, run_dir: Path) -> Exit | None:
    """Run it as `python script.py ARGS` would. Returns None unless it fails."""
    try:
        script_execution.execute(_copy(script.spec), _original(script.spec), script.spec.args)
    except BaseException as exc:
        if not isinstance(exc, SystemExit) or exc.code not in (None, 0):
            if isinstance(exc, Error):
                logger.error("%s", exc)
            else:
                script_execution.show(exc)
            return exit_report.from_exception(exc, run_dir)
    # As Python does at exit: end idle thread pools, and wait for non-daemon threads.
    threading._shutdown()  # type: ignore[attr-defined]
    return None


@dataclass
class _Script:
    spec: RunSpec
    queries: Queries
    signals: Signals
    limits: DrainLimits
    prepare: Callable[..., None]
    forget_secrets: Callable[[], None]
    description: ScriptQueries = field(init=False)
    done: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)  # all queries have ended
    _names: dict[str, list[str]] = field(default_factory=dict)  # generated names, by place

    def __post_init__(self) -> None:
        self.description = ScriptQueries(self.spec)

    def report_end(self) -> None:
        """Without Headrace the queries would end with the script. Here they keep running."""
        if not self.queries.is_closed and (running := self._running()):
            names = [query.name for query in running]
            self.queries.events.tell(EventKind.SCRIPT_ENDED, data={"queries": names})

    def hook(self) -> None:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        _wrap(SparkSession.Builder, "getOrCreate", self._get_or_create)
        _wrap(SparkContext, "stop", self._stop)  # called by a session's `stop`
        _wrap(DataStreamWriter, "option", self._option)
        _wrap(DataStreamWriter, "options", self._options)
        _wrap(DataStreamWriter, "queryName", self._query_name)
        for name in ("format", "foreach", "foreachBatch"):
            _wrap(DataStreamWriter, name, self._format)
        _wrap(DataStreamWriter, "start", self._start)
        _wrap(DataStreamWriter, "toTable", self._start)

    def _get_or_create(self, original: Callable[..., Any], builder: Any) -> Any:
        if self.queries.spark is None:
            for warning in script_packages.correct(builder._options, os.environ, self._place()):
                logger.warning("%s", warning)
            self.prepare(builder._options, is_local=_is_local(builder))
        spark = original(builder)
        self._attach(spark)
        return spark

    def _attach(self, spark: Any) -> None:
        is_first = self.queries.spark is None
        self.queries.attach(spark)
        if is_first:
            self.forget_secrets()
            self.queries.events.tell(
                EventKind.RUN_STARTED, data=pipeline.run_facts(self.spec, spark)
            )
        if threading.current_thread() is threading.main_thread():
            self.signals.install()  # PySpark has replaced our handler

    def _stop(self, original: Callable[..., Any], context: Any) -> None:
        """Drains the queries first: Spark would end them with errors.

        Does nothing while the run loop drains them.
        """
        running = self._running()
        if self.queries.is_closed and not self.settled.is_set():
            return
        if sys.exc_info()[0] is None:  # else the script has failed, and this is its cleanup
            early = [query for query in running if not query.has_begun()]
            if early:
                raise self._early_stop_error(early)
        if running and self.queries.spark is not None:
            queries = [query.query for query in running]
            seconds, is_hurried = self.limits.timeout_s, self.signals.is_hurried
            drain(self.queries.spark, queries, timeout_s=seconds, is_hurried=is_hurried)
        original(context)

    def _running(self) -> list[RunningQuery]:
        spark = self.queries.spark
        if spark is None or session.is_jvm_gone(spark):
            return []
        return [query for query in self.queries.all() if query.query.isActive]

    def _early_stop_error(self, early: list[RunningQuery]) -> DefinitionError:
        names = ", ".join(query.name for query in early)
        return DefinitionError(
            f"The script stopped its Spark session before {names} finished a batch.",
            why="stop() stops every query in the session, and start() does not wait for a batch.",
            where=self._place(),
            fix="Before stop(), call query.awaitTermination(), or, with several queries, "
            "spark.streams.awaitAnyTermination().",
            slug="session-stopped",
        )

    def _option(self, original: Callable[..., Any], writer: Any, key: str, value: Any) -> Any:
        if key.lower() in ("checkpointlocation", "path"):
            _notes(writer)[key.lower()] = str(value)
        return original(writer, key, value)

    def _options(self, original: Callable[..., Any], writer: Any, **options: Any) -> Any:
        for key, value in options.items():
            writer.option(key, value)
        return writer

    def _query_name(self, original: Callable[..., Any], writer: Any, name: str) -> Any:
        _notes(writer)["name"] = name
        return original(writer, name)

    def _format(self, original: Callable[..., Any], writer: Any, *args: Any, **named: Any) -> Any:
        name = original.__name__
        first = next(iter((*args, *named.values())), None)
        _notes(writer)["format"] = str(first) if name == "format" else name
        return original(writer, *args, **named)

    def _start(self, original: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        """Name the query, lock its checkpoint, start it as the script says, and watch it."""
        if self.queries.is_closed:
            raise SystemExit(0)  # the run is ending; a script with a loop must not go on
        notes = _notes(writer)
        arguments = inspect.signature(original).bind(writer, *args, **options).arguments
        own_name = arguments.get("queryName") or notes.get("name")
        name = own_name or self._generate_name()
        if own_name is None:
            writer.queryName(name)
        checkpoint = options.get("checkpointLocation") or notes.get("checkpointlocation")
        checkpoint = checkpoint or self._default(name)
        spark = writer._spark
        self._attach(spark)  # the session may have been made without its builder
        sink = _sink_folder(spark, notes, arguments) if original.__name__ == "start" else None
        owner = Claim(self.spec.project, self.spec.pipeline, name, own_name is not None, sink)
        claimed = self.queries.claim(spark, checkpoint, owner)
        driver_queries.record(checkpoint, claimed)
        count_plan = plan_script_counts(writer._df, self._place())
        self.queries.counts.note(name, count_plan)
        self.queries.outages.note(name, plan_analysis.addresses(writer._df))
        query: StreamingQuery = original(writer, *args, **options)
        facts: dict[str, Any] = {
            "place": self._place(),
            "note": self._note(writer, checkpoint),
            "counted": count_plan.describe(),
        }
        facts |= self.description.add(name, self._place(), writer._df, query, checkpoint)
        self.queries.enter(RunningQuery(name, query, checkpoint), claimed, facts)
        return query

    def _generate_name(self) -> str:
        """The same name for the same line of the script, unless its last query still runs."""
        names = self._names.setdefault(self._place(), [])
        running = {query.name for query in self.queries.all() if not query.is_over()}
        free = next((name for name in names if name not in running), None)
        if free is None:
            free = f"query_{sum(map(len, self._names.values())) + 1}"
            names.append(free)
        return free

    def _default(self, name: str) -> str | None:
        """The checkpoint of a named query below `spark.sql.streaming.checkpointLocation`."""
        spark = self.queries.spark
        root = spark.conf.get("spark.sql.streaming.checkpointLocation", None) if spark else None
        return f"{root.rstrip('/')}/{name}" if root else None

    def _note(self, writer: Any, checkpoint: str | None) -> str | None:
        if checkpoint:
            return None
        plan = writer._df._jdf.queryExecution().analyzed().toString()
        kinds = [word for mark, word in NO_REPLAY.items() if mark in plan]
        return f"starts from scratch: {', '.join([*kinds, 'no checkpoint'])}"

    def _place(self) -> str:
        for frame in reversed(traceback.extract_stack()):
            if frame.filename == str(_original(self.spec)):
                return f"{self.spec.file}:{frame.lineno}"
        return self.spec.file


def _notes(writer: Any) -> dict[str, str]:
    """Settings of a writer before its query starts: name, checkpointlocation, path, and format
    ("foreach" or "foreachBatch" for a function)."""
    notes: dict[str, str] = writer.__dict__.setdefault("_headrace", {})
    return notes


def _sink_folder(spark: Any, notes: Mapping[str, str], arguments: Mapping[str, Any]) -> Path | None:
    """The folder of a local file sink."""
    path = arguments.get("path") or notes.get("path")
    format_ = arguments.get("format") or notes.get("format")
    format_ = format_ or spark.conf.get("spark.sql.sources.default")
    return config.local_path(str(path)) if path and format_.lower() in FORMATS else None


def _is_local(builder: Any) -> bool:
    master = builder._options.get("spark.master") or os.environ.get("MASTER") or "local"
    return str(master).startswith("local")


def _wrap(owner: type, name: str, hook: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(original, self, *args, **kwargs)

    setattr(owner, name, wrapped)
