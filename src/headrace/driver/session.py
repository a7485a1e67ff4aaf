"""The Spark session of a run: our defaults, overridden by the user's settings.

Settings are passed in a properties file of the run (mode 0600). PySpark would pass a builder's
settings as arguments of spark-submit, where `ps` shows them to everyone, and with SPARK_CONF_DIR,
a folder on the class path, the JVM could not use the class archive.
Invariant: the file holds secrets and is deleted once Spark has read it. `settings.conf` next to it
stays, with references instead of secrets.
"""

from __future__ import annotations

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

from headrace import secrets
from headrace.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMING = "spark.sql.streaming."
ROCKSDB = STREAMING + "stateStore.rocksdb."
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SHORT_LIVED = "-XX:TieredStopAtLevel=1"  # the optimising compiler never pays off
# Java's default, G1, takes a seventh or more of the CPU on small heaps. On large heaps its pauses
# are shorter.
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
    local_only: bool = False  # only with a local master


DEFAULTS: tuple[Default, ...] = (
    Default("spark.sql.session.timeZone", "UTC", "the same results on every machine"),
    Default(
        "spark.sql.shuffle.partitions",
        "8",
        "Spark's default of 200 is for clusters; the number cannot change once a checkpoint exists",
    ),
    Default(
        STREAMING + "stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "keeps state outside the heap, so state can be larger than the heap",
    ),
    Default(
        ROCKSDB + "changelogCheckpointing.enabled", "true", "writes changes, not the whole state"
    ),
    Default(ROCKSDB + "boundedMemoryUsage", "true", "one memory limit for all state stores"),
    Default(
        ROCKSDB + "maxMemoryUsageMB", "512", "the memory limit for all state stores in a process"
    ),
    Default(
        STREAMING + "checkpointFileManagerClass",
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        "commits to local disks take a third of the time; object stores use Spark's default",
        local_only=True,
    ),
    Default(
        TIMESTAMPS,
        "TIMESTAMP_MICROS",
        "INT96 is slow to write and has no statistics for skipping files",
    ),
    Default("spark.scheduler.mode", "FAIR", "one pool per query, so no query starves the others"),
    Default(STREAMING + "stopTimeout", "30s", "Spark's default is to wait forever"),
    Default(STREAMING + "numRecentProgressUpdates", "10", "Headrace keeps the history itself"),
    Default("spark.driver.memory", "1g", "enough for several queries; increase it for more load"),
    Default(
        JAVA_OPTIONS,
        "-Xss8m -XX:+ExitOnOutOfMemoryError",
        "stopping inside foreachBatch overflows a small stack; a JVM that runs out of memory must"
        " exit",
    ),
    Default("spark.ui.enabled", "false", "opens no port by default"),
    Default(
        "spark.ui.killEnabled", "false", "the UI has no login, so it must not allow killing jobs"
    ),
    Default("spark.ui.retainedJobs", "50", "saves memory: Spark's defaults are for batch jobs"),
    Default("spark.ui.retainedStages", "50", "saves memory"),
    Default("spark.ui.retainedTasks", "1000", "saves memory"),
    Default("spark.sql.ui.retainedExecutions", "20", "saves memory"),
    Default(STREAMING + "ui.retainedQueries", "5", "saves memory"),
    Default("spark.ui.showConsoleProgress", "false", "the log is a file, not a terminal"),
    Default(
        "spark.redaction.regex",
        "(?i)secret|password|passwd|pwd|token|access[.]?key|account[.]?key|api[._]?key"
        "|routing[._]?key|keystore[.]key|webhook|jaas|credential|connection[._]?string",
        "Spark's default pattern misses half of these words",
    ),
    Default("spark.driver.host", "127.0.0.1", "listens on loopback only", local_only=True),
    Default("spark.driver.bindAddress", "127.0.0.1", "listens on loopback only", local_only=True),
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
    """The session's settings: our defaults, overridden by the user's. Pure.

    `is_short` is a JVM that only defines or runs SQL: it writes nothing to the project.
    `java` are Java options for this machine. `environment` may have Java options, too.
    """
    master = user.get("spark.master", f"local[{max(4, cores)}]")
    is_local = master.startswith("local")
    defaults = {d.key: d.value for d in DEFAULTS if is_local or not d.local_only}
    defaults |= {"spark.master": master, "spark.app.name": pipeline}
    if is_short:
        defaults["spark.sql.warehouse.dir"] = (run_dir / "warehouse").as_uri()
    options = [defaults[JAVA_OPTIONS], java, SHORT_LIVED if is_short else ""]
    user_options = user.get(JAVA_OPTIONS, "")
    settings = defaults | dict(user)
    if is_local and _heap_mb(settings["spark.driver.memory"]) <= COLLECTOR_HEAP_MB_MAX:
        options.append(_collector(user_options, environment or {}))
    return settings | {JAVA_OPTIONS: " ".join(o for o in (*options, user_options) if o)}


def _collector(user_options: str, environment: Mapping[str, str]) -> str:
    """Empty if the user chooses one: Java does not start with two garbage collectors."""
    texts = [user_options, *(environment.get(name, "") for name in JAVA_READS)]
    return "" if any(_COLLECTORS.search(text) for text in texts) else COLLECTOR


def _heap_mb(memory: str) -> float:
    """As Spark parses it, in megabytes by default. Spark itself refuses an invalid value."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    return int(match[1]) * 1024.0 ** ("kmgt".index(match[2] or "m") - 1) if match else math.inf


def write_conf(
    folder: Path, settings: Mapping[str, str], user: Mapping[str, str] | None = None
) -> None:
    """`user` are the user's settings with unresolved secret references."""
    folder.mkdir(mode=0o700, exist_ok=True)
    unresolved = {key: value for key, value in (user or {}).items() if secrets.is_in(value)}
    for name, text in (
        (READ_ONCE, _properties(settings)),
        (KEPT, _properties({**settings, **unresolved})),
        ("log4j2.properties", LOG4J),
    ):
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def forget_secrets(folder: Path) -> None:
    """Call it once Spark has read its settings. A second Spark, started by user code, gets them
    without secrets."""
    (folder / READ_ONCE).unlink(missing_ok=True)
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if arguments.startswith(_option(folder, READ_ONCE)):
        rest = arguments.removeprefix(_option(folder, READ_ONCE))
        os.environ["PYSPARK_SUBMIT_ARGS"] = _option(folder, KEPT) + rest


def _option(folder: Path, name: str) -> str:
    return f"--properties-file {shlex.quote(str(folder / name))} "


def _properties(settings: Mapping[str, str]) -> str:
    """In Java's properties format."""
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n") for k, v in settings.items()}
    return "".join(f"{key} {value}\n" for key, value in sorted(escaped.items()))


def _quick_python(folder: Path) -> Path:
    """A script that starts a Python worker with the installed PySpark. Spark puts a zip of PySpark
    first into PYTHONPATH, which every worker compiles again: five times the work, and a worker that
    starts too late fails its query."""
    python, script = Path(sys.executable), folder / "python"
    spec, home = importlib.util.find_spec("pyspark"), os.environ.get("SPARK_HOME")
    installed = Path(spec.origin).parent if spec and spec.origin else None
    if installed is None or (home and Path(home).resolve() != installed.resolve()):
        return python  # the user's own Spark may have a different version in its zip
    script.touch(mode=0o700)
    script.write_text(QUICK_PYTHON.format(python=shlex.quote(str(python))))
    return script if os.access(script, os.X_OK) else python  # the disk may be mounted noexec


def prepare_environment(folder: Path, python_path: tuple[Path, ...], *, is_local: bool) -> None:
    """For the JVM that starts next, and for its Python workers."""
    option = _option(folder, READ_ONCE)
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell").removeprefix(option)
    os.environ["PYSPARK_SUBMIT_ARGS"] = option + arguments
    os.environ["LOG4J_CONFIGURATION_FILE"] = (folder / "log4j2.properties").absolute().as_uri()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ["PYSPARK_PYTHON"] = str(_quick_python(folder))
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    kept = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, python_path), *kept])


def start(packages: str = "") -> SparkSession:
    """Raises SetupError if the JVM does not start. `packages` are those that Spark must resolve."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.getOrCreate()
    except PySparkRuntimeError as exc:
        why = f"{exc} The JVM's output is above this line."
        if packages:
            raise SetupError(
                f"Spark's JVM did not start, probably because it could not resolve {packages}.",
                why=why,
                fix="Check the package names and the network. For Kafka, run "
                "`headrace jars fetch kafka` once: it downloads the connector with Maven.",
                slug="jars-unresolved",
            ) from exc
        raise SetupError(
            "Spark's JVM did not start.",
            why=why,
            fix="Check `java -version` (it must be 17 or 21), the settings under [spark], and "
            "whether enough memory is free.",
            slug="jvm-did-not-start",
        ) from exc


def jvm_process(spark: SparkSession) -> Any:
    """The JVM's Popen, None if this process did not start it."""
    return getattr(spark.sparkContext._gateway, "proc", None)


def is_jvm_gone(spark: SparkSession, within_s: float = 0.0) -> bool:
    process = jvm_process(spark)
    deadline = time.monotonic() + within_s
    while process is not None and process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return process is not None
