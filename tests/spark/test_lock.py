"""The kernel lock beside a checkpoint, held by the JVM, seen from outside of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import config
from headrace.driver import checkpoint_lock
from headrace.driver.events import EventsFile
from headrace.driver.running_queries import Claim, Queries
from headrace.errors import CheckpointError

pytestmark = pytest.mark.spark

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def jvm_pid(spark: SparkSession) -> int:
    return int(spark.sparkContext._gateway.proc.pid)


def test_the_jvm_is_the_holder_not_python(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint_lock.take(spark, str(tmp_path / "q" / "v1"))

    assert checkpoint_lock.holder_pid(tmp_path / "q" / "v1.lock") == jvm_pid(spark)


def test_a_lock_held_elsewhere_is_refused_and_the_holder_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "v1.lock"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == b"held\n"
    try:
        with pytest.raises(CheckpointError, match=f"process {other.pid}") as caught:
            checkpoint_lock.take(spark, str(tmp_path / "v1"))
    finally:
        other.stdin.close()
        other.stdout.close()
        other.wait()

    assert caught.value.code == "checkpoint-held"
    assert caught.value.exit_code == 3


def test_a_lock_of_ours_is_kept_when_it_is_taken_again(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint_lock.take(spark, str(tmp_path / "v1"))

    checkpoint_lock.take(spark, (tmp_path / "v1").as_uri())

    assert checkpoint_lock.holder_pid(tmp_path / "v1.lock") == jvm_pid(spark)


def test_two_queries_of_one_run_cannot_have_one_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    ours = Queries(spark, EventsFile(tmp_path / "events.jsonl"))
    ours.claim(spark, str(tmp_path / "v1"), Claim("project", "pipeline", "one"))

    with pytest.raises(CheckpointError) as caught:
        ours.claim(spark, (tmp_path / "v1").as_uri(), Claim("project", "pipeline", "two"))

    assert caught.value.code == "checkpoint-shared"
    assert checkpoint_lock.holder_pid(tmp_path / "v1.lock") == jvm_pid(spark), (
        "the first keeps its lock"
    )


def test_a_place_that_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(CheckpointError) as caught:
        checkpoint_lock.take(spark, str(tmp_path / "file" / "v1"))

    assert caught.value.code == "checkpoint-unwritable"
    assert str(tmp_path / "file") in caught.value.what


def test_an_object_store_has_no_kernel_lock(spark: SparkSession) -> None:
    checkpoint_lock.take(spark, "s3a://bucket/checkpoints/q/v1")

    assert config.local_path("s3a://bucket/checkpoints/q/v1") is None


@pytest.mark.parametrize("uri", ["file:///srv/a%20b/v1", "file:/srv/a%20b/v1", "/srv/a%20b/v1"])
def test_a_file_uri_is_read_as_hadoop_reads_it(uri: str) -> None:
    assert config.local_path(uri) == Path("/srv/a%20b/v1")
