"""Connectors with a real session: rows in, rows out, and refusals at read time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.errors import ConnectorError

pytestmark = pytest.mark.spark

ROWS = [("ada", 1), ("bob", 2)]


def ended(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "orc"])
def test_files_are_read_as_a_stream_and_written_once(spark: Any, tmp_path: Path, kind: str) -> None:
    source, target = str(tmp_path / "in"), str(tmp_path / "out")
    spark.createDataFrame(ROWS, "name string, n int").write.format(kind).save(source)
    made = getattr(hr, kind)
    sink = made(target, partition_by="n")
    frame = made(source, schema="name string, n int").read(spark)
    keep = str(tmp_path / "checkpoint")

    for _ in range(2):  # the second run finds nothing new
        ended(sink.attach(frame.writeStream, query="q", mode="append", checkpoint=keep))

    back = made(target, schema="name string, n int").read(spark, streaming=False)
    assert sorted(tuple(r) for r in back.collect()) == ROWS
    assert (tmp_path / "out" / "n=1").is_dir()


def test_parquet_knows_its_columns_itself(spark: Any, tmp_path: Path) -> None:
    source = str(tmp_path / "in")
    spark.createDataFrame(ROWS, "name string, n int").write.parquet(source)

    assert hr.parquet(source).read(spark).dtypes == [("name", "string"), ("n", "int")]


def refused(connector: Any, spark: Any) -> ConnectorError:
    with pytest.raises(ConnectorError) as caught:
        connector.read(spark)
    return caught.value


def test_json_without_a_schema_suggests_the_one_that_its_files_have(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "name": "ada"}\n')

    problem = refused(hr.json(tmp_path), spark)

    assert problem.code == "missing-schema"
    assert problem.fix == 'Add schema="id bigint, name string".'


def test_an_empty_folder_without_a_schema_says_what_to_write(spark: Any, tmp_path: Path) -> None:
    problem = refused(hr.parquet(tmp_path), spark)

    assert problem.code == "missing-schema"
    assert "no files to read the schema from" in str(problem.why)


def test_a_missing_folder_is_an_error_with_the_near_miss(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()

    problem = refused(hr.text(tmp_path / "incomming"), spark)

    assert (problem.code, problem.fix) == ("source-missing", "Did you mean 'incoming'?")


def test_a_rate_limit_takes_the_oldest_files_first(spark: Any, tmp_path: Path) -> None:
    import os

    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(["c", "a", "b"]):
        (folder / f"{name}.txt").write_text(f"{name}\n")
        os.utime(folder / f"{name}.txt", (1_700_000_000 + number, 1_700_000_000 + number))
    seen: list[list[str]] = []
    sink = hr.each_batch(lambda frame, batch: seen.append([r.value for r in frame.collect()]))

    frame = hr.text(folder, max_files=1).read(spark)
    keep = str(tmp_path / "c")
    ended(sink.attach(frame.writeStream, query="q", mode="append", checkpoint=keep))

    assert seen == [["c"], ["a"], ["b"]]


def test_each_row_of_an_object_opens_processes_and_closes(spark: Any, tmp_path: Path) -> None:
    folder, log = tmp_path / "in", str(tmp_path / "log")
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")

    class Writer:
        def open(self, partition: int, epoch: int) -> bool:
            self.file = open(log, "a")  # noqa: SIM115
            return True

        def process(self, row: Any) -> None:
            self.file.write(row.value + "\n")

        def close(self, error: Any) -> None:
            self.file.write("closed\n")
            self.file.close()

    frame = hr.text(folder).read(spark)
    sink = hr.each_row(Writer)
    keep = str(tmp_path / "c")
    ended(sink.attach(frame.writeStream, query="q", mode="append", checkpoint=keep))

    assert Path(log).read_text().splitlines() == ["one", "two", "closed"]


def test_a_memory_sink_is_a_table_named_like_the_query(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    frame = hr.text(tmp_path).read(spark)

    ended(hr.memory().attach(frame.writeStream, query="seen", mode="append", checkpoint=None))

    assert [r.value for r in spark.table("seen").collect()] == ["one"]


def test_rate_and_socket_cannot_be_read_as_a_batch(spark: Any) -> None:
    for connector in (hr.rate(1), hr.socket("127.0.0.1", 9)):
        with pytest.raises(ConnectorError) as caught:
            connector.read(spark, streaming=False)
        assert caught.value.code == "no-batch-read"


def test_a_secret_in_an_option_is_resolved_only_when_it_is_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TEST_SEPARATOR", ";")
    (tmp_path / "a.csv").write_text("ada;1\n")
    source = hr.csv(
        tmp_path, schema="name string, n int", options={"sep": "${env:MY_TEST_SEPARATOR}"}
    )

    rows = source.read(spark, streaming=False).collect()

    assert tuple(rows[0]) == ("ada", 1)
    assert source.options["sep"] == "${env:MY_TEST_SEPARATOR}"
