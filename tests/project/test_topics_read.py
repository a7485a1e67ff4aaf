"""Of which cluster a topic is, where two have one of the same name."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.errors import SetupError
from headrace.json_file import write_json
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.runs import Desired
from headrace.project import broker_connectors, gaps
from headrace.project.workspace import open_workspace


def node(name: str, kind: str, servers: str | None = None, inputs: tuple[str, ...] = ()) -> Node:
    role = "topic" if kind == "query" else "subscribe"
    connector = {"kind": "kafka", "servers": servers, role: "logs"} if servers else None
    return Node(name, kind, "flow.py:1", inputs, connector)


def query(name: str, *inputs: str) -> Query:
    return Query(
        name, "flow.py:2", inputs, {"kind": "parquet"}, "append", {"kind": "default"},
        f"/c/{name}", "exactly-once", "",
    )  # fmt: skip


def first(definition: Definition, name: str) -> str:
    (found,) = (one for one in definition.queries if one.name == name)
    return next(broker_connectors.read_by(definition, found)).servers


def test_what_a_query_reads_comes_before_what_another_one_writes() -> None:
    nodes = (
        node("ticks", "source"),
        node("copied", "query", "written:1", ("ticks",)),
        node("raw", "source", "read:1"),
        node("parsed", "view", inputs=("raw",)),
    )
    queries = (
        query("copied", "ticks"),
        query("direct", "raw"),
        query("by_view", "parsed"),
        query("back", "copied"),
    )
    definition = Definition("flow", "dev", "v1", "flow.py", nodes, queries)

    assert first(definition, "direct") == "read:1"
    assert first(definition, "by_view") == "read:1"
    assert first(definition, "back") == "written:1"


def test_a_query_that_reads_another_one_back_does_not_read_its_sources() -> None:
    nodes = (
        node("raw", "source", "read:1"),
        node("copied", "query", "written:1", ("raw",)),
    )
    definition = Definition("flow", "dev", "v1", "flow.py", nodes, (query("back", "copied"),))

    assert first(definition, "back") == "written:1"


def test_a_gap_in_what_a_function_reads_itself_is_refused_with_the_way_out(tmp_path: Path) -> None:
    work = open_workspace(tmp_path, "dev")
    own = Node("kafka:logs", "source", "flow.py:2", connector={"kind": "kafka"}, is_declared=False)
    definition = Definition("flow", "dev", "v1", "flow.py", (own,), (query("kept", own.name),))
    write_json(work.places.definition("v1", "dev", "flow"), definition.to_json())
    wanted = Desired("flow", "stopped", "v1", "dev", "flow.py")
    write_json(work.places.desired("flow"), asdict(wanted))

    with pytest.raises(SetupError) as caught:
        gaps.find(work, "flow")

    assert caught.value.code == "gap-of-own-source"
    assert "headrace.toml" in str(caught.value.fix)
