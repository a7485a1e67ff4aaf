"""Connectors without Spark: fields, what they promise, and how they are refused."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.connectors import kinds
from headrace.connectors.connector import Connector
from headrace.errors import ConnectorError, Problems

EXAMPLES: dict[str, dict[str, Any]] = {
    "files": {"path": "x", "format": "json"},
    "text": {"path": "x"},
    "csv": {"path": "x", "schema": "a int", "options": {"header": "true"}},
    "json": {"path": "x", "max_files": 3},
    "parquet": {"path": "x", "partition_by": ["day"]},
    "orc": {"path": "x"},
    "avro": {"path": "x"},
    "binary": {"path": "x"},
    "kafka": {"servers": "h:1", "subscribe": ["t"], "starting": "earliest", "max_rows": 5},
    "event_hubs": {"connection_string": "${env:HUBS}", "hub": "h", "starting": "earliest"},
    "rate": {"rows_per_second": 7},
    "socket": {"host": "localhost", "port": 9999},
    "console": {"rows": 5},
    "memory": {},
    "live": {"key": ["minute"], "chart": "bar", "x": "minute", "y": ["logins"], "rows": 5},
    "alert": {"key": "id", "title": "{id}", "severity": "critical", "resolve_after": "1 minute"},
}


def test_there_is_an_example_for_every_kind() -> None:
    assert set(EXAMPLES) == set(kinds.KINDS)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_connector_goes_through_json_and_comes_back_the_same(kind: str) -> None:
    made = kinds.build_connector({"kind": kind, **EXAMPLES[kind]})

    assert kinds.build_connector(json.loads(json.dumps(made.fields()))) == made


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_connector_is_a_source_or_a_sink_and_says_why_it_is_a_toy(kind: str) -> None:
    made = kinds.build_connector({"kind": kind, **EXAMPLES[kind]})

    assert made.capabilities.is_source or made.capabilities.is_sink
    assert made.capabilities.delivery_why or not made.capabilities.is_sink


def refused(table: dict[str, Any]) -> ConnectorError:
    with pytest.raises(ConnectorError) as caught:
        kinds.build_connector(table, name="raw", where="headrace.toml:7")
    return caught.value


def test_an_unknown_kind_lists_the_known_ones() -> None:
    problem = refused({"kind": "parket", "path": "x"})

    assert (problem.code, problem.fix) == ("unknown-kind", 'Write kind = "parquet".')
    assert "socket" in str(problem.why)
    assert problem.where == "headrace.toml:7"


def test_a_table_without_a_kind_is_told_so() -> None:
    assert "'raw' has no kind" in refused({"path": "x"}).what


def test_an_unknown_field_names_the_near_miss() -> None:
    problem = refused({"kind": "json", "path": "x", "max_file": 3})

    assert (problem.code, problem.fix) == ("unknown-field", "Did you mean 'max_files'?")


def test_a_missing_field_is_named() -> None:
    problem = refused({"kind": "socket", "host": "localhost"})

    assert (problem.code, problem.what) == ("missing-field", "'raw': socket needs port.")


def test_functions_cannot_stand_in_the_settings() -> None:
    problem = refused({"kind": "each_batch"})

    assert "hr.each_batch(function)" in str(problem.fix)


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "json", "path": "x", "max_files": 0},
        {"kind": "json", "path": "x", "max_files": "3"},
        {"kind": "socket", "host": "h", "port": 99999},
        {"kind": "rate", "rows_per_second": -1},
        {"kind": "json", "path": "x", "schema": 5},
        {"kind": "json", "path": 5},
        {"kind": "json", "path": "x", "options": "header"},
        {"kind": "parquet", "path": "x", "partition_by": 5},
    ],
)
def test_a_wrong_value_is_refused(table: dict[str, Any]) -> None:
    assert refused(table).code == "bad-option"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {"kind": "json", "path": 5, "max_file": 3, "colour": 1, "max_bytes": 0, "schema": 5},
            ["no field 'max_file'", "no field 'colour'", "max_bytes: 0", "path: 5", "schema: 5"],
        ),
        (
            {"kind": "kafka", "servers": 5, "subscribe": "t", "max_rows": 0, "min_rows": -1,
             "user": "ann", "mechanism": "PLAN", "exactly_once": True, "key_password": "x",
             "options": {"kafka.group.id": "g", "startingOffsets": "latest", "color": "red"}},
            ["servers: 5", "'kafka.group.id'", "'startingOffsets'", "'color'", "user and password",
             "mechanism: 'PLAN'", "key_password", "max_rows: 0", "min_rows: -1", "exactly_once"],
        ),
        (
            {"kind": "event_hubs", "connection_string": "plain", "starting": "@latest",
             "options": {"kafka.group.id": "g", "color": "red"}},
            ["connection_string", "'kafka.group.id'", "'color'", "byte offset"],
        ),
        (
            {"kind": "alert", "key": [], "title": "{", "severity": "bad", "at": 5},
            ["severity: 'bad'", "needs a key", "Invalid title", "at: 5"],
        ),
        ({"kind": "socket", "hosts": "h"}, ["no field 'hosts'", "needs port"]),
    ],
)  # fmt: skip
def test_everything_that_a_connector_refuses_is_reported_at_once(
    table: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(Problems) as caught:
        kinds.build_connector(table, name="raw", where="headrace.toml:7")

    found = caught.value.problems
    assert [word in one.what for word, one in zip(words, found, strict=True)] == [True] * len(words)
    assert {one.where for one in found} == {"headrace.toml:7"}


def test_a_connector_is_equal_by_its_fields_and_cannot_change() -> None:
    assert hr.parquet("x") == hr.parquet("x")
    with pytest.raises(AttributeError):
        hr.parquet("x").path = "y"


def test_relative_paths_count_from_the_project_and_uris_stay() -> None:
    project = Path("/project")

    assert hr.json("in").resolve_paths(project).path == "/project/in"
    assert hr.json("/abs").resolve_paths(project).path == "/abs"
    assert hr.json("s3a://b/in").resolve_paths(project).path == "s3a://b/in"


def test_secrets_stay_references_in_the_fields() -> None:
    made = hr.json("x", options={"key": "${env:SECRET}"})

    assert made.fields()["options"] == {"key": "${env:SECRET}"}


def test_options_are_text_as_spark_takes_them() -> None:
    assert hr.csv("x", options={"header": True, "n": 3}).options == {"header": "true", "n": "3"}


def test_a_schema_may_be_a_struct_type() -> None:
    from pyspark.sql.types import IntegerType, StringType, StructType

    schema = StructType().add("id", IntegerType()).add("a b", StringType())

    assert hr.json("x", schema=schema).schema == "id int, `a b` string"


def batch(frame: Any, batch_id: int) -> None: ...


class Writer:
    def open(self, partition: int, epoch: int) -> bool:
        return True

    def process(self, row: Any) -> None: ...


def test_a_function_is_described_by_its_name_and_line() -> None:
    described = hr.each_batch(batch).fields()["function"]

    assert described == f"batch at {__file__}:{batch.__code__.co_firstlineno}"


@pytest.mark.parametrize("target", [print, lambda row: None, Writer, Writer()])
def test_each_row_takes_a_function_an_object_or_a_class(target: Any) -> None:
    assert hr.each_row(target).fields()["kind"] == "each_row"


@pytest.mark.parametrize(
    ("make", "target"),
    [
        (hr.each_batch, lambda frame: None),
        (hr.each_batch, "upload"),
        (hr.each_row, lambda: None),
        (hr.each_row, 5),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused(make: Any, target: Any) -> None:
    with pytest.raises(ConnectorError) as caught:
        make(target)

    assert caught.value.code == "bad-function"


def test_others_add_kinds_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoint("mine", "headrace.connectors.memory:memory", kinds.GROUP)
    monkeypatch.setattr(kinds, "entry_points", lambda **_: [theirs])

    made = kinds.build_connector({"kind": "mine"})

    assert isinstance(made, Connector)
    assert "mine" in kinds.names()
