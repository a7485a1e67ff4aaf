"""`hr.session`: a Spark session for a notebook, with Headrace's defaults and the fetched jars."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, references
from headrace.connectors import jars
from headrace.driver import classes
from headrace.driver import session as sessions
from headrace.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_AND_START = "spark.stop(); spark = hr.session()"
JVM_END_S = 30.0


def session() -> SparkSession:
    """The session of this process. A new one has Headrace's defaults, the settings under [spark]
    in headrace.toml, and the jars that `headrace jars fetch` has fetched."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        running = SparkSession.builder.getOrCreate()
        _require_jars(running)
        return running
    _end_jvm(SparkContext)
    project = config.find_project(Path.cwd())
    settings = config.load(project, os.environ.get("HEADRACE_PROFILE") or config.DEV).spark
    user = {key: references.resolve(value) for key, value in settings.items()}
    conf = sessions.settings_of(
        "notebook",
        user | jars.settings(_fetched(), user),
        run_dir=_folder(),
        cores=os.cpu_count() or 1,
        java=classes.use(classes.kept()),
        environment=os.environ,
    )
    sessions.write_conf(_folder(), conf)
    is_local = conf["spark.master"].startswith("local")
    sessions.prepare_environment(_folder(), (), is_local=is_local)
    return sessions.start(conf.get(jars.PACKAGES, ""))


def _fetched() -> list[str]:
    """Names of the bundles that a session can load without the network."""
    return [name for name, one in jars.BUNDLES.items() if one.coordinate and jars.fetched(one)]


def _require_jars(running: SparkSession) -> None:
    loaded = {Path(one).name for one in jars.listed(running.conf.get("spark.jars", None) or "")}
    for name in _fetched():
        if not {path.name for path in jars.fetched(jars.BUNDLES[name])} <= loaded:
            raise SetupError(
                f"The Spark session that runs here was started without the jars of {name}.",
                why="Spark loads jars when its JVM starts.",
                fix=STOP_AND_START,
                slug="session-without-jars",
            )


def _end_jvm(context: Any) -> None:
    """A JVM outlives its sessions, and the next one would get it as it is, without our settings."""
    gateway = context._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return  # there is none, or it is not ours
    gateway.shutdown()
    process.stdin.close()
    process.wait(JVM_END_S)
    context._gateway = context._jvm = None


@functools.cache
def _folder() -> Path:
    """One for this process: PYSPARK_SUBMIT_ARGS names the file in it."""
    made = Path(tempfile.mkdtemp(prefix="headrace-session-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
