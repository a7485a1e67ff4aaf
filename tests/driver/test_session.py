from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.driver import session

RUN = Path("/state/runs/r1")


PYSPARK = Path(str(importlib.util.find_spec("pyspark").origin)).parent  # type: ignore[union-attr]


def test_the_user_s_own_settings_win_over_our_defaults() -> None:
    found = session.settings_of("p", {"spark.sql.shuffle.partitions": "3"}, run_dir=RUN, cores=2)

    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_java_options_of_the_user_are_added_to_ours() -> None:
    user = {"spark.driver.extraJavaOptions": "-Dx=y"}

    found = session.settings_of("p", user, run_dir=RUN, cores=2)

    assert found["spark.driver.extraJavaOptions"].startswith("-Xss8m")
    assert found["spark.driver.extraJavaOptions"].endswith("-Dx=y")


OPTIONS = "spark.driver.extraJavaOptions"
MEMORY = "spark.driver.memory"


@pytest.mark.parametrize(
    ("user", "environment", "is_ours"),
    [
        ({}, {}, True),
        ({OPTIONS: "-XX:+UseStringDeduplication -Dx=y"}, {}, True),
        ({OPTIONS: "-XX:+UseG1GC"}, {}, False),
        ({}, {"JAVA_TOOL_OPTIONS": "-Xmx2g -XX:+UseZGC"}, False),
        ({MEMORY: "4g"}, {}, True),
        ({MEMORY: "4096"}, {}, True),
        ({MEMORY: "5g"}, {}, False),
        ({MEMORY: "1t"}, {}, False),
        ({MEMORY: "much"}, {}, False),
        ({"spark.master": "spark://h:7077"}, {}, False),
    ],
)
def test_a_small_heap_has_the_cheap_collector_unless_another_is_chosen(
    user: dict[str, str], environment: dict[str, str], is_ours: bool
) -> None:
    found = session.settings_of("p", user, run_dir=RUN, cores=2, environment=environment)

    assert (session.COLLECTOR in found[OPTIONS]) == is_ours


def test_local_mode_has_at_least_four_slots_and_one_a_core() -> None:
    assert session.settings_of("p", {}, run_dir=RUN, cores=2)["spark.master"] == "local[4]"
    assert session.settings_of("p", {}, run_dir=RUN, cores=16)["spark.master"] == "local[16]"


def test_a_cluster_keeps_spark_s_choice_where_ours_is_for_local_disks() -> None:
    found = session.settings_of("p", {"spark.master": "spark://h:7077"}, run_dir=RUN, cores=2)

    assert "spark.sql.streaming.checkpointFileManagerClass" not in found
    assert "spark.driver.bindAddress" not in found


def test_settings_are_written_for_the_owner_only(tmp_path: Path) -> None:
    session.write_conf(tmp_path / "conf", {"spark.x.password": "a\\b"})

    path = tmp_path / "conf" / "spark-defaults.conf"
    assert path.read_text() == "spark.x.password a\\\\b\n"
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_secrets_are_gone_once_spark_has_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name x pyspark-shell")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("LOG4J_CONFIGURATION_FILE", "")
    conf, given = {"spark.a": "1", "spark.x": "s3cret"}, {"spark.x": "${env:X}"}
    session.write_conf(tmp_path, conf, given)
    session.prepare_environment(tmp_path, (), is_local=False)

    session.forget_secrets(tmp_path)
    session.forget_secrets(tmp_path)

    assert not any("s3cret" in path.read_text() for path in tmp_path.iterdir())
    kept = tmp_path / "settings.conf"
    assert kept.read_text() == "spark.a 1\nspark.x ${env:X}\n"
    expected = f"--properties-file {kept} --name x pyspark-shell"
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == expected


def test_every_default_says_why_and_stands_once() -> None:
    keys = [d.key for d in session.DEFAULTS]

    assert all(d.why for d in session.DEFAULTS)
    assert len(keys) == len(set(keys))


def test_a_python_worker_imports_the_pyspark_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, said = started_by(monkeypatch, tmp_path)

    assert found.stat().st_mode & 0o777 == 0o700
    assert said == [str(PYSPARK / "__init__.py"), sys.executable, "/of/the/user"]


def test_a_spark_of_the_user_s_own_keeps_its_own_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    found, said = started_by(monkeypatch, tmp_path)

    assert found == Path(sys.executable)
    assert said[0] == str(PYSPARK / "python/lib/pyspark.zip/pyspark/__init__.py")


def test_on_a_disk_from_which_nothing_is_run_python_is_started_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.os, "access", lambda path, mode: False)

    assert started_by(monkeypatch, tmp_path)[0] == Path(sys.executable)


def started_by(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[Path, list[str]]:
    """What workers are started with, and what one imports when Spark starts it."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP",
                 "PYTHONPATH", "LOG4J_CONFIGURATION_FILE"):  # fmt: skip
        monkeypatch.setenv(name, os.environ.get(name, ""))  # so that they are put back
    session.prepare_environment(folder, (), is_local=True)
    found = os.environ["PYSPARK_PYTHON"]
    zips = [*(PYSPARK / "python" / "lib").glob("pyspark.zip")]
    zips += (PYSPARK / "python" / "lib").glob("py4j-*-src.zip")
    code = "import sys, pyspark; print(pyspark.__file__, sys.executable, sys.path[1], sep='\\n')"
    path = os.pathsep.join(map(str, (*zips, "/of/the/user")))
    done = subprocess.run(
        [found, "-c", code], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Path(found), done.stdout.splitlines()
