"""Somebody's own PySpark script, unchanged: executed, its queries found, watched, ended together.

Headrace creates no session here (one made first would silently drop the script's `.master()` and
`.config()`): our defaults lie underneath, in a properties file. Hooks on PySpark's own classes do
the rest: `getOrCreate` adds the listener, the writer's options are noted, `start` takes the
checkpoint's lock and records where the query was started, `stop` ends queries before Spark. The
script's own choices always win.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, references
from headrace.connectors import jars
from headrace.connectors.files import FORMATS
from headrace.define import versions
from headrace.driver import (
    analyse,
    classes,
    ending,
    fleet,
    interpreter,
    lock,
    packages,
    pipeline,
    session,
)
from headrace.driver.counted import of_script
from headrace.driver.description import Description
from headrace.driver.drain import drain
from headrace.driver.fleet import Claim, Fleet, Watched
from headrace.driver.signals import Signals
from headrace.driver.watch import Watch
from headrace.errors import DefinitionError, Error
from headrace.model.events import Kind
from headrace.model.limits import DrainLimits
from headrace.model.places import Places
from headrace.model.runs import Exit, RunSpec

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

# For a script to come back from awaitTermination after its queries have ended, and for its exit
# functions.
RETURN_S = 10.0
# A script that sets none of these gets Spark's own defaults: what it writes stays as it was.
NOT_OURS = {"spark.master", "spark.app.name", session.TIMESTAMPS}
NO_REPLAY = {"TextSocket": "socket", "RateStream": "rate"}


def run(
    spec: RunSpec,
    settings: config.Settings,
    run_dir: Path,
    ours: Fleet,
    signals: Signals,
    close: Callable[[Exit], None],
) -> Exit:
    """The script has the main thread, as it would alone; the loop that watches has another.

    `close` ends the process from that other thread, for a script that does not return by itself
    once its queries have ended (it sleeps, or waits for somebody).
    """
    mine = settings.for_pipeline(spec.pipeline)
    _prepare(spec, mine, run_dir, is_local=False)
    script = _Script(
        spec,
        ours,
        signals,
        mine.drain,
        prepare_local=functools.partial(_prepare, spec, mine, run_dir, is_local=True),
        forget_secrets=functools.partial(session.forget_secrets, run_dir / "conf"),
    )
    script.hook()
    outcome: list[Exit] = []
    over = threading.Event()
    watch = Watch(ours, signals, mine.drain, run_dir, is_open=lambda: not script.done.is_set())

    def watch_and_close() -> None:
        outcome.append(watch.until_the_end())
        script.settled.set()
        if not over.wait(RETURN_S):
            close(outcome[0])

    threading.Thread(target=watch_and_close, name="watch", daemon=True).start()
    watch.failed_outside = _execute(script, run_dir)
    if watch.failed_outside is None:
        script.tell_end()
    script.done.set()
    script.settled.wait()
    interpreter.run_exit_functions()
    over.set()
    return outcome[0]


def _prepare(spec: RunSpec, settings: config.Settings, run_dir: Path, *, is_local: bool) -> None:
    """Our defaults underneath. What is only right on one machine waits until that is known."""
    user = {key: references.resolve(value) for key, value in settings.spark.items()}
    code = _copy(spec).read_text(encoding="utf-8", errors="replace")
    about = [code, os.environ.get(packages.SUBMIT, "")]
    user |= jars.settings(jars.wanted((), about), user)
    where = {} if is_local else {"spark.master": "not known yet"}
    conf = session.settings_of(
        spec.pipeline,
        where | user,
        run_dir=run_dir,
        cores=os.cpu_count() or 1,
        java=classes.use(classes.kept()),
        environment=os.environ,
    )
    kept = {k: v for k, v in conf.items() if k not in NOT_OURS or k in user}
    session.write_conf(run_dir / "conf", kept, settings.spark)
    folders = (_copy(spec).parent, _original(spec).parent)
    on_this_machine = conf["spark.master"].startswith("local")  # headrace.toml may name a cluster
    session.prepare_environment(run_dir / "conf", folders, is_local=on_this_machine)


def _copy(spec: RunSpec) -> Path:
    return versions.code_path(Places(Path(spec.state)), spec.version, spec.file)


def _original(spec: RunSpec) -> Path:
    """Where the user keeps it: what `__file__`, tracebacks and places say."""
    return Path(spec.project) / spec.file


def _execute(script: _Script, run_dir: Path) -> Exit | None:
    """Run it as `python script.py ARGS` would. None if it came to its end by itself."""
    try:
        script.execute()
    except BaseException as exc:
        if not isinstance(exc, SystemExit) or exc.code not in (None, 0):
            if isinstance(exc, Error):
                logger.error("%s", exc)
            else:
                interpreter.show(exc)
            return ending.of_exception(exc, run_dir)
    interpreter.wait_for_threads()
    return None


@dataclass(slots=True)
class _Noted:
    """What a script said of a query before it started it."""

    name: str | None = None
    checkpoint: str | None = None
    format: str | None = None  # the method's name, where a function takes the rows
    path: str | None = None


@dataclass
class _Script:
    spec: RunSpec
    fleet: Fleet
    signals: Signals
    limits: DrainLimits
    prepare_local: Callable[[], None]
    forget_secrets: Callable[[], None]
    description: Description = field(init=False)
    done: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)  # no query is left to end
    _names: dict[str, list[str]] = field(default_factory=dict)  # invented, by place

    def __post_init__(self) -> None:
        self.description = Description(self.spec)

    def execute(self) -> None:
        interpreter.execute(_copy(self.spec), _original(self.spec), self.spec.args)

    def tell_end(self) -> None:
        """Plain Python would end the queries with the script. Here they run on, which is said."""
        if not self.fleet.is_closed and (left := self._live()):
            names = [one.name for one in left]
            self.fleet.events.tell(Kind.SCRIPT_ENDED, data={"queries": names})

    def hook(self) -> None:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        _wrap(SparkSession.Builder, "getOrCreate", self._get_or_create)
        _wrap(SparkContext, "stop", self._stop)  # which a session's own `stop` calls
        _wrap(DataStreamWriter, "option", self._option)
        _wrap(DataStreamWriter, "options", self._options)
        _wrap(DataStreamWriter, "queryName", self._query_name)
        for name in ("format", "foreach", "foreachBatch"):
            _wrap(DataStreamWriter, name, self._format)
        _wrap(DataStreamWriter, "start", self._start)
        _wrap(DataStreamWriter, "toTable", self._start)

    def _get_or_create(self, original: Callable[..., Any], builder: Any) -> Any:
        if self.fleet.spark is None:
            for said in packages.correct(builder._options, os.environ, self._place()):
                logger.warning("%s", said)
            if _is_local(builder):
                self.prepare_local()
        spark = original(builder)
        self._attach(spark)
        return spark

    def _attach(self, spark: Any) -> None:
        is_first = self.fleet.spark is None
        self.fleet.attach(spark)
        if is_first:
            self.forget_secrets()
            self.fleet.events.tell(Kind.RUN_STARTED, data=pipeline.run_facts(self.spec, spark))
        if threading.current_thread() is threading.main_thread():
            self.signals.install()  # PySpark has put a handler of its own in the place of ours

    def _stop(self, original: Callable[..., Any], context: Any) -> None:
        """The queries end first, at a batch boundary: Spark would end them with errors.

        While the run itself ends them, the session is not the script's to stop any more.
        """
        live = self._live()
        if self.fleet.is_closed and not self.settled.is_set():
            return
        if sys.exc_info()[0] is None:  # else the script fails already, and this is its cleanup
            unborn = [one for one in live if not one.has_begun()]
            if unborn:
                raise self._stopped_too_early(unborn)
        if live and self.fleet.spark is not None:
            queries = [one.query for one in live]
            seconds, is_hurried = self.limits.timeout_s, self.signals.is_hurried
            drain(self.fleet.spark, queries, timeout_s=seconds, is_hurried=is_hurried)
        original(context)

    def _live(self) -> list[Watched]:
        spark = self.fleet.spark
        if spark is None or session.is_jvm_gone(spark):
            return []
        return [one for one in self.fleet.all() if one.query.isActive]

    def _stopped_too_early(self, unborn: list[Watched]) -> DefinitionError:
        names = ", ".join(one.name for one in unborn)
        return DefinitionError(
            f"The script stops its Spark session before {names} has finished a batch.",
            why="stop() ends every query of the session, and start() does not wait for any.",
            where=self._place(),
            fix="Wait before stop(): query.awaitTermination(), or with several queries "
            "spark.streams.awaitAnyTermination().",
            slug="session-stopped",
        )

    def _noted_of(self, writer: Any) -> _Noted:
        if not hasattr(writer, "_headrace"):
            writer._headrace = _Noted()
        noted: _Noted = writer._headrace
        return noted

    def _option(self, original: Callable[..., Any], writer: Any, key: str, value: Any) -> Any:
        if key.lower() == "checkpointlocation":
            self._noted_of(writer).checkpoint = str(value)
        if key.lower() == "path":
            self._noted_of(writer).path = str(value)
        return original(writer, key, value)

    def _options(self, original: Callable[..., Any], writer: Any, **options: Any) -> Any:
        for key, value in options.items():
            writer.option(key, value)
        return writer

    def _query_name(self, original: Callable[..., Any], writer: Any, name: str) -> Any:
        self._noted_of(writer).name = name
        return original(writer, name)

    def _format(self, original: Callable[..., Any], writer: Any, *args: Any, **named: Any) -> Any:
        name = original.__name__
        given = next(iter((*args, *named.values())), None)
        self._noted_of(writer).format = str(given) if name == "format" else name
        return original(writer, *args, **named)

    def _start(self, original: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        """Name it, lock its checkpoint, start it as the script says, watch it."""
        if self.fleet.is_closed:
            raise SystemExit(0)  # the run is ending; a script that loops must not begin again
        noted = self._noted_of(writer)
        asked = inspect.signature(original).bind(writer, *args, **options).arguments
        given = asked.get("queryName") or noted.name
        name = given or self._invented_name()
        if given is None:
            writer.queryName(name)
        checkpoint = options.get("checkpointLocation") or noted.checkpoint or self._default(name)
        spark = writer._spark
        self._attach(spark)  # a session made without its builder
        sink = _sink_folder(spark, noted, asked) if original.__name__ == "start" else None
        owner = Claim(self.spec.project, self.spec.pipeline, name, given is not None, sink)
        claimed = self._claim(spark, checkpoint, owner)
        counted = of_script(writer._df, self._place())
        self.fleet.counts.note(name, counted)
        self.fleet.outages.note(name, analyse.addresses(writer._df))
        query: StreamingQuery = original(writer, *args, **options)
        if claimed is not None:
            fleet.record(str(checkpoint), replace(claimed, query_id=str(query.id)))
        facts: dict[str, Any] = {
            "place": self._place(),
            "note": self._note(writer, checkpoint),
            "counted": counted.described(),
        }
        facts |= self.description.add(name, self._place(), writer._df, query, checkpoint)
        epoch = claimed.epoch if claimed is not None else None
        self.fleet.enter(Watched(name, query, checkpoint), epoch, facts)
        return query

    def _claim(self, spark: Any, checkpoint: str | None, owner: Claim) -> Any:
        if checkpoint is None:
            return None
        claimed = self.fleet.claim(spark, checkpoint, owner)
        if claimed is not None:
            fleet.record(checkpoint, claimed)
        return claimed

    def _invented_name(self) -> str:
        """The same for the same line of the script, unless a query of that line still runs."""
        mine = self._names.setdefault(self._place(), [])
        running = {one.name for one in self.fleet.all() if not one.is_over()}
        free = next((name for name in mine if name not in running), None)
        if free is None:
            free = f"query_{sum(map(len, self._names.values())) + 1}"
            mine.append(free)
        return free

    def _default(self, name: str) -> str | None:
        """`spark.sql.streaming.checkpointLocation` with a name gives a checkpoint that lasts."""
        spark = self.fleet.spark
        root = spark.conf.get("spark.sql.streaming.checkpointLocation", None) if spark else None
        return f"{root.rstrip('/')}/{name}" if root else None

    def _note(self, writer: Any, checkpoint: str | None) -> str | None:
        if checkpoint:
            return None
        plan = writer._df._jdf.queryExecution().analyzed().toString()
        kinds = [word for mark, word in NO_REPLAY.items() if mark in plan]
        return f"starts anew: {', '.join([*kinds, 'no checkpoint'])}"

    def _place(self) -> str:
        for frame in reversed(traceback.extract_stack()):
            if frame.filename == str(_original(self.spec)):
                return f"{self.spec.file}:{frame.lineno}"
        return self.spec.file


def _sink_folder(spark: Any, noted: _Noted, asked: Mapping[str, Any]) -> Path | None:
    """The folder that the query will write to, if it is a file sink with a path on this machine."""
    path = asked.get("path") or noted.path
    format_ = asked.get("format") or noted.format or spark.conf.get("spark.sql.sources.default")
    return lock.local_path(str(path)) if path and format_.lower() in FORMATS else None


def _is_local(builder: Any) -> bool:
    """What the script asks for, before its JVM exists."""
    master = builder._options.get("spark.master") or os.environ.get("MASTER") or "local"
    return str(master).startswith("local")


def _wrap(owner: type, name: str, hook: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(original, self, *args, **kwargs)

    setattr(owner, name, wrapped)
