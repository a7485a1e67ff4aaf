"""`hr.session`: a Spark session for a notebook, with Headrace's defaults and the fetched jars."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, secrets
from headrace.connectors import jars
from headrace.driver import class_archive
from headrace.driver import session as sessions
from headrace.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_AND_START = "spark.stop(); spark = hr.session()"
JVM_END_S = 30.0


def session() -> SparkSession:
    """Return this process's Spark session, or start one with Headrace's defaults, the settings
    under [spark] in headrace.toml, and the jars from `headrace jars fetch`."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        running = SparkSession.builder.getOrCreate()
        _require_jars(running)
        return running
    _end_jvm(SparkContext)
    project = config.find_project(Path.cwd())
    settings = config.load(project, os.environ.get("HEADRACE_PROFILE") or config.DEV).spark
    user = {key: secrets.resolve(value) for key, value in settings.items()}
    conf = sessions.settings_of(
        "notebook",
        user | jars.settings(_list_fetched_bundles(), user),
        run_dir=_folder(),
        cores=os.cpu_count() or 1,
        java=class_archive.use(class_archive.default_path()),
        environment=os.environ,
    )
    sessions.write_conf(_folder(), conf)
    is_local = conf["spark.master"].startswith("local")
    sessions.prepare_environment(_folder(), (), is_local=is_local)
    return sessions.start(conf.get(jars.PACKAGES, ""))


def _list_fetched_bundles() -> list[str]:
    """Names of the bundles that a session can load without the network."""
    bundles = jars.BUNDLES.items()
    return [name for name, bundle in bundles if bundle.coordinate and jars.fetched_files(bundle)]


def _require_jars(running: SparkSession) -> None:
    loaded = {Path(jar).name for jar in jars.split_list(running.conf.get("spark.jars", None) or "")}
    for name in _list_fetched_bundles():
        if not {path.name for path in jars.fetched_files(jars.BUNDLES[name])} <= loaded:
            raise SetupError(
                f"The running Spark session was started without the {name} jars.",
                why="Spark loads jars when its JVM starts.",
                fix=STOP_AND_START,
                slug="session-without-jars",
            )


def _end_jvm(context: Any) -> None:
    """A JVM outlives its sessions, and a new session would reuse it without our settings."""
    gateway = context._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return  # there is no JVM, or another process started it
    gateway.shutdown()
    process.stdin.close()
    process.wait(JVM_END_S)
    context._gateway = context._jvm = None


@functools.cache
def _folder() -> Path:
    """One per process: PYSPARK_SUBMIT_ARGS names the file in it."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-session-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
