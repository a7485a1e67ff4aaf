"""What the real-time trigger cannot do with a query, found before it starts.

Spark asks its allow-list when it plans the first batch, by when the pipeline is deployed; and too
few task slots it never tells: the query hangs. Here the same list is asked for the plan that would
run. Facts only; `define/checks` makes words of them.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import Connector
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import Broker
from headrace.define.graph import Graph, GraphNode
from headrace.define.triggers import RealTime, Trigger
from headrace.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ASK_S = 5.0
UNKNOWN = 16  # slots for a query whose partitions cannot be asked for
ADAPTIVE = "spark.sql.adaptive.enabled"  # plans while it runs: not with this trigger
_STREAMING = "org.apache.spark.sql.execution.streaming."
_ALLOWED = (
    "org$apache$spark$sql$execution$streaming$runtime$RealTimeModeAllowlist$$allowedOperators"
)
_NO_OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def refused(spark: SparkSession, frame: DataFrame) -> list[str]:
    """Spark's names of the operators on the stream's way that are not on its list."""
    allowed = getattr(_module(spark, f"{_STREAMING}runtime.RealTimeModeAllowlist"), _ALLOWED)()
    found = []
    for node in _on_the_way(_planned(spark, frame)):
        kind = node.getClass()
        if kind.getSimpleName() != "StreamingRelationExec" and not allowed.contains(kind.getName()):
            found.append(str(kind.getSimpleName()).removesuffix("Exec"))
    return list(dict.fromkeys(found))


def twice(sources: Iterable[Mapping[str, str]]) -> bool:
    """Whether one source is read more than once in a query. Pure; as `analyse.sources` tells."""
    told = [tuple(sorted(one.items())) for one in sources]
    return len(set(told)) < len(told)


def slots(master: str, cores: int) -> int | None:
    """Task slots of a local master; a cluster's are not known before it runs. Pure."""
    if master == "local":
        return 1
    found = re.match(r"local\[(\d+|\*)", master)
    if found is None:
        return None
    return cores if found[1] == "*" else int(found[1])


def held(sources: Iterable[Connector | None]) -> int | None:
    """Task slots that a real-time query of these sources holds for good: one a partition. None if
    the broker cannot say now."""
    count = 0
    for one in sources:
        connector = one.as_kafka(is_source=True) if isinstance(one, EventHubs) else one
        if not isinstance(connector, Kafka):
            count += 1
            continue
        try:
            with Broker(connector, ASK_S) as broker:
                count += sum(len(numbers) for numbers in broker.wanted().values())
        except Error:
            return None
    return count


def is_wished(node: GraphNode) -> bool:
    """Whether this query may run in real time; what it reads is not known before it is built."""
    return isinstance(node.trigger, RealTime) and node.sink.can_real_time


def built_for(graph: Graph) -> frozenset[str]:
    """Those queries and the views below them, as far as parameters tell; SQL text may bring more.
    A view is built once, so no Python may run in it whoever asks for it first."""
    found: set[str] = set()
    queue = [name for name in graph.queries if is_wished(graph.nodes[name])]
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            below = [graph.nodes.get(one) for one in graph.nodes[name].inputs]
            queue += [one.name for one in below if one is not None and one.kind == "view"]
    return frozenset(found)


def wished(graph: Graph) -> int:
    """Slots for all that may run in real time, before anything is built; on the safe side where it
    is not known: an idle slot costs nothing, a missing one everything."""
    count = 0
    for name in graph.queries:
        node = graph.nodes[name]
        if is_wished(node):
            found = held(_sources(graph, name))
            count += UNKNOWN if found is None else found
    return count


def _sources(graph: Graph, name: str) -> list[Connector | None]:
    """Of what headrace.toml says; SQL text and functions may bring more."""
    found: list[Connector | None] = []
    for below in graph.nodes[name].inputs:
        node = graph.nodes[below]
        if node.kind == "source":
            found.append(node.connector)
        elif node.kind == "query":
            found.append(node.sink)
        elif node.kind == "view":
            found += _sources(graph, below)
    return found


@contextlib.contextmanager
def without_adaptive(spark: SparkSession, trigger: Trigger | None = None) -> Iterator[None]:
    """Off while a real-time query is planned or started: a query keeps the settings of its start.
    Nothing for another trigger."""
    if trigger is not None and not isinstance(trigger, RealTime):
        yield
        return
    before = spark.conf.get(ADAPTIVE)
    spark.conf.set(ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(ADAPTIVE, before)


def _planned(spark: SparkSession, frame: DataFrame) -> Any:
    """As Spark will plan it: physical, and without adaptive execution, which is off then."""
    jvm: Any = spark._jvm
    plan = jvm.org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
    id_ = jvm.java.util.UUID.randomUUID()
    with without_adaptive(spark):
        return plan(
            spark._jsparkSession,
            frame._jdf.queryExecution().analyzed(),
            jvm.org.apache.spark.sql.streaming.OutputMode.Update(),
            str(Path(tempfile.gettempdir()) / "headrace-never-written"),
            id_,
            id_,
            0,
            _module(spark, "scala.None"),
            _module(spark, f"{_STREAMING}checkpointing.OffsetSeqMetadata").apply(_NO_OFFSETS),
            _module(spark, f"{_STREAMING}runtime.WatermarkPropagator").noop(),
            False,
            *(getattr(plan, f"$lessinit$greater$default${n}")() for n in (12, 13, 14)),
            False,
        ).executedPlan()


def _on_the_way(node: Any) -> Iterator[Any]:
    """Nodes that a row of the stream passes; what is below a broadcast table is none of them."""
    children = node.children()
    below = [child for n in range(children.size()) for child in _on_the_way(children.apply(n))]
    if below or node.getClass().getSimpleName() == "StreamingRelationExec":
        yield node
        yield from below


def _module(spark: SparkSession, name: str) -> Any:
    """A Scala object."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
