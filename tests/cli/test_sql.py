"""`headrace sql`: what is printed, and the list of what can be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.stage import Project
from headrace.jsonfile import write_json
from headrace.model.pipeline import Definition, Query

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
    entry = {"path": rows.as_uri(), "size": rows.stat().st_size, "isDir": False, "action": "add"}
    (folder / "_spark_metadata" / "0").write_text("v1\n" + json.dumps(entry))
    item = project.deployed("hello")
    sink = {"kind": "json", "path": str(folder)}
    query = Query("kept", "hello.py:1", (), sink, "append", {}, None, "exactly-once", "",
                  "word string, n bigint")  # fmt: skip
    told = Definition("hello", "dev", item.version, item.file, (), (query,))
    path = project.places.definition(item.version, "dev", "hello")
    path.parent.mkdir(parents=True)
    write_json(path, told.to_json())
    return project


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


def test_nothing_is_written(words: Project) -> None:
    before = sorted(words.folder.rglob("*"))

    words.headrace("sql", "SELECT count(*) FROM words")

    assert sorted(Path(words.folder).rglob("*")) == before
