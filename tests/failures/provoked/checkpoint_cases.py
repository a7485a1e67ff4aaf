"""Failures of checkpoints: a changed query, a second writer, damaged and missing files.

Headrace refuses to start on most damaged checkpoints that it can read itself. What Spark says about
them is caused on a file system that is remote to Headrace (`remote_checkpoints`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from headrace.model.runs import Exit
from provoked.case import provoked
from provoked.pipeline_stage import Stage

QUERY = """
def save(batch, batch_id):
    {save}

@hr.stream(to=hr.each_batch(save), trigger=hr.available_now(), mode="{mode}")
def out({inputs}):
    return {rows}
"""
FILES = """
@hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
def out(lines):
    return lines
"""
COUNT = 'lines.groupBy("value").count()'
ROWS = "lines"


def query(rows: str, *, save: str = "batch.count()", inputs: str = "lines") -> str:
    is_stateful = "groupBy" in rows
    mode = "update" if is_stateful else "append"
    return QUERY.format(rows=rows, save=save, inputs=inputs, mode=mode)


def changed(stage: Stage, before: str, after: str) -> Exit:
    """One batch by the first definition, then a restart by the second."""
    worked(stage, before)
    stage.give("b")
    return stage.run(after)


def worked(stage: Stage, code: str) -> None:
    if not stage.run_dirs:
        stage.give("a")
    ended = stage.run(code)
    assert ended.ending == "finished", f"it should have worked at first: {ended}"


@provoked("state-schema-changed", "human", "value", quick=True)
def grouping_column_changed(stage: Stage) -> Exit:
    """An aggregation is grouped by a different column."""
    return changed(stage, query(COUNT), query('lines.groupBy(F.length("value")).count()'))


@provoked("state-schema-changed", "human")
def aggregate_changed(stage: Stage) -> Exit:
    """An aggregation computes a different value."""
    other = 'lines.groupBy("value").agg(F.max("value"), F.count("*"))'
    return changed(stage, query(COUNT), query(other))


@provoked("stateful-operators-changed", "human", "dedupe")
def operator_added(stage: Stage) -> Exit:
    """A deduplication is added before an aggregation."""
    other = 'lines.dropDuplicates(["value"]).groupBy("value").count()'
    return changed(stage, query(COUNT), query(other))


@provoked("stateful-operators-changed", "human")
def aggregation_removed(stage: Stage) -> Exit:
    """An aggregation is removed."""
    return changed(stage, query(COUNT), query(ROWS))


@provoked("state-and-offsets-disagree", "human")
def aggregation_added(stage: Stage) -> Exit:
    """A query without state gets an aggregation."""
    return changed(stage, query(ROWS), query(COUNT))


PROCESSOR = """
from pyspark.sql.streaming import StatefulProcessor

class Echo(StatefulProcessor):
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timers):
        yield from rows

    def close(self):
        pass

@hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
def out(lines):
    return lines.groupBy("value").transformWithStateInPandas(
        Echo(), "value string", "append", "{time_mode}")
"""


@provoked("state-setting-changed", "human", "timeMode")
def time_mode_changed(stage: Stage) -> Exit:
    """A stateful processor gets a different time mode."""
    after = PROCESSOR.format(time_mode="processingTime")
    return changed(stage, PROCESSOR.format(time_mode="none"), after)


@provoked("sources-changed", "human", "from 1 to 2", quick=True)
def source_added(stage: Stage) -> Exit:
    """A second source is added."""
    (stage.folder / "more").mkdir()
    both = f'lines.union(spark.readStream.text("{stage.folder}/more"))'
    return changed(stage, query(ROWS), query(both, inputs="spark, lines"))


@provoked("source-kind-changed", "human")
def source_kind_changed(stage: Stage) -> Exit:
    """A source of files is replaced by Spark's rate source."""
    rate = 'spark.readStream.format("rate").load()'
    return changed(stage, query(ROWS), query(rate, inputs="spark"))


@provoked("two-writers", "human", "To find the other process", quick=True)
def second_writer(stage: Stage) -> Exit:
    """Another process writes the offsets of the next batch into the checkpoint."""
    stage.give("a")
    stage.give("b")
    offsets = stage.checkpoint / "offsets"
    other = f"__import__('shutil').copy('{offsets}/0', '{offsets}/1') if batch_id == 0 else None"
    return stage.run(query(ROWS, save=other))


@provoked("two-writers", "human")
def second_writer_of_the_file_list(stage: Stage) -> Exit:
    """Another process writes the next entry into the log of the files that were read."""
    stage.give("a")
    stage.give("b")
    log = stage.checkpoint / "sources" / "0"
    other = f"__import__('shutil').copy('{log}/0', '{log}/1') if batch_id == 0 else None"
    return stage.run(query(ROWS, save=other))


def state_files(stage: Stage) -> list[Path]:
    state = stage.checkpoint / "state" / "0"
    return [path for path in state.glob("[0-9]*/*") if path.is_file() and path.stat().st_size]


@provoked("state-file-lost", "retry-then-human", "orders/out/v1/state", quick=True)
def state_file_deleted(stage: Stage) -> Exit:
    """A state file of a remote checkpoint is deleted."""
    stage.remote_checkpoints()
    worked(stage, query(COUNT))
    for path in state_files(stage):
        path.unlink()
    stage.give("b")
    return stage.run(query(COUNT))


@provoked("checkpoint-state-missing", None, "state/0/0", "what to do:")
def state_file_deleted_locally(stage: Stage) -> Exit:
    """A state file of a local checkpoint is deleted: Headrace finds it first."""
    worked(stage, query(COUNT))
    for path in state_files(stage):
        path.unlink()
    stage.give("b")
    return stage.run(query(COUNT))


@provoked("state-file-lost", "retry-then-human")
def state_file_truncated(stage: Stage) -> Exit:
    """A state file is truncated."""
    worked(stage, query(COUNT))
    for path in state_files(stage):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    stage.give("b")
    return stage.run(query(COUNT))


@provoked("state-and-offsets-disagree", "human")
def state_folder_deleted(stage: Stage) -> Exit:
    """The state folder of a checkpoint is deleted."""
    worked(stage, query(COUNT))
    shutil.rmtree(stage.checkpoint / "state")
    stage.give("b")
    return stage.run(query(COUNT))


def damage(stage: Stage, file: str, code: str, *, batches: int = 1) -> Path:
    """Runs so many batches on a remote checkpoint; returns the file to be damaged."""
    stage.remote_checkpoints()
    for number in range(batches):
        stage.give(f"a{number}")
    worked(stage, code)
    stage.give("z")
    path = stage.checkpoint / file
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return path


@provoked("checkpoint-log-torn", "human")
def offsets_truncated(stage: Stage) -> Exit:
    """The newest offsets file of a remote checkpoint is truncated."""
    path = damage(stage, "offsets/0", query(ROWS))
    path.write_bytes(path.read_bytes()[:20])
    return stage.run(query(ROWS))


@provoked("checkpoint-log-torn", "human", "offsets/0")
def offsets_empty(stage: Stage) -> Exit:
    """The newest offsets file of a remote checkpoint is empty."""
    damage(stage, "offsets/0", query(ROWS)).write_bytes(b"")
    return stage.run(query(ROWS))


@provoked("checkpoint-log-torn", "human")
def file_list_truncated(stage: Stage) -> Exit:
    """The list of the files that were read is truncated in a remote checkpoint."""
    path = damage(stage, "sources/0/0", query(ROWS))
    path.write_bytes(path.read_bytes()[:20])
    return stage.run(query(ROWS))


@provoked("checkpoint-damaged", "human")
def checkpoint_bytes_changed(stage: Stage) -> Exit:
    """A byte of an offsets file changes on the disk."""
    stage.remote_checkpoints()
    worked(stage, query(ROWS))
    stage.give("z")
    path = stage.checkpoint / "offsets" / "0"
    path.write_bytes(path.read_bytes().replace(b"batchWatermarkMs", b"batchWatermarkNs"))
    return stage.run(query(ROWS))


@provoked("checkpoint-metadata-lost", "human", "checkpoints/orders/out/v1")
def metadata_deleted_remotely(stage: Stage) -> Exit:
    """The metadata file of a remote checkpoint is deleted."""
    damage(stage, "metadata", query(ROWS)).unlink()
    return stage.run(query(ROWS))


@provoked("sink-log-lost", "human", "data/out/_spark_metadata")
def sink_log_deleted(stage: Stage) -> Exit:
    """The log of a file sink is deleted, and the checkpoint is remote."""
    damage(stage, "metadata", FILES, batches=8)  # the tenth batch compacts the log
    shutil.rmtree(stage.folder / "data/out/_spark_metadata")
    return stage.run(FILES)


@provoked("checkpoint-offsets-damaged", None, "offsets/0", "what to do:", quick=True)
def offsets_truncated_locally(stage: Stage) -> Exit:
    """The newest offsets file of a local checkpoint is truncated: Headrace finds it first."""
    worked(stage, query(ROWS))
    path = stage.checkpoint / "offsets" / "0"
    path.write_bytes(path.read_bytes()[:20])
    return stage.run(query(ROWS))


@provoked("checkpoint-metadata-lost", None, "metadata", "what to do:")
def metadata_deleted(stage: Stage) -> Exit:
    """The metadata file of a local checkpoint is deleted: Headrace finds it first."""
    worked(stage, query(ROWS))
    (stage.checkpoint / "metadata").unlink()
    return stage.run(query(ROWS))
