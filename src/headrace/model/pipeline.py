"""The definition of a pipeline, for processes without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.model.runs import Jsonable


@dataclass(frozen=True, slots=True)
class Place:
    """A path relative to the project, and a line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Node(Jsonable):
    """A source, table, view or query. `inputs` are names of other nodes."""

    name: str
    kind: str  # source | table | view | query
    place: str
    inputs: tuple[str, ...] = ()
    connector: Mapping[str, Any] | None = None  # kind and fields, secrets as references
    schema: str | None = None  # DDL
    streaming: bool = True
    engines: tuple[str, ...] = ()  # the parser of each hr.parse_json in it
    is_declared: bool = True  # False: a function reads it, found in Spark's plan


@dataclass(frozen=True, slots=True)
class Query(Jsonable):
    """One streaming query: a node with a sink, a trigger, a mode and a checkpoint of its own."""

    name: str
    place: str
    inputs: tuple[str, ...]
    sink: Mapping[str, Any]
    mode: str
    trigger: Mapping[str, Any]
    checkpoint: str | None
    guarantee: str  # exactly-once | at-least-once | none
    guarantee_why: str
    schema: str | None = None
    fresh_within_s: float | None = None
    fingerprint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition(Jsonable):
    """`.headrace/versions/HASH/definitions/PROFILE/PIPELINE.json`."""

    pipeline: str
    profile: str
    version: str
    file: str
    nodes: tuple[Node, ...]
    queries: tuple[Query, ...]
    warnings: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        nodes = [Node.from_json(node) for node in body["nodes"]]
        queries = [Query.from_json(query) for query in body["queries"]]
        return super(Definition, cls).from_json({**body, "nodes": nodes, "queries": queries})
