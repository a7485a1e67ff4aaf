"""Displays on a real session, outside of a notebook: rows, modes, failures, endings, and batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.connectors.connector import Connector
from headrace.errors import ConnectorError, DefinitionError, Error, SqlError
from headrace.notebook import rows as notebook_rows
from headrace.notebook.followed_query import StartedQuery

pytestmark = pytest.mark.spark

QUICK = "100ms"
DEADLINE_S = 60.0


def poll(what: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.05)


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("headrace-display-*"))


@pytest.fixture(autouse=True)
def nothing_left(spark: Any) -> Iterator[None]:
    """After every test: no query, and no folder that was not there before."""
    before = folders()
    yield
    assert [one.name for one in spark.streams.active] == []
    assert folders() - before == set()


@pytest.fixture
def orders(tmp_path: Path) -> Connector:
    made: Connector = hr.parquet(tmp_path / "orders")
    return made


def send(spark: Any, sink: Connector, *rows: tuple[str, int]) -> None:
    hr.write(spark.createDataFrame(list(rows), "item string, amount int").coalesce(1), sink)


def test_a_stream_is_followed_the_newest_rows_are_kept_and_stop_leaves_nothing(
    spark: Any, orders: Connector, capsys: pytest.CaptureFixture[str]
) -> None:
    before = folders()
    send(spark, orders, ("apples", 1), ("pears", 2))

    shown = hr.display(hr.read(spark, orders, stream=True), title="T", rows=3, every=QUICK)
    shown.wait()
    first = shown.rows
    send(spark, orders, ("plums", 3), ("figs", 4))
    shown.wait()

    assert [r["item"] for r in first] == ["apples", "pears"]
    assert [r["item"] for r in shown.rows] == ["pears", "plums", "figs"]
    assert len(folders() - before) == 1
    assert shown.query is not None
    assert shown.query.name.startswith("display_")
    shown.stop()
    shown.stop()  # once more changes nothing
    assert not shown.is_running
    assert not shown.query.isActive
    said = capsys.readouterr().out
    assert "apples  1" in said
    assert "figs   4\n(newest 3 rows)" in said
    assert said.endswith("T: Stopped\n")


def test_sql_over_a_view_of_a_stream_refreshes_by_itself(spark: Any, orders: Connector) -> None:
    send(spark, orders, ("apples", 1), ("pears", 2))
    hr.read(spark, orders, stream=True).createOrReplaceTempView("orders")

    text = "SELECT item, sum(amount) AS pieces FROM orders GROUP BY item ORDER BY pieces DESC"
    shown = hr.display(text, chart="bar", x="item", y="pieces", every=QUICK)
    shown.wait()
    first = shown.rows
    send(spark, orders, ("apples", 5))
    poll(lambda: shown.rows and shown.rows != first, "it does not refresh")
    shown.stop()

    assert first == [{"item": "pears", "pieces": 2}, {"item": "apples", "pieces": 1}]
    assert shown.rows == [{"item": "apples", "pieces": 6}, {"item": "pears", "pieces": 2}]
    assert list(shown.figure().data[0].y) == [6.0, 2.0]


def test_windows_are_shown_before_their_watermark_has_passed(spark: Any, orders: Connector) -> None:
    send(spark, orders, ("apples", 1))
    stream = hr.read(spark, orders, stream=True).selectExpr("timestamp'2026-01-05 10:00' AS at")
    from pyspark.sql import functions as F

    counted = stream.withWatermark("at", "1 hour").groupBy(F.window("at", "1 minute")).count()
    shown = hr.display(counted, every=QUICK).wait()
    shown.stop()

    assert [r["count"] for r in shown.rows] == [1]


def test_columns_of_any_name_and_type_can_be_shown(spark: Any) -> None:
    frame = spark.sql(
        "SELECT 1 AS a, 2 AS a, INTERVAL '3' MONTH AS i, parse_json('{\"k\":[1]}') AS v, "
        "repeat('x', 5000000) AS big, X'01ff' AS b, null AS nothing, struct(1 AS p) AS s, "
        "timestamp_micros(400000000000000000) AS far, map('k', 1) AS `we``ird.name`"
    )

    found = notebook_rows.read_frame(frame, 10)

    assert found.names[:2] == ("a", "a")
    assert found.names[-1] == "we`ird.name"
    values = dict(zip(found.names[2:], found.values[0][2:], strict=True))
    assert values["i"] == "INTERVAL '3' MONTH"
    assert values["v"] == '{"k":[1]}'
    assert values["big"].endswith("… (5,000,000 characters)")
    assert len(values["big"]) < 6_000
    assert values["far"] == 400000000000000000  # a year that Python has not


def test_the_same_columns_as_a_stream(spark: Any, orders: Connector) -> None:
    send(spark, orders, ("apples", 1))
    stream = hr.read(spark, orders, stream=True)

    shown = hr.display(stream.selectExpr("item", "item", "amount AS `a.b`"), every=QUICK).wait()
    shown.stop()

    assert shown.rows == [{"item": "apples", "a.b": 1}]


def test_a_batch_dataframe_is_shown_once(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shown = hr.display(spark.range(3), title="Numbers", rows=2)

    assert shown.query is None
    assert not shown.is_running
    assert capsys.readouterr().out == "Numbers\nid\n--\n0\n1\n(first 2 rows)\n"
    assert shown.wait() is shown
    shown.stop()


def test_a_query_of_the_user_is_watched_and_left_running(spark: Any, orders: Connector) -> None:
    send(spark, orders, ("apples", 1))
    stream = hr.read(spark, orders, stream=True)
    query = stream.writeStream.format("memory").queryName("kept").start()
    try:
        shown = hr.display(query).wait()
        rows = shown.rows
        shown.stop()

        assert rows == [{"item": "apples", "amount": 1}]
        assert not shown.is_running
        assert query.isActive

        again = hr.display(query)
        query.stop()
        poll(lambda: not again.is_running, "the end of the query is not noticed")
    finally:
        query.stop()
        spark.sql("DROP VIEW IF EXISTS kept")


def test_a_failing_query_is_explained(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # JSON: in Spark 4.2.0 a Python function right above a scan of Parquet never answers.
    orders = hr.json(tmp_path / "orders", schema="item string, amount int")
    send(spark, orders, ("apples", 1))
    from pyspark.sql.functions import udf

    broken = udf(lambda item: int(item), "int")

    shown = hr.display(hr.read(spark, orders, stream=True).select(broken("item")), every=QUICK)
    with pytest.raises(Error, match="apples") as failed:
        shown.wait()

    assert failed.value.code == "display-failed"
    assert failed.value.fix
    assert not shown.is_running
    said = capsys.readouterr().out
    assert "Failed\n" in said
    assert "  fix: " in said


def test_a_failure_is_drawn_when_it_is_raised_also_if_another_thread_draws_it(
    spark: Any, orders: Connector, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ended = StartedQuery.end

    def slowly(self: StartedQuery) -> None:
        time.sleep(0.5)  # Spark may take as long to stop a query
        ended(self)

    monkeypatch.setattr(StartedQuery, "end", slowly)
    send(spark, orders, ("apples", 1))
    stream = hr.read(spark, orders, stream=True)
    shown = hr.display(stream.selectExpr("raise_error(item)"), every=QUICK)
    poll(lambda: not shown.is_running, "the end of the query is not noticed")
    with pytest.raises(Error, match="apples"):
        shown.wait()
    assert "Failed\n" in capsys.readouterr().out


def test_what_cannot_be_shown_is_refused_before_anything_starts(
    spark: Any, orders: Connector
) -> None:
    send(spark, orders, ("apples", 1))
    stream = hr.read(spark, orders, stream=True)

    with pytest.raises(DefinitionError, match="unknown column") as unknown:
        hr.display(stream, chart="bar", x="itm", y="amount")
    with pytest.raises(DefinitionError, match="list"):
        hr.display([1, 2])

    assert unknown.value.fix == "Did you mean 'item'?"


# ---- hr.read and hr.write


def test_a_sink_by_its_name_and_relative_paths_count_from_the_project(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.toml").write_text(
        '[sinks.metrics]\nkind = "parquet"\npath = "data/metrics"\npartition_by = ["item"]\n'
        '[sources.lines]\nkind = "text"\npath = "lines"\n'
    )
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/a.txt").write_text("one\n")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")

    frame = spark.createDataFrame([("apples", 1)], "item string, amount int")
    hr.write(frame, "metrics")
    hr.write(frame, hr.parquet("data/metrics", partition_by="item"))

    assert hr.read(spark, "metrics").count() == 2
    assert (tmp_path / "data/metrics/item=apples").is_dir()
    assert [r.value for r in hr.read(spark, "lines").collect()] == ["one"]
    assert hr.read(spark, "lines", stream=True).isStreaming
    with pytest.raises(ConnectorError, match="Unknown sink 'metric'") as unknown:
        hr.write(frame, "metric")
    assert unknown.value.fix == "Did you mean 'metrics'?"
    with pytest.raises(ConnectorError, match="Expected a connector or a name"):
        hr.read(spark, 3)  # type: ignore[arg-type]


def test_what_hr_write_cannot_do_is_refused(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("apples", 1)], "item string, amount int")
    kept = hr.parquet(tmp_path / "kept")
    hr.write(frame, kept)
    stream = hr.read(spark, kept, stream=True)
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)

    def refused(rows: Any, sink: Any) -> str:
        with pytest.raises(Error) as error:
            hr.write(rows, sink)
        return error.value.code

    assert refused(stream, kept) == "stream-in-batch"
    assert refused([1], kept) == "not-a-dataframe"
    assert refused(frame, hr.parquet(tmp_path / "out")) == "sink-of-a-stream"
    assert refused(frame, hr.live()) == "no-batch-write"
    assert refused(frame, hr.text(tmp_path / "text")) == "sink-schema"
    assert refused(frame, hr.rate()) == "no-batch-write"


@pytest.mark.parametrize("nested", ["(" * 3000 + "1" + ")" * 3000, "- " * 100_000 + "1"])
def test_sql_that_is_nested_too_deeply_is_refused_in_words(spark: Any, nested: str) -> None:
    with pytest.raises(SqlError) as caught:
        hr.sql(f"SELECT {nested}", spark=spark)

    assert caught.value.code == "sql-too-deep"
