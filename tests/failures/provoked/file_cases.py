"""Failures of input files, disks and of the query's own definition."""

from __future__ import annotations

import contextlib
import gzip
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.runs import Exit
from provoked.case import provoked
from provoked.checkpoint_cases import FILES, ROWS, query, worked
from provoked.code_cases import each_batch
from provoked.pipeline_stage import Stage

TABLE = """
@hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
def out(spark):
    return (spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
            .parquet("{folder}/tables"))
"""


@provoked("input-file-gone", "data", "incoming/a", quick=True)
def input_deleted_before_it_is_read(stage: Stage) -> Exit:
    """An input file is deleted after its batch was planned, before it is read."""
    return each_batch(stage, "import os\nos.unlink('incoming/a')\nbatch.collect()")


@provoked("input-vanished", "human", "incoming/b")
def input_deleted_before_its_batch(stage: Stage) -> Exit:
    """An input file is deleted after the folder was listed, before its batch is planned."""
    stage.give("a")
    stage.give("b")
    delete = "batch_id == 0 and __import__('os').unlink('incoming/b')"
    return stage.run(query(ROWS, save=f"batch.count(), {delete}"))


@provoked("input-schemas-differ", "human", "id")
def parquet_files_of_two_schemas(stage: Stage) -> Exit:
    """A Parquet file has text where the query expects numbers."""
    _table(stage, "a", [1, 2])
    worked(stage, TABLE.format(folder=stage.folder))
    _table(stage, "b", ["one", "two"])
    return stage.run(TABLE.format(folder=stage.folder))


def _table(stage: Stage, name: str, ids: list[object]) -> Path:
    folder = stage.folder / "tables"
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": ids}), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


@provoked("input-file-damaged", "data", "tables/a.parquet")
def parquet_file_truncated(stage: Stage) -> Exit:
    """A Parquet file is truncated."""
    path = _table(stage, "a", [1, 2])
    path.write_bytes(path.read_bytes()[:-20])
    return stage.run(TABLE.format(folder=stage.folder))


@provoked("input-file-damaged", "data", "tables/a.parquet")
def file_that_is_not_parquet(stage: Stage) -> Exit:
    """A file with a different format is in a folder of Parquet files."""
    _table(stage, "a", [1]).write_text("id\n1\n2\n")
    return stage.run(TABLE.format(folder=stage.folder))


@provoked("input-file-damaged", "data", "a.txt.gz")
def compressed_file_truncated(stage: Stage) -> Exit:
    """A compressed text file is truncated."""
    folder = stage.folder / "incoming"
    folder.mkdir()
    whole = gzip.compress("".join(f"line {n}\n" for n in range(5000)).encode())
    (folder / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    return stage.run(FILES)


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "1m") -> Iterator[Path]:
    """A disk of its own, so that root too can meet a full or a read-only one."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file: Path) -> None:
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)


@provoked("disk-full", "retry", "data/out", quick=True)
def disk_of_the_sink_full(stage: Stage) -> Exit:
    """The disk of a file sink is full."""
    with small_disk(stage.folder / "data") as disk:
        fill(disk / "filler")
        stage.give("a")
        return stage.run(FILES)


@provoked("disk-full", "retry")
def disk_of_the_checkpoint_full(stage: Stage) -> Exit:
    """The disk of the checkpoint becomes full during a batch."""
    with small_disk(stage.folder / "checkpoints") as disk:
        stage.give("a")
        body = (
            "from contextlib import suppress\n"
            f"with suppress(OSError), open('{disk}/filler', 'wb', buffering=0) as out:\n"
            "    while True:\n"
            "        out.write(b'x' * 4096)\n"
        )
        return each_batch(stage, body)


@provoked("disk-full", "retry", "pipelines/orders.py")
def disk_of_a_function_full(stage: Stage) -> Exit:
    """A function for each batch writes to a full disk."""
    with small_disk(stage.folder / "own") as disk:
        fill(disk / "filler")
        return each_batch(stage, "from pathlib import Path\nPath('own/x').write_text('x' * 9000)")


@provoked("disk-read-only", "human", "data")
def disk_of_the_sink_read_only(stage: Stage) -> Exit:
    """The disk of a file sink is mounted read-only, as after an error of the disk."""
    with small_disk(stage.folder / "data") as disk:
        stage.give("a")
        worked(stage, FILES)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        stage.give("b")
        return stage.run(FILES)


@provoked("access-denied", "human", "Permission denied", "secret.txt")
def file_that_others_own(stage: Stage) -> Exit:
    """A UDF reads a file that its user may not read."""
    secret = stage.folder / "secret.txt"
    secret.write_text("x")
    secret.chmod(0o600)
    body = f"""
        def read(value):
            import os
            os.seteuid(65534)
            try:
                return open("{secret}").read()
            finally:
                os.seteuid(0)

        @hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
        def out(lines):
            return lines.select(F.udf(read)("value"))
        """
    stage.give("a")
    return stage.run(body)


@provoked("definition-not-supported", "human", "`prise`", "pipelines/orders.py:5")
def column_missing_in_each_batch(stage: Stage) -> Exit:
    """A function for each batch selects a column that does not exist."""
    return each_batch(stage, "batch.select('prise').count()")


@provoked("definition-not-supported", "human", "no_such_table")
def table_missing_in_each_batch(stage: Stage) -> Exit:
    """A function for each batch reads a table that does not exist."""
    return each_batch(stage, "batch.sparkSession.table('no_such_table').count()")


@provoked("input-file-gone", "data", "nothing-here")
def folder_missing_in_each_batch(stage: Stage) -> Exit:
    """A function for each batch reads a folder that does not exist."""
    return each_batch(stage, "batch.sparkSession.read.text('nothing-here').count()")


@provoked("library-missing", "human", "delta")
def format_without_its_jar(stage: Stage) -> Exit:
    """A function for each batch writes to Delta, and its jar is missing."""
    return each_batch(stage, "batch.write.format('delta').save('data/delta')")


@provoked("library-missing", "human", "org.postgresql.Driver")
def jdbc_without_its_driver(stage: Stage) -> Exit:
    """A function for each batch writes to PostgreSQL by JDBC, and the driver is missing."""
    options = (
        "url='jdbc:postgresql://127.0.0.1:1/shop', dbtable='t', driver='org.postgresql.Driver'"
    )
    return each_batch(stage, f"batch.write.format('jdbc').options({options}).save()")


@provoked("library-missing", "human", "No suitable driver")
def jdbc_without_any_driver(stage: Stage) -> Exit:
    """A function for each batch reads by JDBC, and no driver knows the address."""
    options = "url='jdbc:postgresql://127.0.0.1:1/shop', dbtable='t'"
    return each_batch(stage, f"batch.sparkSession.read.format('jdbc').options({options}).load()")


@provoked("duplicate-query-name", "human", "twin")
def two_queries_of_one_name(stage: Stage) -> Exit:
    """A function for each batch starts two queries with the same name."""
    return each_batch(
        stage,
        "rate = batch.sparkSession.readStream.format('rate').load()\n"
        "for _ in range(2):\n"
        "    rate.writeStream.format('noop').queryName('twin').start()",
    )


@provoked("definition-not-supported", "human", "checkpointLocation")
def query_without_checkpoint(stage: Stage) -> Exit:
    """A function for each batch starts a query without a checkpoint."""
    return each_batch(
        stage,
        "rate = batch.sparkSession.readStream.format('rate').load()\n"
        "rate.writeStream.format('parquet').start('data/rate')",
    )


@provoked("definition-not-supported", "human", "watermark")
def append_without_watermark(stage: Stage) -> Exit:
    """A function for each batch starts an aggregation in append mode without a watermark."""
    return each_batch(
        stage,
        "import os\n"
        "rate = batch.sparkSession.readStream.format('rate').load().groupBy('value').count()\n"
        "own = os.path.abspath('own')\n"
        "rate.writeStream.format('noop').option('checkpointLocation', own).start()",
    )


@provoked("query-already-starting", "retry-then-human")
def query_started_twice(stage: Stage) -> Exit:
    """A function for each batch starts the same query twice."""
    stage.settings["spark.sql.streaming.stopActiveRunOnRestart"] = "false"
    return each_batch(
        stage,
        "import os\n"
        "rate = batch.sparkSession.readStream.format('rate').load()\n"
        "own = os.path.abspath('own')\n"
        "for _ in range(2):\n"
        "    rate.writeStream.format('noop').option('checkpointLocation', own).start()",
    )


@provoked("bridge-stuck", "retry")
def query_that_does_not_stop(stage: Stage) -> Exit:
    """A function for each batch stops a query that is busy for longer than the stop timeout."""
    stage.settings["spark.sql.streaming.stopTimeout"] = "100ms"
    return each_batch(
        stage,
        "import os, threading, time\n"
        "begun = threading.Event()\n"
        "def busy(rows, number):\n"
        "    begun.set()\n"
        "    time.sleep(4)\n"
        "rate = batch.sparkSession.readStream.format('rate').load()\n"
        "own = os.path.abspath('own')\n"
        "query = rate.writeStream.foreachBatch(busy).option('checkpointLocation', own).start()\n"
        "assert begun.wait(60)\n"
        "query.stop()",
    )
