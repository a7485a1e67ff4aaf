"""Checks before a start whether a query can run with the real-time trigger.

Spark checks its allow-list of operators only when it plans the first batch. It does not check the
number of task slots at all: with too few, the query hangs. `define/checks` writes the errors.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import Connector
from headrace.connectors.kafka.broker_client import BrokerClient
from headrace.define.graph import Graph, GraphNode
from headrace.define.triggers import RealTime, Trigger
from headrace.driver.plan_analysis import class_of, each, plan_of, scala_object
from headrace.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASK_S = 5.0
UNKNOWN = 16  # slots for a query when its broker does not respond
ADAPTIVE = "spark.sql.adaptive.enabled"  # not possible with this trigger
_STREAMING = "org.apache.spark.sql.execution.streaming."
_ALLOWED = (
    "org$apache$spark$sql$execution$streaming$runtime$RealTimeModeAllowlist$$allowedOperators"
)
_NO_OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def find_unsupported_operators(spark: SparkSession, frame: DataFrame) -> list[str]:
    """The operators of the stream that are not on Spark's allow-list."""
    allowed = getattr(scala_object(spark, f"{_STREAMING}runtime.RealTimeModeAllowlist"), _ALLOWED)()
    names = []
    for node in _streaming_nodes(_physical_plan(spark, frame)):
        kind = node.getClass()
        if kind.getSimpleName() != "StreamingRelationExec" and not allowed.contains(kind.getName()):
            names.append(str(kind.getSimpleName()).removesuffix("Exec"))
    return list(dict.fromkeys(names))


def is_read_twice(sources: Iterable[Mapping[str, str]]) -> bool:
    """Whether a query reads one source more than once. `sources` is `plan_analysis.sources`."""
    keys = [tuple(sorted(source.items())) for source in sources]
    return len(set(keys)) < len(keys)


def slots(master: str, cores: int) -> int | None:
    """Task slots of a local master, None for a cluster. Pure."""
    if match := re.match(r"local\[(\d+|\*)", master):
        return cores if match[1] == "*" else int(match[1])
    return 1 if master == "local" else None


def count_needed_slots(sources: Iterable[Connector | None]) -> int | None:
    """Task slots that a real-time query occupies permanently: one per partition. None if the broker
    does not respond."""
    count = 0
    for source in sources:
        connector = source.as_kafka() if source else None
        if connector is None:
            count += 1
            continue
        try:
            with BrokerClient(connector, ASK_S) as broker:
                count += sum(len(numbers) for numbers in broker.find_partitions().values())
        except Error:
            return None
    return count


def is_candidate(node: GraphNode) -> bool:
    """Whether this query may run in real time. Its sources are known only after the build."""
    return isinstance(node.trigger, RealTime) and node.sink.capabilities.can_run_in_real_time


def find_candidates(graph: Graph) -> frozenset[str]:
    """Those queries and the views in their parameters. A view is built once, so it must not run
    Python if any real-time query uses it."""
    names: set[str] = set()
    queue = [name for name in graph.queries if is_candidate(graph.nodes[name])]
    while queue:
        name = queue.pop()
        if name not in names:
            names.add(name)
            inputs = [graph.nodes.get(below) for below in graph.nodes[name].inputs]
            queue += [node.name for node in inputs if node is not None and node.kind == "view"]
    return frozenset(names)


def estimate_slots(graph: Graph) -> int:
    """Slots for all queries that may run in real time. A high estimate is safe: an idle slot costs
    nothing, but with too few slots a query hangs."""
    names = [name for name in graph.queries if is_candidate(graph.nodes[name])]
    needed = [count_needed_slots(_sources(graph, name)) for name in names]
    return sum(UNKNOWN if count is None else count for count in needed)


def _sources(graph: Graph, name: str) -> list[Connector | None]:
    """The declared sources. SQL text and functions may read more."""
    sources: list[Connector | None] = []
    for below in graph.nodes[name].inputs:
        node = graph.nodes[below]
        if node.kind == "source":
            sources.append(node.connector)
        elif node.kind == "query":
            sources.append(node.sink)
        elif node.kind == "view":
            sources += _sources(graph, below)
    return sources


@contextlib.contextmanager
def without_adaptive(spark: SparkSession, trigger: Trigger | None = None) -> Iterator[None]:
    """Disables adaptive execution while a real-time query is planned or started; does nothing for
    other triggers. A query keeps the settings of its start."""
    if trigger is not None and not isinstance(trigger, RealTime):
        yield
        return
    before = spark.conf.get(ADAPTIVE)
    spark.conf.set(ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(ADAPTIVE, before)


def _physical_plan(spark: SparkSession, frame: DataFrame) -> Any:
    jvm: Any = spark._jvm
    plan = jvm.org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
    id_ = jvm.java.util.UUID.randomUUID()
    with without_adaptive(spark):
        return plan(
            spark._jsparkSession,
            plan_of(frame),
            jvm.org.apache.spark.sql.streaming.OutputMode.Update(),
            str(Path(tempfile.gettempdir()) / "headrace-never-written"),
            id_,
            id_,
            0,
            scala_object(spark, "scala.None"),
            scala_object(spark, f"{_STREAMING}checkpointing.OffsetSeqMetadata").apply(_NO_OFFSETS),
            scala_object(spark, f"{_STREAMING}runtime.WatermarkPropagator").noop(),
            False,
            *(getattr(plan, f"$lessinit$greater$default${n}")() for n in (12, 13, 14)),
            False,
        ).executedPlan()


def _streaming_nodes(node: Any) -> Iterator[Any]:
    """Nodes that rows of the stream pass, without those of a static table."""
    below = [inner for child in each(node.children()) for inner in _streaming_nodes(child)]
    if below or class_of(node) == "StreamingRelationExec":
        yield node
        yield from below
