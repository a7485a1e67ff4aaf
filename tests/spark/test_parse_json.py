"""Records that are no good: each of the corpus is kept with its reason, and the stream goes on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from building import built, drained, problems

from headrace import config
from headrace.driver import pipeline
from headrace.driver.events import EventsFile
from headrace.driver.running_queries import Queries
from headrace.errors import CheckpointError
from headrace.transforms.record_parser import OBSERVED, RAW_BYTES

pytestmark = pytest.mark.spark

CORPUS = Path(__file__).parents[1] / "corpus" / "bad_json"
SCHEMA = (
    "id int NOT NULL, big bigint, small smallint, name string, load double, ok boolean, "
    "at timestamp, day date, price decimal(5,2), tags array<string>, scores array<double>, "
    "inner struct<a int, b string, x double>, counts map<string,int>"
)
GOOD = {
    "plain": {"id": 1, "name": "ada", "load": 1.5, "ok": True, "tags": ["a"], "counts": {"k": 1}},
    "only_what_is_needed": {"id": 2},
    "nulls": {"id": 3, "name": None, "inner": None},
    "nested": {"id": 4, "inner": {"a": 1, "b": "x", "x": 0.5}},
    "others_are_passed_over": {"id": 5, "unknown": {"deep": [1, 2]}},
    "moments": {"id": 6, "at": "2026-01-01T00:00:00.123456Z", "day": "2026-01-01"},
    "largest": {"id": 2147483647, "big": 9223372036854775807, "load": 1.7e308},
    "beyond_ascii": {"id": 7, "name": "Grüße 你好 🚀"},
}
TOML = """
[sources.raw]
kind = "binary"
path = "incoming"
[sources.lines]
kind = "text"
path = "lines"
"""
CODE = f"""
@hr.view
def records(raw):
    return hr.parse_json(raw, "{SCHEMA}", column="content", max_bytes=100_000, keep="path")

@hr.stream(to=hr.parquet("data/out"))
def kept(records):
    return records

@hr.stream(to=hr.parquet("data/again"))
def again(records):
    return records.select("id")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headrace.toml").write_text(TOML)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "lines").mkdir()
    return tmp_path


def test_the_corpus_is_large_enough() -> None:
    assert len(list(CORPUS.rglob("*.json"))) >= 110


def test_every_bad_record_is_kept_with_its_reason(spark: Any, folder: Path) -> None:
    for bad in CORPUS.rglob("*.json"):
        name = f"{bad.parent.name}.{bad.name}"
        (folder / "incoming" / name).write_bytes(bad.read_bytes())
    for name, record in GOOD.items():
        text = json.dumps(record, ensure_ascii=False)
        (folder / "incoming" / f"good.{name}.json").write_text(text)
    result = built(spark, folder, CODE, version="v-abc")
    assert [p.query.name for p in result.planned] == ["kept", "again", "records.quarantine"]
    drained(spark, result)

    kept = spark.read.parquet(str(folder / "quarantine" / "orders" / "records")).collect()
    found = {r.source.rsplit("/", 1)[-1]: r.reason for r in kept}
    expected = {f"{bad.parent.name}.{bad.name}": bad.parent.name for bad in CORPUS.rglob("*.json")}
    assert found == expected
    assert len(kept) == len(expected)
    for row in kept:
        reason, _, name = row.source.rsplit("/", 1)[-1].partition(".")
        data = (CORPUS / reason / name).read_bytes()
        assert row.bytes == len(data)
        assert bytes(row.raw) == (data[:RAW_BYTES] if reason == "too-large" else data)
        assert (row.rule, row.version) == ("parse_json", "v-abc")
    details = {r.source.rsplit("/", 1)[-1]: r.detail for r in kept}
    assert details["wrong-type.several_fields.json"] == (
        "id is not of type int, load is not of type double, ok is not of type boolean"
    )
    assert details["missing-field.empty_object.json"] == "id is missing"
    assert details["malformed.plain_text.json"] is None

    passed = spark.read.parquet(str(folder / "data" / "out"))
    names = {r.path.rsplit("/", 1)[-1] for r in passed.select("path").collect()}
    assert names == {f"good.{name}.json" for name in GOOD}
    nested = passed.where("id = 4").collect()[0]
    assert (nested.inner.a, nested.inner.b, nested.inner.x) == (1, "x", 0.5)
    assert spark.read.parquet(str(folder / "data" / "again")).count() == len(GOOD)


def test_it_counts_what_came_in_and_what_was_bad(spark: Any, folder: Path) -> None:
    lines = ['{"id": 1}', "oops", '{"id": "x"}', '{"id": 2}', "", '{"id": 2, "id": 3}']
    (folder / "lines" / "one.txt").write_text("\n".join(lines) + "\n")
    result = built(
        spark,
        folder,
        """
        @hr.stream(to=hr.parquet("data/out"))
        def kept(lines):
            return hr.parse_json(lines.where("value != 'never'"), "id int")
        """,
    )
    hidden = next(p for p in result.planned if p.query.name == "kept.quarantine")
    writer = hidden.sink.attach(
        hidden.frame.writeStream, query="q", mode="append", checkpoint=hidden.query.checkpoint
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    counted = [p["observedMetrics"][OBSERVED] for p in query.recentProgress if p["numInputRows"]]
    assert [(one["rows"], one["bad"]) for one in counted] == [(6, 3)]
    drained(spark, result)
    assert sorted(r.id for r in spark.read.parquet(str(folder / "data/out")).collect()) == [1, 2, 3]
    kept = spark.read.parquet(str(folder / "quarantine/orders/kept")).collect()
    assert Counter(r.reason for r in kept) == {"malformed": 1, "wrong-type": 1, "empty": 1}
    assert {r.source.rsplit("/", 1)[-1] for r in kept} == {"one.txt"}


def test_two_calls_in_one_view_have_a_quarantine_each(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.view
        def both(lines):
            first = hr.parse_json(lines, "id int")
            return first.union(hr.parse_json(lines, "id int NOT NULL"))

        @hr.stream(to=hr.parquet("data/out"))
        def kept(both):
            return both
        """,
    )
    planned = {p.query.name: p.query for p in result.planned}
    assert list(planned) == ["kept", "both.quarantine", "both.quarantine.2"]
    paths = {planned[n].sink["path"] for n in planned if "quarantine" in n}
    assert len(paths) == 2
    assert {p.query.trigger["seconds"] for p in result.planned if "quarantine" in p.query.name} == {
        10.0
    }


def test_one_that_is_not_wanted_is_not_made(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.stream(to=hr.parquet("data/out"))
        def kept(lines):
            return hr.parse_json(lines, "id int", quarantine=False)
        """,
    )
    assert [p.query.name for p in result.planned] == ["kept"]


@pytest.mark.parametrize(
    ("call", "slug", "says"),
    [
        ('hr.parse_json(lines, "id integr")', "bad-schema", "integr"),
        ('hr.parse_json(lines, "id int,")', "bad-schema", "id int,"),
        ('hr.parse_json(lines, "int")', "bad-schema", "must be a list of fields"),
        ('hr.parse_json(lines, "id int", column="valeu")', "unknown-column", "'value'"),
        ('hr.parse_json(lines.selectExpr("1 AS value"), "id int")', "unknown-column", "is int"),
        ('hr.parse_json(lines, "value int", keep="value")', "column-twice", "value"),
        ("hr.absent(lines, key='valeu', for_='1 minute')", "unknown-column", "'value'"),
        ("hr.absent(lines, key=[], for_='1 minute')", "unknown-column", "needs a key"),
        ("hr.absent(lines, key='value', for_='soon')", "bad-duration", "soon"),
        ("hr.absent(lines, key='value', for_='1 minute')", "timer-interval", "no interval"),
    ],
)
def test_a_mistake_is_told_with_its_line(
    spark: Any, folder: Path, call: str, slug: str, says: str
) -> None:
    code = f"""
        @hr.stream(to=hr.memory(), mode="update")
        def kept(lines):
            return {call}
        """
    found = problems(spark, folder, code)
    assert [one.code for one in found] == [slug]
    assert "orders.py:" in str(found[0].where)
    assert says in " ".join(filter(None, (found[0].what, found[0].why, found[0].fix)))


def test_looking_too_seldom_for_silence_is_refused(spark: Any, folder: Path) -> None:
    code = """
        @hr.view
        def quiet(lines):
            return hr.absent(lines, key="value", for_="10 seconds")

        @hr.stream(to=hr.memory(), mode="update", every="8 seconds")
        def kept(quiet):
            return quiet
        """
    (found,) = problems(spark, folder, code)
    assert found.code == "timer-interval"
    assert 'every="5 seconds"' in str(found.fix)


def test_a_quarantine_that_does_not_fit_its_checkpoint_is_refused_before_any_start(
    spark: Any, folder: Path
) -> None:
    hidden = next(p for p in built(spark, folder, CODE).planned if "quarantine" in p.query.name)
    log = Path(hidden.query.sink["path"]) / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "0").write_text("v1")
    ours = Queries(spark, EventsFile(folder / "events.jsonl"))

    with pytest.raises(CheckpointError) as caught:
        pipeline.claim(spark, config.load(folder, "dev"), "orders", hidden, ours)

    assert caught.value.code == "sink-log-ahead"
    assert str(log.parent) in (caught.value.fix or "")
