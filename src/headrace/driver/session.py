"""The Spark session of a run: our defaults, the user's settings on top, and where they are written.

Settings travel in a file of the run (mode 0600), never on a command line: PySpark puts every conf
of a builder into the arguments of spark-submit, where `ps` shows it to everyone. Not by
SPARK_CONF_DIR: a folder on the class path keeps a JVM from using classes kept ready (classes.py).
Invariant: that file holds secrets, so it is gone once Spark has read it; `settings.conf` beside it
stays, with references in place of their values.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import references
from headrace.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMING = "spark.sql.streaming."
ROCKSDB = STREAMING + "stateStore.rocksdb."
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SHORT_LIVED = "-XX:TieredStopAtLevel=1"  # the second compiler never pays for itself
# Java's own choice, G1, costs a seventh of the CPU and more on heaps as small as ours; on large
# ones it stops for shorter.
COLLECTOR = "-XX:+UseParallelGC"
COLLECTOR_HEAP_MB_MAX = 4096
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
READ_ONCE, KEPT = "spark-defaults.conf", "settings.conf"
JAVA_READS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_COLLECTORS = re.compile(r"-XX:\+Use\w+GC\b")


@dataclass(frozen=True, slots=True)
class Default:
    key: str
    value: str
    why: str
    local_only: bool = False  # only where driver and executors are one machine


DEFAULTS: tuple[Default, ...] = (
    Default("spark.sql.session.timeZone", "UTC", "the same answer on every machine"),
    Default(
        "spark.sql.shuffle.partitions",
        "8",
        "Spark's 200 cost more than they give below a cluster; frozen with the first checkpoint",
    ),
    Default(
        STREAMING + "stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "state outside the heap: it may grow without stopping the driver",
    ),
    Default(
        ROCKSDB + "changelogCheckpointing.enabled", "true", "writes what changed, not all of it"
    ),
    Default(ROCKSDB + "boundedMemoryUsage", "true", "one limit for all state stores of a process"),
    Default(ROCKSDB + "maxMemoryUsageMB", "512", "that limit"),
    Default(
        STREAMING + "checkpointFileManagerClass",
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        "a third of the time per commit on local disks; object stores keep Spark's own choice",
        local_only=True,
    ),
    Default(
        TIMESTAMPS,
        "TIMESTAMP_MICROS",
        "INT96 is slow to write and has no statistics to skip files by; readers know both",
    ),
    Default("spark.scheduler.mode", "FAIR", "one pool a query: a heavy one cannot starve others"),
    Default(STREAMING + "stopTimeout", "30s", "Spark would wait for ever"),
    Default(STREAMING + "numRecentProgressUpdates", "10", "we keep the history ourselves"),
    Default("spark.driver.memory", "1g", "room for several queries; raise it with the load"),
    Default(
        JAVA_OPTIONS,
        "-Xss8m -XX:+ExitOnOutOfMemoryError",
        "stopping inside foreachBatch overflows a small stack; a half-dead JVM helps nobody",
    ),
    Default("spark.ui.enabled", "false", "no port is opened unless asked for"),
    Default("spark.ui.killEnabled", "false", "the UI has no login"),
    Default("spark.ui.retainedJobs", "50", "the UI's memory is sized for batch jobs"),
    Default("spark.ui.retainedStages", "50", "as above"),
    Default("spark.ui.retainedTasks", "1000", "as above"),
    Default("spark.sql.ui.retainedExecutions", "20", "as above"),
    Default(STREAMING + "ui.retainedQueries", "5", "as above"),
    Default("spark.ui.showConsoleProgress", "false", "the log is a file, not a terminal"),
    Default(
        "spark.redaction.regex",
        "(?i)secret|password|passwd|pwd|token|access[.]?key|account[.]?key|api[._]?key"
        "|routing[._]?key|keystore[.]key|webhook|jaas|credential|connection[._]?string",
        "Spark's own pattern misses half of these",
    ),
    Default("spark.driver.host", "127.0.0.1", "listens on loopback only", local_only=True),
    Default("spark.driver.bindAddress", "127.0.0.1", "as above", local_only=True),
)

LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.manager.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.manager.level = error
logger.delay.name = org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor
logger.delay.level = error
logger.stopping.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.stopping.level = error
logger.cancel.name = org.apache.spark.scheduler.DAGScheduler
logger.cancel.level = error
logger.pool.name = org.apache.spark.scheduler.FairSchedulableBuilder
logger.pool.level = error
logger.kafka.name = org.apache.kafka
logger.kafka.level = warn
logger.kafka.filter.burst.type = BurstFilter
logger.kafka.filter.burst.level = WARN
logger.kafka.filter.burst.rate = 0.1
logger.kafka.filter.burst.maxBurst = 20
"""

QUICK_PYTHON = """#!/bin/sh
PYTHONPATH=${{PYTHONPATH#*/python/lib/pyspark.zip:}}
PYTHONPATH=${{PYTHONPATH#*/python/lib/py4j-*-src.zip:}}
export PYTHONPATH
exec {python} "$@"
"""


def settings_of(
    pipeline: str,
    user: Mapping[str, str],
    *,
    run_dir: Path,
    cores: int,
    is_short: bool = False,
    java: str = "",
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What spark-defaults.conf will hold: ours underneath, the user's own on top. Pure.

    `is_short`: a JVM that only defines and ends; it leaves nothing in the project.
    `java`: options for this machine alone. `environment`: where Java may find some, too.
    """
    master = user.get("spark.master", f"local[{max(4, cores)}]")
    is_local = master.startswith("local")
    ours = {d.key: d.value for d in DEFAULTS if is_local or not d.local_only}
    ours |= {"spark.master": master, "spark.app.name": pipeline}
    if is_short:
        ours["spark.sql.warehouse.dir"] = (run_dir / "warehouse").as_uri()
    options = [ours[JAVA_OPTIONS], java, SHORT_LIVED if is_short else ""]
    theirs = user.get(JAVA_OPTIONS, "")
    found = ours | dict(user)
    if is_local and _heap_mb(found["spark.driver.memory"]) <= COLLECTOR_HEAP_MB_MAX:
        options.append(_collector(theirs, environment or {}))
    return found | {JAVA_OPTIONS: " ".join(o for o in (*options, theirs) if o)}


def _collector(theirs: str, environment: Mapping[str, str]) -> str:
    """Java refuses to start with two of them."""
    given = [theirs, *(environment.get(name, "") for name in JAVA_READS)]
    return "" if any(_COLLECTORS.search(text) for text in given) else COLLECTOR


def _heap_mb(memory: str) -> float:
    """As Spark reads it, megabytes where there is no unit; what it cannot read it refuses."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    return int(found[1]) * 1024.0 ** ("kmgt".index(found[2] or "m") - 1) if found else math.inf


def write_conf(
    folder: Path, settings: Mapping[str, str], given: Mapping[str, str] | None = None
) -> None:
    """`given` are the user's own as they wrote them, with references that `settings` resolves."""
    folder.mkdir(mode=0o700, exist_ok=True)
    unresolved = {key: value for key, value in (given or {}).items() if references.is_in(value)}
    for name, text in (
        (READ_ONCE, _properties(settings)),
        (KEPT, _properties({**settings, **unresolved})),
        ("log4j2.properties", LOG4J),
    ):
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def forget_secrets(folder: Path) -> None:
    """Spark has read its settings. Another Spark that the user's code may start gets the rest."""
    with contextlib.suppress(FileNotFoundError):
        (folder / READ_ONCE).unlink()
    told = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if told.startswith(_option(folder, READ_ONCE)):
        rest = told.removeprefix(_option(folder, READ_ONCE))
        os.environ["PYSPARK_SUBMIT_ARGS"] = _option(folder, KEPT) + rest


def _option(folder: Path, name: str) -> str:
    return f"--properties-file {shlex.quote(str(folder / name))} "


def _properties(settings: Mapping[str, str]) -> str:
    """As Java reads them: backslashes and line ends are escaped."""
    return "".join(f"{key} {_escape(value)}\n" for key, value in sorted(settings.items()))


def _quick_python(folder: Path) -> Path:
    """What starts a Python worker. Spark puts its own zip of PySpark first into PYTHONPATH, and
    Python compiles what it imports from there in every worker anew: five times the work of the
    installed one, which is the same. A worker that is late fails its query."""
    python, script = Path(sys.executable), folder / "python"
    spec, home = importlib.util.find_spec("pyspark"), os.environ.get("SPARK_HOME")
    installed = Path(spec.origin).parent if spec and spec.origin else None
    if installed is None or (home and Path(home).resolve() != installed.resolve()):
        return python  # somebody's own Spark: its zip may be another version
    script.touch(mode=0o700)
    script.write_text(QUICK_PYTHON.format(python=shlex.quote(str(python))))
    return script if os.access(script, os.X_OK) else python  # nothing is run from some disks


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def prepare_environment(folder: Path, python_path: tuple[Path, ...], *, is_local: bool) -> None:
    """For the JVM that is about to be launched and the Python workers below it."""
    ours = _option(folder, READ_ONCE)
    theirs = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell").removeprefix(ours)
    os.environ["PYSPARK_SUBMIT_ARGS"] = ours + theirs
    os.environ["LOG4J_CONFIGURATION_FILE"] = (folder / "log4j2.properties").absolute().as_uri()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ["PYSPARK_PYTHON"] = str(_quick_python(folder))
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    kept = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, python_path), *kept])


def start(packages: str = "") -> SparkSession:
    """Raises SetupError where the JVM does not come up; its own words are in the driver's log.
    `packages` are those that Spark has to resolve first."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.getOrCreate()
    except PySparkRuntimeError as exc:
        why = f"{exc} Its own output stands in the lines above this one."
        if packages:
            raise SetupError(
                f"Spark's JVM did not start; it had to resolve {packages} first.",
                why=why,
                fix="fetch the connector once, with Maven: headrace jars fetch kafka",
                slug="jars-unresolved",
            ) from exc
        raise SetupError(
            "Spark's JVM did not start.",
            why=why,
            fix="check `java -version` (17 or 21), the settings under [spark], and free memory",
            slug="jvm-did-not-start",
        ) from exc


def jvm_process(spark: SparkSession) -> Any:
    """The Popen of the JVM (spark-submit becomes java), or None if we did not start it."""
    return getattr(spark.sparkContext._gateway, "proc", None)


def is_jvm_gone(spark: SparkSession, within_s: float = 0.0) -> bool:
    process = jvm_process(spark)
    deadline = time.monotonic() + within_s
    while process is not None and process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return process is not None
