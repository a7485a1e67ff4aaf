"""`headrace sql`: what is printed, and the list of what can be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.stage import Project
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.json_file import write_json
from headrace.model.pipeline import Definition, Query

pytestmark = pytest.mark.e2e  # each question runs in a process of its own

SINKS = """
[sinks.words]
kind = "json"
path = "data/words"
[sinks.screen]
kind = "console"
"""


@pytest.fixture
def words(project: Project) -> Project:
    """A deployed pipeline, and two rows that its stream has committed."""
    with (project.folder / "headrace.toml").open("a") as toml:
        toml.write(SINKS)
    folder = project.folder / "data" / "words"
    (folder / "_spark_metadata").mkdir(parents=True)
    rows = folder / "part-0.json"
    rows.write_text('{"word":"bread","n":2}\n{"word":"salt","n":10}\n')
    (folder / "part-cut.json").write_text('{"word":"cut","n":1}\n{"wo')
    entry = {"path": rows.as_uri(), "size": rows.stat().st_size, "isDir": False, "action": "add",
             "modificationTime": 1, "blockReplication": 1, "blockSize": 1}  # fmt: skip
    (folder / "_spark_metadata" / "0").write_text("v1\n" + json.dumps(entry))
    define(project, query("kept", {"kind": "json", "path": str(folder)}))
    return project


def query(name: str, sink: dict[str, Any], schema: str = "word string, n bigint") -> Query:
    return Query(name, "hello.py:1", (), sink, "append", {}, None, "exactly-once", "", schema)


def define(project: Project, *queries: Query) -> None:
    item = project.deployed("hello")
    told = Definition("hello", "dev", item.version, item.file, (), queries)
    path = project.places.definition(item.version, "dev", "hello")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, told.to_json())


@pytest.fixture
def tables(words: Project) -> Project:
    """Also a live table, and what could not be used."""
    live = words.folder / "results" / "hello" / "logins" / "v1"
    rows = pa.table({"word": ["bread", "salt"], "logins": [5, 7]})
    LiveSnapshots(live, ("word",), 100, {}).add(3, rows, at=1_767_225_600.0, is_whole=True)
    bad = words.folder / "quarantine" / "hello" / "logs"
    bad.mkdir(parents=True)
    pq.write_table(pa.table({"word": ["salt"], "reason": ["not JSON"]}), bad / "part-0.parquet")
    define(
        words,
        query("kept", {"kind": "json", "path": str(words.folder / "data" / "words")}),
        query("logins", {"kind": "live", "path": str(live), "key": ["word"]},
              "word string, logins bigint"),
        query("logs.quarantine", {"kind": "parquet", "path": str(bad)},
              "word string, reason string"),
    )  # fmt: skip
    return words


def test_an_answer_is_a_table_and_how_new_it_is(words: Project) -> None:
    done = words.headrace("sql", "SELECT word, n FROM kept ORDER BY n")

    assert [line.split() for line in done.stdout.splitlines()] == [
        ["word", "n"],
        ["bread", "2"],
        ["salt", "10"],
    ]
    assert "2 rows in " in done.stderr
    assert "kept as of 20" in done.stderr
    assert "(batch 0)" in done.stderr


def test_in_a_pipe_an_empty_line_separates_the_rows_from_the_footer(words: Project) -> None:
    done = words.headrace("sql", "SELECT n FROM kept ORDER BY n")

    last, empty, footer = done.output.splitlines()[-3:]
    assert (last.strip(), empty) == ("10", "")
    assert footer.startswith("2 rows in ")


def test_a_moment_is_shown_with_its_zone(words: Project) -> None:
    done = words.headrace("sql", "SELECT timestamp '2026-01-01 10:00:05' AS at")

    assert done.stdout.split() == ["at", "2026-01-01", "10:00:05Z"]


def test_as_json_it_has_types_rows_and_the_moment(words: Project) -> None:
    body = words.json("sql", "SELECT * FROM words ORDER BY n")

    assert body["columns"] == [
        {"name": "word", "type": "VARCHAR"},
        {"name": "n", "type": "BIGINT"},
    ]
    assert body["rows"] == [["bread", 2], ["salt", 10]]
    assert body["is_cut"] is False
    (table,) = body["tables"]
    assert (table["name"], table["batch"], table["files"]) == ("words", 0, 1)
    assert table["as_of"].endswith("+00:00")


def test_values_of_all_types_come_out_as_text(words: Project) -> None:
    text = (
        "SELECT TIMESTAMP '2026-01-01 10:00:05' AS at, DATE '2026-01-01' AS day, X'00ff' AS raw, "
        "CAST(1.5 AS DECIMAL(3, 1)) AS price, NULL AS no, uuid() AS id"
    )

    (shown,) = words.headrace("sql", text).stdout.splitlines()[1:]
    (row,) = words.json("sql", text)["rows"]

    assert shown.split()[:6] == ["2026-01-01", "10:00:05Z", "2026-01-01", "AP8=", "1.5", "null"]
    assert row[:4] == ["2026-01-01T10:00:05+00:00", "2026-01-01", "AP8=", "1.5"]


def test_a_question_may_come_on_standard_input(words: Project) -> None:
    done = words.headrace("sql", "-", input="SELECT sum(n) AS total FROM words")

    assert done.stdout.split() == ["total", "12"]


def test_more_rows_than_wanted_are_said(words: Project) -> None:
    done = words.headrace("sql", "SELECT * FROM words", "-n", "1")

    assert "the first 1 row in" in done.stderr


def test_without_a_question_tables_are_listed_with_their_columns(words: Project) -> None:
    (table,) = words.json("sql")["tables"]

    assert (table["name"], table["written_by"]) == ("words", "hello/kept")
    assert table["schema"] == "word string, n bigint"
    assert "word string, n bigint" in words.headrace("sql").stdout


def test_a_project_without_sinks_says_what_can_be_asked(project: Project) -> None:
    done = project.headrace("sql")

    assert done.exit_code == 0
    assert "parquet.`" in done.stdout


def test_a_wrong_question_has_code_2_and_the_near_miss(words: Project) -> None:
    error = words.json("sql", "SELECT * FROM wrods", code=2)["error"]

    assert (error["slug"], error["fix"]) == ("unknown-table", "Did you mean 'words'?")


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        # DuckDB cannot be interrupted in this call: its process has to be killed.
        ("SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))", "sql-timeout"),
        ("SELECT repeat('x', 2000000000)", "sql-memory"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "sql-too-deep"),
    ],
    ids=["time", "memory", "depth"],
)
def test_a_question_has_limits_and_says_which_one_it_met(
    project: Project, text: str, slug: str
) -> None:
    limit = "1s" if slug == "sql-timeout" else "60s"

    error = project.json("sql", text, "--timeout", limit, code=2)["error"]

    assert error["slug"] == slug


def test_a_large_answer_and_any_file_are_for_the_command_line(words: Project) -> None:
    (words.folder / "notes.txt").write_text("mine\n")

    body = words.json("sql", "SELECT value, repeat('x', 6000000) FROM text.`notes.txt`")

    assert (body["rows"][0][0], len(body["rows"][0][1])) == ("mine", 6_000_000)


def test_nothing_is_written(words: Project) -> None:
    before = sorted(words.folder.rglob("*"))

    words.headrace("sql", "SELECT count(*) FROM words")

    assert sorted(Path(words.folder).rglob("*")) == before


JOINED = (
    "SELECT kept.word, kept.n, logins, bad.reason FROM hello.kept JOIN hello.logins USING (word) "
    "LEFT JOIN {bad} AS bad USING (word) ORDER BY n"
)


def test_a_live_table_says_as_of_when_it_is(tables: Project) -> None:
    done = tables.headrace("sql", "SELECT * FROM logins ORDER BY logins")

    assert [line.split() for line in done.stdout.splitlines()][1:] == [
        ["bread", "5"],
        ["salt", "7"],
    ]
    assert "logins as of 2026-01-01 00:00:00Z (batch 3)" in done.stderr


def test_live_tables_and_quarantines_are_listed_as_they_are_asked(tables: Project) -> None:
    listed = {one["name"]: one for one in tables.json("sql")["tables"]}

    assert sorted(listed) == ["logins", "logs.quarantine", "words"]
    assert (listed["logins"]["kind"], listed["logins"]["written_by"]) == ("live", "hello/logins")
    assert "`logs.quarantine`" in tables.headrace("sql").stdout


@pytest.mark.parametrize("bad", ["logs.quarantine", "`logs.quarantine`", "hello.`logs.quarantine`"])
def test_tables_of_all_kinds_are_asked_together(tables: Project, bad: str) -> None:
    body = tables.json("sql", JOINED.format(bad=bad))

    assert body["rows"] == [["bread", 2, 5, None], ["salt", 10, 7, "not JSON"]]


@pytest.mark.e2e
@pytest.mark.spark
def test_spark_sees_the_same_tables_under_the_same_names(tables: Project) -> None:
    body = tables.json("sql", JOINED.format(bad="hello.`logs.quarantine`"), "--spark")

    assert body["rows"] == [["bread", 2, 5, None], ["salt", 10, 7, "not JSON"]]
    as_of = {one["name"]: (one["batch"], one["as_of"]) for one in body["tables"]}
    assert as_of["logins"] == (3, "2026-01-01T00:00:00+00:00")
    assert as_of["kept"][0] == 0
    assert as_of["logs.quarantine"] == (None, None)
