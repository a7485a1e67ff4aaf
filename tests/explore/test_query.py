"""Queries in Spark's SQL over exactly the committed files: results and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import config
from headrace.errors import SqlError
from headrace.explore import catalog
from headrace.explore import query as questions
from headrace.explore.result import QueryResult
from headrace.model.pipeline import Definition, Query

pytestmark = pytest.mark.thorough

TOML = """
[project]
name = "test"
[sinks.metrics]
kind = "parquet"
path = "data/metrics"
partition_by = ["date"]
[sinks.words]
kind = "text"
path = "data/words"
[sinks.found]
kind = "json"
path = "data/found"
[sinks.sheet]
kind = "csv"
path = "data/sheet"
[sinks.screen]
kind = "console"
[sinks.old]
kind = "orc"
path = "data/old"
"""
NOW = datetime.now(UTC).replace(microsecond=0)
TODAY = NOW.date()


class Sink:
    """A folder as Spark's file sink leaves it: files, and a log that says which of them count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batch = 0

    def commit(self, *files: Path) -> None:
        log = self.folder / "_spark_metadata"
        log.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"path": f.as_uri(), "size": f.stat().st_size, "isDir": False,
                        "modificationTime": 1, "blockReplication": 1, "blockSize": 1,
                        "action": "add"})
            for f in files
        ]  # fmt: skip
        (log / str(self.batch)).write_text("\n".join(["v1", *lines]))
        self.batch += 1

    def parquet(self, name: str, day: date, *, is_int96: bool = False, **columns: Any) -> Path:
        """As our own settings write moments, or as Spark's and earlier versions of ours do."""
        file = self.folder / f"date={day}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), file, use_deprecated_int96_timestamps=is_int96)
        return file

    def text(self, name: str, text: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)
        return self.folder / name


def times(*ages_s: float) -> pa.Array:
    return pa.array([NOW - timedelta(seconds=age) for age in ages_s], pa.timestamp("us", "UTC"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "headrace.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def metrics(project: Path) -> Sink:
    """Three committed rows; a fourth of a batch that was cut, and half a file."""
    sink = Sink(project / "data" / "metrics")
    first = sink.parquet("a.parquet", TODAY, timestamp=times(10, 7200), level=["WARN", "ERROR"],
                         customer=["acme", "acme"])  # fmt: skip
    sink.commit(first)
    sink.commit(sink.parquet("b.parquet", TODAY - timedelta(days=1), timestamp=times(20),
                             level=["INFO"], customer=["bolt"]))  # fmt: skip
    sink.parquet("cut.parquet", TODAY, timestamp=times(1), level=["WARN"], customer=["acme"])
    (sink.folder / f"date={TODAY}" / "torn.parquet").write_bytes(b"PAR1half")
    return sink


def query(name: str, sink: dict[str, Any], schema: str) -> Query:
    return Query(name, "p.py:1", (), sink, "append", {}, None, "exactly-once", "", schema)


def defined(*queries: Query, pipeline: str = "shop") -> Definition:
    return Definition(pipeline, "dev", "v", f"{pipeline}.py", (), queries)


@pytest.fixture
def ask(project: Path) -> Callable[..., QueryResult]:
    def asked(text: str, *definitions: Definition, **more: Any) -> QueryResult:
        return questions.ask(text, catalog.collect(config.load(project), definitions), **more)

    return asked


Ask = Callable[..., QueryResult]


def refused(ask: Ask, text: str, *definitions: Definition, **more: Any) -> SqlError:
    with pytest.raises(SqlError) as caught:
        ask(text, *definitions, **more)
    return caught.value


@pytest.mark.usefixtures("metrics")
def test_the_question_of_the_talk_is_answered_as_it_stands(ask: Ask) -> None:
    answer = ask(
        "SELECT * FROM parquet.`data/metrics` WHERE level IN ('WARN','ERROR') "
        "AND customer = 'acme' AND timestamp > now() - INTERVAL 1 HOUR"
    )

    (row,) = answer.rows
    assert dict(zip(answer.columns, row, strict=True))["level"] == "WARN"
    (read,) = answer.tables
    assert read.batch == 1
    assert read.at is not None


@pytest.mark.parametrize("is_older", [True, False])
def test_moments_are_the_same_however_the_file_has_them(
    ask: Ask, project: Path, is_older: bool
) -> None:
    sink = Sink(project / "data" / "metrics")
    for number, is_int96 in enumerate((is_older, not is_older)):
        name = f"{number}.parquet"
        sink.commit(sink.parquet(name, TODAY, is_int96=is_int96, timestamp=times(10, 7200)))

    answer = ask("SELECT timestamp, count(*) FROM metrics GROUP BY timestamp ORDER BY timestamp")

    expected = [NOW - timedelta(seconds=age) for age in (7200, 10)]
    assert answer.rows == tuple((at, 2) for at in expected)
    recent = ask("SELECT count(*) FROM metrics WHERE timestamp > now() - INTERVAL 1 HOUR")
    assert recent.rows == ((2,),)


@pytest.mark.usefixtures("metrics")
def test_only_what_is_committed_is_seen(ask: Ask) -> None:
    assert ask("SELECT count(*) FROM metrics").rows == ((3,),)


@pytest.mark.usefixtures("metrics")
def test_partition_columns_have_the_types_of_the_stream(ask: Ask, project: Path) -> None:
    sink = {"kind": "parquet", "path": str(project / "data/metrics"), "partition_by": ["date"]}
    schema = "timestamp timestamp, level string, customer string, date date"
    history = defined(query("history", sink, schema))

    answer = ask("SELECT date, count(*) AS n FROM history GROUP BY date ORDER BY date", history)

    assert answer.rows == ((TODAY - timedelta(days=1), 1), (TODAY, 2))
    assert answer.types == ("DATE", "BIGINT")


def test_files_of_two_versions_are_read_together(ask: Ask, metrics: Sink) -> None:
    metrics.commit(metrics.parquet("c.parquet", TODAY, timestamp=times(5), level=["INFO"],
                                   customer=["acme"], load=[0.5]))  # fmt: skip

    answer = ask("SELECT load, count(*) AS n FROM metrics GROUP BY load ORDER BY n")

    assert answer.rows == ((0.5, 1), (None, 3))
    assert "load" in ask("SELECT * FROM metrics").columns


def test_an_empty_sink_has_its_columns_and_no_rows(ask: Ask, project: Path) -> None:
    Sink(project / "data" / "metrics").commit()
    sink = {"kind": "parquet", "path": str(project / "data/metrics")}
    history = defined(query("history", sink, "id bigint, tags array<string>"))

    answer = ask("SELECT * FROM metrics", history)

    assert (answer.columns, answer.rows) == (("id", "tags"), ())


def test_text_lines_come_as_they_are(ask: Ask, project: Path) -> None:
    sink = Sink(project / "data" / "words")
    sink.commit(sink.text("a.txt", 'he said "a, b"\n\\n;|\t x\n'))

    assert ask("SELECT value FROM words").rows == (('he said "a, b"',), ("\\n;|\t x",))


def test_json_and_csv_have_the_types_of_the_stream(ask: Ask, project: Path) -> None:
    found, sheet = Sink(project / "data" / "found"), Sink(project / "data" / "sheet")
    found.commit(found.text("a.json", '{"id":1,"tags":["x"]}\n{"id":2}\n'))
    sheet.commit(sheet.text("a.csv", '1,"a \\"b\\", c"\n2,\n'))
    shop = defined(
        query("seen", {"kind": "json", "path": str(found.folder)}, "id int, tags array<string>"),
        query("kept", {"kind": "csv", "path": str(sheet.folder)}, "id int, name string"),
    )

    assert ask("SELECT * FROM seen", shop).rows == ((1, ["x"]), (2, None))
    assert ask("SELECT id, name FROM kept ORDER BY id", shop).rows[0] == (1, 'a "b", c')


@pytest.mark.usefixtures("metrics")
def test_a_name_of_the_question_hides_a_table(ask: Ask) -> None:
    assert ask("WITH metrics AS (SELECT 1 AS one) SELECT * FROM metrics").rows == ((1,),)


@pytest.mark.usefixtures("metrics")
def test_tables_are_joined_with_themselves_and_called_by_their_names(ask: Ask) -> None:
    answer = ask(
        "SELECT METRICS.level FROM Metrics JOIN metrics b ON metrics.customer = b.customer "
        "WHERE b.level = 'INFO'"
    )

    assert answer.rows == (("INFO",),)


def test_a_stream_of_two_pipelines_needs_its_pipeline(ask: Ask, metrics: Sink) -> None:
    sink = {"kind": "parquet", "path": str(metrics.folder)}
    both = [defined(query("history", sink, "level string"), pipeline=p) for p in ("one", "two")]

    error = refused(ask, "SELECT * FROM history", *both)

    assert (error.code, error.fix) == (
        "ambiguous-name",
        "Use the full name, for example one.history.",
    )
    assert len(ask("SELECT * FROM two.history", *both).rows) == 3


def test_more_rows_than_asked_for_are_cut_and_said(ask: Ask, metrics: Sink) -> None:
    answer = ask("SELECT * FROM metrics", rows_max=2)

    assert (len(answer.rows), answer.is_cut) == (2, True)
    assert not ask("SELECT * FROM metrics", rows_max=3).is_cut


def test_a_question_that_takes_too_long_is_ended(ask: Ask) -> None:
    error = refused(ask, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
                    timeout_s=0.3)  # fmt: skip

    assert error.code == "sql-timeout"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT * FROM metrix", "unknown-table", "Did you mean 'metrics'?"),
        ("SELECT lvl FROM metrics", "sql-failed", "level"),
        ("SELEC 1", "sql-syntax", "line 1"),
        ("SELECT 1; SELECT 2", "not-a-query", "2 statements"),
        ("DROP TABLE metrics", "not-a-query", "SELECT"),
        ("SELECT * FROM screen", "nothing-to-read", "console"),
        ("SELECT * FROM old", "needs-spark", "--spark"),
        ("SELECT * FROM parquet.`data/none`", "nothing-to-read", "data/none"),
        ("SELECT window(timestamp, '1 minute') FROM metrics", "sql-failed", "--spark"),
        ("SELECT * FROM parquet.`s3a://bucket/x`", "needs-spark", "--spark"),
    ],
)
@pytest.mark.usefixtures("metrics")
def test_what_cannot_be_answered_is_told(ask: Ask, text: str, code: str, words: str) -> None:
    error = refused(ask, text)

    assert (error.code, words in str(error)) == (code, True), error


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{folder}/date=*/cut.parquet')",
        "SELECT * FROM read_parquet('{folder}/*/cut.parquet')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM metrics, read_parquet('{folder}/*/cut.parquet') x",
        "SELECT * FROM metrics WHERE EXISTS (SELECT 1 FROM read_blob('{folder}/*/cut.parquet'))",
        "SELECT (SELECT count(*) FROM READ_TEXT('{folder}/date=*/cut.parquet')) FROM metrics",
        "SELECT * FROM metrics LATERAL VIEW read_text('{folder}/x') AS y",
        "WITH x AS (SELECT * FROM parquet_metadata('{folder}/*/cut.parquet')) SELECT * FROM x",
        "SELECT * FROM parquet_scan('{folder}/*/cut.parquet')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('{folder}/x.parquet')",
        "SELECT * FROM '{folder}/date=2026-01-01/cut.parquet'",
        "SELECT * FROM `{folder}/date=2026-01-01/cut.parquet`",
        "SELECT getvariable('headrace:0') FROM metrics",
        "SELECT current_setting('allowed_directories') FROM metrics",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM sniff_csv('{folder}/x')",
        "SELECT getenv('HOME')",
        "COPY (SELECT 1) TO '{folder}/date=2026-01-01/x.parquet'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
        "PRAGMA database_list",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO metrics VALUES (1)",
        "CALL pragma_version()",
    ],
)
def test_nothing_but_the_tables_can_be_reached(ask: Ask, metrics: Sink, text: str) -> None:
    before = sorted(metrics.folder.rglob("*"))

    refused(ask, text.format(folder=metrics.folder))

    assert sorted(metrics.folder.rglob("*")) == before


def test_a_file_by_its_own_path_and_one_that_lies_elsewhere_are_read(
    ask: Ask, project: Path, tmp_path: Path
) -> None:
    sink = Sink(project / "data" / "moved")
    here = sink.parquet("here.parquet", date(2026, 1, 1), id=[1])
    away = Sink(tmp_path / "elsewhere").parquet("away.parquet", date(2026, 1, 1), id=[2])
    sink.commit(here, away)  # as after a folder was moved: its log still names the old places

    by_path = "SELECT id FROM parquet.`{}`"
    assert ask(by_path.format(here)).rows == ((1,),)
    assert sorted(ask(by_path.format("data/moved")).rows) == [(1,), (2,)]
