"""From a graph to streaming DataFrames that are ready to be started; nothing is started here.

Called by the driver, in a run and in definition mode, and by tests. A parameter of a function is
the DataFrame of the node of that name; a view is built once and shared. The problems of all
queries are collected and raised together.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.config import Settings
from headrace.connectors.connector import Connector
from headrace.connectors.each import EachBatch, EachRow, code_of
from headrace.connectors.files import ddl
from headrace.define import checks, guarantee, triggers
from headrace.define.graph import Graph, GraphNode
from headrace.define.order import in_order
from headrace.driver import analyse, counted, realtime
from headrace.driver.counted import NOTHING, Counted
from headrace.driver.frames import Frames
from headrace.errors import Error, each_of, together
from headrace.model.pipeline import Node, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Planned:
    """A query that can be started: `sink.attach(frame.writeStream, …)`, then the trigger."""

    query: Query
    frame: DataFrame
    sink: Connector
    trigger: triggers.Trigger
    sources: tuple[Connector | None, ...] = ()
    counted: Counted = NOTHING


@dataclass(frozen=True)
class Built:
    planned: tuple[Planned, ...]  # in dependency order
    nodes: tuple[Node, ...]
    warnings: tuple[Mapping[str, Any], ...] = ()


def build(
    graph: Graph,
    spark: SparkSession,
    settings: Settings,
    *,
    version: str | None = None,
    streaming: bool = True,
    prepare: bool = True,
    accept_gap: bool = False,
) -> Built:
    """`prepare=False` (definition mode) makes no folder for outputs that another stream reads: an
    empty one elsewhere stands in. `streaming=False` gives the same queries over static data.
    `version` is the deployed code's, for the rows that are set aside. With `accept_gap` sources
    leave out records that are gone."""
    _quiet()
    _pickle_by_value(graph)
    for function in graph.udfs:
        function.register(spark)
    work = Frames(graph, spark, settings, version, streaming, prepare, accept_gap)
    try:
        return _all_planned(work)
    finally:
        for folder in work.stand_ins:  # the plans are made; nothing will be read from these
            shutil.rmtree(folder, ignore_errors=True)


def _all_planned(work: Frames) -> Built:
    problems: list[Error] = []
    planned: list[Planned] = []
    warnings: list[Mapping[str, Any]] = []

    def plan(nodes: list[GraphNode]) -> None:
        for node in nodes:
            try:
                planned.append(_planned(work, node, warnings))
            except Error as exc:
                problems.extend(each_of(exc))

    queries = [work.nodes[name] for name in work.graph.queries]
    # Real time first: a view is built for the first who asks, and no Python may run in those.
    plan(sorted(queries, key=lambda node: not realtime.is_wished(node)))
    queries += work.hidden()  # known once the views are built
    plan(queries[len(work.graph.queries) :])
    if problems:
        # A view that two queries use fails both, with the one error.
        unique = list({id(p): p for p in problems}.values())
        raise together(unique)
    names = [node.name for node in queries]
    planned.sort(key=lambda p: names.index(p.query.name))
    order = in_order({p.query.name: work.streams_below(p.query.name) for p in planned})
    planned.sort(key=lambda p: order.index(p.query.name))
    if work.streaming and work.prepare:
        of = counted.of_pipeline(work, _countable(planned, work.graph.queries))
        planned = [replace(p, counted=of.get(p.query.name, NOTHING)) for p in planned]
    return Built(tuple(planned), tuple(_nodes(work)), tuple(warnings))


def _countable(planned: Sequence[Planned], own: Sequence[str]) -> dict[str, DataFrame]:
    """Never a real-time query; hidden ones last, so that what they share is told of the others."""
    found = {p.query.name: p.frame for p in planned if not isinstance(p.trigger, triggers.RealTime)}
    return dict(sorted(found.items(), key=lambda item: item[0] not in own))


def _planned(work: Frames, node: GraphNode, warnings: list[Mapping[str, Any]]) -> Planned:
    """A query with everything that is known about it; raises what is wrong with it."""
    work.frame(node.name)  # by then it is known what it reads
    sources = work.sources_of(node.name) or {"its own": None}
    # How many task slots a real-time query needs is counted from declared sources alone.
    is_declared = work.recognised.isdisjoint(sources)
    trigger, mode = _trigger(node, sources, can_real_time=is_declared)
    if isinstance(trigger, triggers.RealTime):
        node = replace(node, sink=node.sink.in_real_time())
    elif (
        is_declared
        and _could_be_real_time(node, sources)
        and (lacks := node.sink.lacks_for_real_time())
    ):
        warnings.append(checks.not_yet_real_time(node, lacks).as_dict())
    frame = work.shaped(node)
    problems: list[Error] = list(
        checks.connector_problems(node, sources, production=work.settings.production)
    )
    if wrong := checks.column_problem(node, frame.dtypes):
        problems.append(wrong)
    remembered = analyse.operators(work.spark, frame) if work.streaming else []
    if isinstance(trigger, triggers.RealTime) and work.streaming:
        problems += checks.real_time_problems(
            node,
            [] if remembered else realtime.refused(work.spark, frame),
            [operator.name for operator in remembered],
            is_twice=realtime.twice(analyse.sources(frame)),
            batch_s=trigger.batch_s,
            limited=[name for name, one in sources.items() if one and one.limits_batches],
        )
    problems += [
        refused
        for timed in work.timed(node.name)
        if (refused := checks.timer_problem(node, timed.transform, timed.limit_s, trigger))
    ]
    if work.streaming:
        found = analyse.pandas_aggregates(frame)
        problems += [checks.pandas_aggregate(node, function) for function in found]
        refused = checks.mode_problem(node, mode, analyse.output_modes(work.spark, frame))
        problems += [refused] if refused else []
        warnings += [
            checks.unbounded_state(node, why).as_dict()
            for operator in remembered
            if (why := operator.grows_in(mode))
        ]
    if problems:
        raise together(problems)
    promise = guarantee.work_out(sources, node.sink, trigger)
    fields = _fields(work, node.sink)
    query = Query(
        name=node.name,
        place=node.place,
        inputs=work.inputs.get(node.name, ()),
        sink=fields,
        mode=mode,
        trigger=trigger.to_json(),
        checkpoint=node.checkpoint if promise.is_resumed else None,
        guarantee=promise.level,
        guarantee_why=promise.why,
        schema=ddl(frame.schema),
        fresh_within_s=node.fresh_within_s,
        fingerprint=analyse.fingerprint(frame, mode, fields, remembered, work.stand_ins)
        if work.streaming
        else {},
    )
    return Planned(query, frame, node.sink, trigger, tuple(sources.values()))


def _fields(work: Frames, connector: Connector) -> dict[str, Any]:
    """A connector's fields; a function's place as the user knows it, not as it was deployed."""
    fields = connector.fields()
    if isinstance(connector, EachRow | EachBatch) and (found := code_of(connector.function)):
        place = work.graph.collector.place(found.co_filename, found.co_firstlineno)
        fields["function"] = f"{fields['function'].split(' at ')[0]} at {place}"
    return fields


def _nodes(work: Frames) -> list[Node]:
    """Everything that some query uses."""
    made = []
    for name, frame in work.frames.items():
        node = work.nodes[name]
        connector = node.sink if node.kind == "query" else work.connectors.get(name)
        made.append(
            Node(
                name=name,
                kind=node.kind,
                place=node.place,
                inputs=work.inputs.get(name, ()),
                connector=_fields(work, connector) if connector else None,
                schema=ddl(frame.schema),
                streaming=frame.isStreaming,
                engines=tuple(work.notes[name].engines) if name in work.notes else (),
                is_declared=name not in work.recognised,
            )
        )
    for name in sorted(work.recognised.difference(work.frames)):
        found = work.nodes[name].connector
        fields = _fields(work, found) if found else None
        place = work.nodes[name].place
        made.append(Node(name, "source", place, connector=fields, is_declared=False))
    return made


def _trigger(
    node: GraphNode, sources: Mapping[str, Connector | None], *, can_real_time: bool
) -> tuple[triggers.Trigger, str]:
    """The trigger that will be used, and the mode with it."""
    connectors = list(sources.values())
    chosen = node.trigger
    if isinstance(chosen, triggers.RealTime):
        can_real_time = can_real_time and node.sink.can_real_time
        if can_real_time and _could_be_real_time(node, sources):
            return chosen, "update"
        chosen = chosen.otherwise
    if chosen is None:
        polled = all(c is not None and c.is_polled for c in connectors)
        chosen = triggers.Every(1.0) if polled else triggers.AsFast()
    return chosen, node.mode


def _could_be_real_time(node: GraphNode, sources: Mapping[str, Connector | None]) -> bool:
    """As far as its sources go."""
    is_wish = isinstance(node.trigger, triggers.RealTime)
    return is_wish and all(c is not None and c.can_real_time for c in sources.values())


def _pickle_by_value(graph: Graph) -> None:
    """Workers have not the user's modules on their path, least of all a deployed copy's."""
    from pyspark import cloudpickle

    for module in graph.collector.modules:
        if module.__name__ not in sys.modules:
            continue  # another pipeline was loaded since; then it goes by value anyway
        cloudpickle.register_pickle_by_value(module)


def _quiet() -> None:
    """PySpark logs every analysis error with its JVM trace; ours says the same in one line."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
