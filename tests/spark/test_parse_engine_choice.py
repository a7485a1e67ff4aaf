"""Which engine opens the records of a view, what is refused, and going from one to the other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from building import built, drained, problems

from headrace.transforms import build_notes
from headrace.transforms.build_notes import BuildNotes
from headrace.transforms.parse import parse_json
from headrace.transforms.record_parser import OBSERVED

pytestmark = pytest.mark.spark

TOML = """
[sources.logs]
kind = "kafka"
servers = "127.0.0.1:9"
subscribe = "logs"
[sources.lines]
kind = "text"
path = "lines"
[sinks.beats]
kind = "kafka"
servers = "127.0.0.1:9"
topic = "beats"
"""
VIEWS = """
@hr.view
def history(logs):
    return hr.parse_json(logs, "id int", quarantine=False)

@hr.view
def beats(logs):
    return hr.parse_json(logs, "id int", quarantine=False)

@hr.stream(to=hr.parquet("data/history"))
def kept(history):
    return history

@hr.stream(to=hr.parquet("data/beats"))
def kept_beats(beats):
    return beats

@hr.stream(to="beats", trigger=hr.real_time("1 minute", otherwise="2 seconds"))
def sent():
    return "SELECT CAST(id AS STRING) AS value FROM beats"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headrace.toml").write_text(TOML)
    (tmp_path / "lines").mkdir()
    return tmp_path


def engines(result: Any) -> dict[str, tuple[str, ...]]:
    return {node.name: node.engines for node in result.nodes if node.engines}


def test_a_broker_is_read_by_arrow_but_not_for_a_query_in_real_time(
    spark: Any, folder: Path
) -> None:
    result = built(spark, folder, VIEWS)

    assert engines(result) == {"history": ("arrow",), "beats": ("spark",)}
    assert [one.query.name for one in result.planned] == ["kept", "kept_beats", "sent"]


def test_a_view_of_a_query_in_real_time_has_no_python_whoever_asks_first(
    spark: Any, folder: Path
) -> None:
    code = """
        @hr.view
        def opened(logs):
            return hr.parse_json(logs, "id int", quarantine=False)

        @hr.stream(to="beats", every="1 second")
        def first(opened):
            return opened.selectExpr("CAST(id AS STRING) AS value")

        @hr.stream(to=hr.kafka("127.0.0.1:9", topic="a"), trigger=hr.real_time("1 minute"))
        def again(first):
            return first.select("value")

        @hr.stream(to=hr.kafka("127.0.0.1:9", topic="b"), trigger=hr.real_time("1 minute"))
        def late(opened):
            return opened.selectExpr("CAST(id AS STRING) AS value")
        """
    assert engines(built(spark, folder, code)) == {"opened": ("spark",)}


@pytest.mark.parametrize(("asked", "used"), [("auto", "spark"), ("arrow", "arrow")])
def test_a_cluster_uses_arrow_only_if_the_user_asks_for_it(
    spark: Any, asked: str, used: str
) -> None:
    elsewhere = BuildNotes(is_from_brokers=True, is_local=False)
    records = spark.createDataFrame([("{}",)], "value string")

    with build_notes.taking(elsewhere):
        parse_json(records, "id int", quarantine=False, engine=asked)

    assert elsewhere.engines == [used]


@pytest.mark.parametrize(
    ("call", "engine"),
    [
        ('hr.parse_json(logs, "id int, at timestamp NOT NULL")', "arrow"),
        ('hr.parse_json(logs, "id int", keep=["key", "topic", "offset"])', "arrow"),
        ('hr.parse_json(logs, "id int", engine="spark")', "spark"),
        ('hr.parse_json(logs, "id decimal(5,2)")', "spark"),
        ('hr.parse_json(logs, "id array<int>")', "spark"),
        ('hr.parse_json(logs, "id int, `ü` int")', "spark"),
        ('hr.parse_json(logs, "id int", options={"allowComments": True})', "spark"),
        ('hr.parse_json(logs.withWatermark("timestamp", "1 hour"), "id int", keep="timestamp")',
         "spark"),
        ('hr.parse_json(lines, "id int")', "spark"),
        ('hr.parse_json(lines, "id int", engine="arrow")', "arrow"),
        ('hr.parse_json(logs.select("value").union(lines.select("value")), "id int")', "spark"),
    ],
)  # fmt: skip
def test_the_engine_is_chosen_where_it_is_sure_and_pays(
    spark: Any, folder: Path, call: str, engine: str
) -> None:
    names = [name for name in ("logs", "lines") if f"({name}" in call]
    code = f"""
        @hr.stream(to=hr.parquet("data/out"))
        def kept({", ".join(names)}):
            return {call}
        """
    assert engines(built(spark, folder, code))["kept"] == (engine,)


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (
            'hr.parse_json(lines, "id int", engine="polars")',
            "Invalid engine for hr.parse_json: 'polars'",
        ),
        ('hr.parse_json(lines, "id map<string,int>", engine="arrow")', "id has type map<"),
        ('hr.parse_json(lines, "id int", engine="arrow", options={"a": 1})', "options="),
    ],
)
def test_an_engine_that_cannot_be_had_is_told_with_the_reason(
    spark: Any, folder: Path, view: str, says: str
) -> None:
    code = f"""
        @hr.stream(to=hr.memory())
        def kept(lines):
            return {view}
        """
    (found,) = problems(spark, folder, code)
    assert found.code == "bad-engine"
    assert says in found.what


def test_arrow_is_refused_below_a_query_in_real_time(spark: Any, folder: Path) -> None:
    code = VIEWS.replace("quarantine=False)", 'quarantine=False, engine="arrow")')
    (found,) = problems(spark, folder, code)
    assert found.code == "bad-engine"
    assert "real-time" in found.what
    assert "orders.py:" in str(found.where)


def code(engine: str) -> str:
    return f"""
        @hr.view
        def records(lines):
            return hr.parse_json(lines, "at timestamp, name string NOT NULL", engine="{engine}")

        @hr.stream(to=hr.memory(), mode="update")
        def counted(records):
            return (records.withWatermark("at", "1 hour")
                .groupBy(F.window("at", "1 minute"), "name").count())

        @hr.stream(to=hr.parquet("data/rows"))
        def rows(records):
            return records
        """


LINES = (
    '{"at": "2026-01-01T10:00:00Z", "name": "a"}\n{"at": "2026-01-01T10:00:01Z", "name": "b"}\n'
    '{"at": "2026-01-01T12:00:02+02:00", "name": "a"}\n{"at": "2026-01-01T10:00:03Z"}\noops\n'
)


def test_a_query_goes_on_with_the_other_engine_and_back(spark: Any, folder: Path) -> None:
    counts: list[dict[str, int]] = []

    def count(frame: Any, batch: int) -> None:
        if rows := frame.collect():
            counts.append({row.name: row["count"] for row in rows})

    for number, engine in enumerate(("spark", "arrow", "spark")):
        (folder / "lines" / f"{number}.txt").write_text(LINES)
        planned = {one.query.name: one for one in built(spark, folder, code(engine)).planned}
        writers = {
            "counted": planned["counted"].frame.writeStream.foreachBatch(count),
            "rows": planned["rows"].frame.writeStream.option("path", str(folder / "data/rows")),
        }
        for name, writer in writers.items():
            mode = planned[name].query.mode
            writer = writer.outputMode(mode).option("checkpointLocation", str(folder / name))
            assert writer.trigger(availableNow=True).start().awaitTermination(120)

    assert counts == [{"a": 2, "b": 1}, {"a": 4, "b": 2}, {"a": 6, "b": 3}]
    assert spark.read.parquet(str(folder / "data/rows")).count() == 9


def test_the_quarantine_is_the_same_and_counts_the_same(spark: Any, folder: Path) -> None:
    (folder / "lines" / "one.txt").write_text(LINES)
    kept = {}
    for engine in ("spark", "arrow"):
        result = built(spark, folder, code(engine))
        hidden = next(one for one in result.planned if one.query.name == "records.quarantine")
        query = (
            hidden.frame.writeStream.format("memory")
            .queryName(f"bad_{engine}")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        (counted,) = [p["observedMetrics"][OBSERVED] for p in query.recentProgress]
        assert (counted["rows"], counted["bad"]) == (5, 2)
        rows = spark.table(f"bad_{engine}").drop("at").collect()
        kept[engine] = Counter(tuple(row) for row in rows)

    assert kept["arrow"] == kept["spark"]
    reasons = {row[2] for row in kept["arrow"]}
    assert reasons == {"malformed", "missing-field"}


def test_kept_columns_come_through(spark: Any, folder: Path) -> None:
    (folder / "lines" / "one.txt").write_text('{"id": 1}\n{"id": "x"}\n{"id": 2.0}\n{"id": 3}\n')
    result = built(
        spark,
        folder,
        """
        @hr.stream(to=hr.parquet("data/out"))
        def kept(lines):
            more = lines.selectExpr("value", "named_struct('n', length(value)) AS s",
                "array(1.5BD) AS list", "X'00FF' AS bytes")
            return hr.parse_json(more, "id int", keep=["value", "s", "list", "bytes"],
                quarantine=False, engine="arrow")
        """,
    )
    drained(spark, result)

    rows = spark.read.parquet(str(folder / "data/out")).orderBy("id").collect()
    found = [(row.id, row.value, row.s.n, [str(x) for x in row.list], row.bytes) for row in rows]
    assert found == [
        (1, '{"id": 1}', 9, ["1.5"], bytearray(b"\x00\xff")),
        (3, '{"id": 3}', 9, ["1.5"], bytearray(b"\x00\xff")),
    ]
