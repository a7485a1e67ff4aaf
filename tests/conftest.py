"""Two promises of the whole suite: under CI nothing is skipped, and no process is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import uuid
from collections.abc import Generator
from typing import Any

import psutil
import pytest
from hypothesis import settings

from headrace import process_identity
from headrace.connectors import jars
from headrace.driver import class_archive

MARKER = "HEADRACE_TEST_SESSION"  # inherited by every child, also by detached ones
# Test JVMs live for seconds: the second compiler never pays for itself. Halves their CPU time.
# With one compiler Java keeps 48 MB for code, which the demo fills in a minute: then Spark stops.
ONE_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
QUICK_JAVA = (f"{ONE_COMPILER} -XX:+UseSerialGC", class_archive.use(class_archive.default_path()))
GRACE_S = 15.0  # a JVM whose Python is gone ends by itself within a few seconds

# A busy machine is no failure of what is tested. `make quick` looks at fewer examples.
settings.register_profile("headrace", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("headrace")


def pytest_configure(config: pytest.Config) -> None:
    os.environ[MARKER] = uuid.uuid4().hex
    # Children inherit what is ignored, as below nohup; what a closed terminal does is tested.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", " ".join(QUICK_JAVA))
    os.environ.setdefault("HEADRACE_WEB", "off")  # a process more a run; its own tests want it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first: two workers then end at about the same time."""
    items.sort(key=lambda i: (not i.get_closest_marker("e2e"), not i.get_closest_marker("spark")))


def under_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if under_ci() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, where nothing may be: {report.longrepr}"
    # What a test logs may be no text (a file name's bytes); between workers only text can travel.
    report.sections = [
        (name, said.encode(errors="backslashreplace").decode()) for name, said in report.sections
    ]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if under_ci() and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, where nothing may be: {report.longrepr}"
    return report


def left_behind(marker: str) -> list[psutil.Process]:
    """Living processes that carry this session's marker, apart from this one."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process_identity.environment(process.pid).get(MARKER) == marker
            if is_ours and process.pid != os.getpid() and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="session", autouse=True)
def nobody_left() -> Generator[None, None, None]:
    """Set up first, so torn down last, in every worker: an error of the last test there."""
    yield
    deadline = time.monotonic() + GRACE_S
    while (left := left_behind(os.environ[MARKER])) and time.monotonic() < deadline:
        time.sleep(0.2)
    lines = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            lines.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
            process.kill()  # carries our marker: a child of this very session
    if lines:
        pytest.fail("processes left behind by the tests (now killed):\n" + "\n".join(lines))


@pytest.fixture(scope="session")
def spark() -> Generator[Any, None, None]:
    """One small local session for all tests that need one; its JVM ends with them."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("headrace-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-Xss8m")
        .config("spark.jars", ",".join(map(str, jars.fetched_files(jars.BUNDLES["kafka"]))))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("FATAL")
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM reads its standard input, and ends with it
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
