"""Which of the known names a piece of Spark SQL reads."""

from __future__ import annotations

import pytest

from headrace.define import sql_names
from headrace.errors import DefinitionError

KNOWN = ["logs", "beats", "customers", "history"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM logs", ("logs",)),
        ("SELECT * FROM logs l JOIN customers c ON l.id = c.id", ("logs", "customers")),
        ("SELECT * FROM Logs", ("logs",)),
        ("WITH x AS (SELECT * FROM logs) SELECT * FROM x", ("logs",)),
        ("WITH beats AS (SELECT * FROM logs) SELECT * FROM beats", ("logs",)),
        ("WITH logs AS (SELECT * FROM logs) SELECT * FROM logs", ("logs",)),
        ("SELECT * FROM logs WHERE id IN (SELECT id FROM beats)", ("logs", "beats")),
        ("SELECT * FROM logs UNION ALL SELECT * FROM beats", ("logs", "beats")),
        ("SELECT * FROM parquet.`data/logs`", ()),
        ("SELECT * FROM elsewhere.logs", ()),
        ("SELECT window(at, '1 minute').start, count(*) FROM logs GROUP BY 1", ("logs",)),
        ("SELECT explode(items) FROM history LATERAL VIEW explode(x) t AS y", ("history",)),
        ("SELECT 'FROM beats' AS text FROM logs -- FROM history", ("logs",)),
    ],
)
def test_tables_are_found_where_spark_would_look(text: str, names: tuple[str, ...]) -> None:
    assert set(sql_names.tables(text, KNOWN)) == set(names)


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE logs",
        "CREATE TABLE x AS SELECT * FROM logs",
        "SELECT 1; SELECT 2",
        "INSERT INTO x SELECT * FROM logs",
        "",
    ],
)
def test_only_one_query_is_accepted(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        sql_names.tables(text, KNOWN)

    assert caught.value.code == "not-a-query"


def test_what_only_spark_understands_counts_every_known_word() -> None:
    assert sql_names.tables("SELECT ?? FROM logs @@ x", KNOWN) == ("logs",)


@pytest.mark.parametrize(
    ("text", "is_deep"),
    [
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, True),
        ("SELECT " + "(" * 501 + "1", True),
        ("SELECT " + "(1) + " * 3000 + "1", False),
        ("SELECT '" + "(" * 3000 + "', `" + "(" * 3000 + "` -- " + "(" * 3000, False),
        ("SELECT /* " + "(" * 3000 + " */ 1", False),
    ],
    ids=["brackets", "unclosed", "beside", "quoted", "commented"],
)
def test_nesting_is_measured_by_open_brackets(text: str, is_deep: bool) -> None:
    assert sql_names.is_too_deep(text) == is_deep


def test_a_definition_nested_too_deeply_is_refused_and_one_for_spark_is_left_to_it() -> None:
    with pytest.raises(DefinitionError) as caught:
        sql_names.tables("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM logs", KNOWN)
    assert caught.value.code == "sql-too-deep"

    assert sql_names.tables("SELECT " + "(" * 99 + "1" + ")" * 99 + " FROM logs", KNOWN) == (
        "logs",
    )
