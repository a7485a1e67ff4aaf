"""Joins of a stream with a static table, and how many rows they drop.

Joins are found once, in the analysed plan. After a batch `quality_counts` reads the metrics that
Spark keeps for every operator anyway, so counting costs the query nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.driver.plan_analysis import class_of, each, plan_of, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DROPPING = ("Inner", "LeftSemi", "Cross")  # join types that drop a row without a match
JOINS = ("Join", "CartesianProduct")
DEPTH_MAX = 200
_NOT_NULL = r"isnotnull\([^()]*\)"
_NUMBER = re.compile(r"#(\d+)L?[,)]")  # List(id#4L, name#5)
_UNCOUNTED = ("WholeStageCodegen", "InputAdapter", "Project", "Sort", "AQEShuffleRead")
_ONE_CHILD = (*_UNCOUNTED, "Filter", "BroadcastExchange", "ColumnarToRow", "ReusedExchange")
_ONLY_NOT_NULL = re.compile(rf"\(*{_NOT_NULL}\)*( AND \(*{_NOT_NULL}\)*)*")


@dataclass(frozen=True)
class Lookup:
    """`columns` are Spark's expression ids of the columns of the table's relations."""

    name: str
    place: str
    columns: frozenset[int]


def find(frame: DataFrame, names: Mapping[int, tuple[str, str]], place: str) -> tuple[Lookup, ...]:
    """`names` has table and place for each column id. Other tables are named after what they read,
    with the query's `place`."""
    lookups = {}
    for node in walk(plan_of(frame)):
        if class_of(node) != "Join" or node.joinType().toString() not in DROPPING:
            continue
        left, right = node.left(), node.right()
        if left.isStreaming() != right.isStreaming():
            leaves = list(each((right if left.isStreaming() else left).collectLeaves()))
            columns = frozenset(number for leaf in leaves for number in _columns(leaf))
            known = next((names[number] for number in sorted(columns) if number in names), None)
            lookups[columns] = Lookup(*(known or (_table_name(leaves), place)), columns)
    return tuple(lookups.values())


def names(tables: Iterable[tuple[str, str, DataFrame]]) -> dict[int, tuple[str, str]]:
    """Name and place of each table, by the ids of its columns."""
    return {
        number: (name, place)
        for name, place, frame in tables
        for leaf in each(plan_of(frame).collectLeaves())
        for number in _columns(leaf)
    }


def counts(query: Any, batch: int | None, lookups: tuple[Lookup, ...]) -> dict[str, int]:
    """For each join: rows in, rows dropped, and rows that met an empty table in this batch. Empty
    once the next batch has begun. `query` is the JVM's query object."""
    execution = query.streamingQuery().lastExecution()
    if execution is None or execution.currentBatchId() != batch:
        return {}
    totals: Counter[str] = Counter()
    for join in _build_plan_tree(execution.executedPlan()).all():
        if not join.name.endswith(JOINS) or len(join.below) != 2:
            continue
        left, right = join.below
        for lookup in lookups:
            for table, stream in (right, left), (left, right):
                if table.columns and table.columns <= lookup.columns:
                    _add(totals, lookup.name, join, table, stream)
    return dict(totals)


def _add(totals: Counter[str], name: str, join: _Node, table: _Node, stream: _Node) -> None:
    rows_in, rows_out, table_rows = _rows(stream), _metric(join), _rows(table)
    if not rows_in or rows_out is None:
        return
    totals[f"lookup.{name}.in"] += rows_in
    totals[f"lookup.{name}.lost"] += max(0, rows_in - rows_out)
    totals[f"lookup.{name}.empty"] += rows_in if table_rows == 0 else 0


@dataclass(frozen=True)
class _Node:
    """An executed operator. Every access to `spark` is a call into the JVM, so there are few."""

    spark: Any
    name: str
    below: tuple[_Node, ...]
    columns: frozenset[int]  # of the relations below

    def all(self) -> Iterator[_Node]:
        yield self
        for child in self.below:
            yield from child.all()


def _build_plan_tree(spark: Any, depth: int = 0) -> _Node:
    """Adaptive execution keeps its final plan outside of `children`."""
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
    below = tuple(_build_plan_tree(child, depth + 1) for child in children)
    own = () if below else _NUMBER.findall(str(spark.output().toString()))
    columns = frozenset(map(int, own)).union(*(child.columns for child in below))
    return _Node(spark, name, below, columns)


def _rows(node: _Node) -> int | None:
    """Output rows of a part of the plan, from its topmost operator with a row count. The null
    filter that Spark adds before a join does not count: a null key is a row without a match."""
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
    metric = node.spark.metrics().get("numOutputRows")
    return int(metric.get().value()) if metric.isDefined() else None


def _columns(node: Any) -> Iterator[int]:
    return (column.exprId().id() for column in each(node.output()))


def _table_name(leaves: list[Any]) -> str:
    """Of a script's table: the name in the catalogue, else the folder that is read."""
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
