"""Joins of a stream with a static table, and how many rows they let through.

Found once in the analysed plan. Counted after a batch from the metrics that Spark keeps for every
operator anyway, so the query itself does nothing for it. Called by `counts`, on Spark's bus.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.driver.analyse import class_of, each, plan_of, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DROPPING = ("Inner", "LeftSemi", "Cross")  # a row without a match does not come out
JOINS = ("Join", "CartesianProduct")
DEPTH_MAX = 200
_NOT_NULL = r"isnotnull\([^()]*\)"
_NUMBER = re.compile(r"#(\d+)L?[,)]")  # List(id#4L, name#5)
_UNCOUNTED = ("WholeStageCodegen", "InputAdapter", "Project", "Sort", "AQEShuffleRead")
_ONE_CHILD = (*_UNCOUNTED, "Filter", "BroadcastExchange", "ColumnarToRow", "ReusedExchange")
_ONLY_NOT_NULL = re.compile(rf"\(*{_NOT_NULL}\)*( AND \(*{_NOT_NULL}\)*)*")


@dataclass(frozen=True)
class Lookup:
    """`columns` are Spark's numbers of the columns that the table's own relations have."""

    name: str
    place: str
    columns: frozenset[int]


def find(frame: DataFrame, names: Mapping[int, tuple[str, str]], place: str) -> tuple[Lookup, ...]:
    """`names`: of columns, the table they belong to and its place. Others are named after what
    they read; their `place` is the query's."""
    found = {}
    for node in walk(plan_of(frame)):
        if class_of(node) != "Join" or node.joinType().toString() not in DROPPING:
            continue
        left, right = node.left(), node.right()
        if left.isStreaming() != right.isStreaming():
            leaves = list(_leaves(right if left.isStreaming() else left))
            columns = frozenset(number for leaf in leaves for number in _columns(leaf))
            known = next((names[number] for number in sorted(columns) if number in names), None)
            found[columns] = Lookup(*(known or (_described(leaves), place)), columns)
    return tuple(found.values())


def names(tables: Iterable[tuple[str, str, DataFrame]]) -> dict[int, tuple[str, str]]:
    """Of name, place and frame of each table, by the numbers of their columns."""
    return {
        number: (name, place)
        for name, place, frame in tables
        for leaf in _leaves(plan_of(frame))
        for number in _columns(leaf)
    }


def counts(query: Any, batch: int, lookups: tuple[Lookup, ...]) -> dict[str, int]:
    """Rows that came to each join in this batch, those of them that it dropped, and those that met
    an empty table; nothing once the next batch has begun. `query` is Spark's own object."""
    execution = query.streamingQuery().lastExecution()
    if execution is None or execution.currentBatchId() != batch:
        return {}
    found: dict[str, int] = {}
    for join in _executed(execution.executedPlan()).all():
        if not join.name.endswith(JOINS) or len(join.below) != 2:
            continue
        left, right = join.below
        for lookup in lookups:
            for table, stream in (right, left), (left, right):
                if table.columns and table.columns <= lookup.columns:
                    _add(found, lookup.name, join, table, stream)
    return found


def _add(found: dict[str, int], name: str, join: _Node, table: _Node, stream: _Node) -> None:
    came, left, held = _rows(stream), _metric(join), _rows(table)
    if not came or left is None:
        return
    told = {"in": came, "lost": max(0, came - left), "empty": came if held == 0 else 0}
    for what, rows in told.items():
        key = f"lookup.{name}.{what}"
        found[key] = found.get(key, 0) + rows


@dataclass(frozen=True)
class _Node:
    """An operator as it was run. Every question to Spark is a call into the JVM, so each is asked
    once, and only for what is needed."""

    spark: Any
    name: str
    below: tuple[_Node, ...]
    columns: frozenset[int]  # of the relations below

    def all(self) -> Iterator[_Node]:
        yield self
        for child in self.below:
            yield from child.all()


def _executed(spark: Any, depth: int = 0) -> _Node:
    """Adaptive execution keeps the plan that it ended with beside the tree."""
    name = str(spark.nodeName()).partition(" (")[0]  # WholeStageCodegen (1)
    if depth >= DEPTH_MAX:
        children = []
    elif name == "AdaptiveSparkPlan":
        children = [spark.executedPlan()]
    elif name.endswith("QueryStage"):
        children = [spark.plan()]
    elif name in _ONE_CHILD:
        children = [spark.child()]
    else:
        children = list(each(spark.children()))
    below = tuple(_executed(child, depth + 1) for child in children)
    own = () if below else _NUMBER.findall(str(spark.output().toString()))
    columns = frozenset(map(int, own)).union(*(child.columns for child in below))
    return _Node(spark, name, below, columns)


def _rows(node: _Node) -> int | None:
    """What a part of the plan gave: counted by its uppermost operator that counts. Not by a filter
    that Spark itself puts before a join: a key that is null is a row without a match."""
    if node.name not in _UNCOUNTED and not _is_for_the_join(node):
        rows = _metric(node)
        if rows is not None:
            return rows
    below = [_rows(child) for child in node.below]
    known = [rows for rows in below if rows is not None]
    return sum(known) if known and len(known) == len(below) else None


def _is_for_the_join(node: _Node) -> bool:
    return node.name == "Filter" and bool(
        _ONLY_NOT_NULL.fullmatch(str(node.spark.condition().toString()))
    )


def _metric(node: _Node) -> int | None:
    found = node.spark.metrics().get("numOutputRows")
    return int(found.get().value()) if found.isDefined() else None


def _leaves(plan: Any) -> Iterator[Any]:
    yield from each(plan.collectLeaves())


def _columns(node: Any) -> Iterator[int]:
    return (one.exprId().id() for one in each(node.output()))


def _described(leaves: list[Any]) -> str:
    """A table of a script: its name in the catalogue, else the folder it is read from."""
    for leaf in leaves:
        if class_of(leaf) == "DataSourceV2Relation":
            return str(leaf.name())
        if class_of(leaf) == "LogicalRelation":
            if leaf.catalogTable().isDefined():
                return str(leaf.catalogTable().get().identifier().table())
            if class_of(leaf.relation()) == "HadoopFsRelation":
                for path in each(leaf.relation().location().rootPaths()):
                    return str(path.getName())
    return "static table"
