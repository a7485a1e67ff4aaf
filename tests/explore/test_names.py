"""Which table a name in SQL means: streams with a dot in their names, pipelines before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connectors.files import parquet
from headrace.errors import SqlError
from headrace.explore.catalog import Catalog, Table, sql_name
from headrace.explore.dialect import translate, translate_for_spark


def table(pipeline: str, name: str) -> Table:
    return Table(name, parquet(f"/data/{pipeline}/{name}"), None, f"{pipeline}/{name}")


def known(*streams: tuple[str, str]) -> Catalog:
    tables = {stream: table(*stream) for stream in streams}
    bare = {name: found for (_, name), found in tables.items()}
    return Catalog(Path("/project"), tables | {("", name): found for name, found in bare.items()})


def meant(names: Catalog, written: str) -> list[str]:
    """Which streams the tables of a question are."""
    found = []

    def view_of(parts: tuple[str, ...]) -> str:
        found.append(names.find(parts).written_by)
        return "v"

    translate(" ".join(("SELECT * FROM", written)), view_of)
    return found


@pytest.mark.parametrize(
    "written",
    [
        "`logs.quarantine`",
        "logs.quarantine",
        "LOGS.Quarantine",
        "demo.`logs.quarantine`",
        "demo.logs.quarantine",
        "`demo`.`logs`.`quarantine`",
    ],
)
def test_a_stream_with_a_dot_in_its_name_is_found(written: str) -> None:
    assert meant(known(("demo", "logs.quarantine")), written) == ["demo/logs.quarantine"]


def test_a_stream_of_a_pipeline_wins_over_a_dot_in_a_name() -> None:
    names = known(("demo", "logs.quarantine"), ("logs", "quarantine"))

    assert meant(names, "logs.quarantine") == ["logs/quarantine"]
    assert meant(names, "`logs.quarantine`") == ["demo/logs.quarantine"]
    assert meant(names, "demo.logs.quarantine") == ["demo/logs.quarantine"]


def test_the_near_miss_is_given_as_it_has_to_be_written() -> None:
    with pytest.raises(SqlError) as caught:
        known(("demo", "logs.quarantine")).find(("logs.quarantin",))

    assert caught.value.fix == "Did you mean '`logs.quarantine`'?"


def test_names_are_quoted_where_sql_needs_it() -> None:
    assert sql_name("demo", "logs.quarantine") == "demo.`logs.quarantine`"
    assert sql_name("my-shop", "orders") == "`my-shop`.orders"
    assert sql_name("", "orders") == "orders"


# ---- for Spark: the text as it stands, with views for tables of ours


def spark_text(text: str) -> str:
    ours = {("orders",): "orders", ("shop", "orders"): "v0", ("logs.quarantine",): "v1"}
    return translate_for_spark(text, ours.get)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT orders.id FROM orders", "SELECT orders.id FROM orders"),
        ("SELECT  orders.id FROM shop.orders", "SELECT  orders.id FROM `v0` AS `orders`"),
        ("SELECT * FROM `shop` . orders o --x", "SELECT * FROM `v0` o --x"),
        (
            "SELECT * FROM `logs.quarantine` JOIN shop.orders USING (id)",
            "SELECT * FROM `v1` AS `logs.quarantine` JOIN `v0` AS `orders` USING (id)",
        ),
        (
            "SELECT * FROM orders WHERE id IN (SELECT id FROM shop.orders)",
            "SELECT * FROM orders WHERE id IN (SELECT id FROM `v0` AS `orders`)",
        ),
        ("SELECT 'shop.orders' FROM a.b", "SELECT 'shop.orders' FROM a.b"),
        ("SELECT * FROM delta.`/x` t", "SELECT * FROM delta.`/x` t"),
    ],
)
def test_only_our_tables_are_replaced_for_spark(text: str, made: str) -> None:
    assert spark_text(text) == made


def test_what_only_spark_understands_stays_and_every_name_in_it_counts() -> None:
    text = "SELECT ~~ FROM orders ??"
    seen = []

    def view_of(parts: tuple[str, ...]) -> None:
        seen.append(parts)
        raise SqlError("two pipelines have it", slug="ambiguous-name")

    assert translate_for_spark(text, view_of) == text
    assert ("orders",) in seen


def test_spark_too_is_asked_one_question() -> None:
    with pytest.raises(SqlError) as caught:
        spark_text("DROP TABLE orders")

    assert caught.value.code == "not-a-query"
