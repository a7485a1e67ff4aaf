"""Turns a graph into streaming DataFrames that are ready to start. Nothing is started here.

Called by the driver, in a run and in definition mode, and by tests. A view is built once and
shared. The problems of all queries are collected and raised together.
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
from headrace.connectors.files import ddl
from headrace.define import checks, guarantee, triggers
from headrace.define.dependency_order import in_order
from headrace.define.graph import Graph, GraphNode
from headrace.driver import count_plan, plan_analysis, realtime_checks
from headrace.driver.count_plan import NOTHING, CountPlan
from headrace.driver.frames import Frames
from headrace.errors import Error, each_of, together
from headrace.model.pipeline import Node, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class PlannedQuery:
    query: Query
    frame: DataFrame
    sink: Connector
    trigger: triggers.Trigger
    sources: tuple[Connector | None, ...]
    after: tuple[str, ...]  # the queries whose output it reads back: their ages add to its own
    count_plan: CountPlan = NOTHING


@dataclass(frozen=True)
class BuiltPipeline:
    planned: tuple[PlannedQuery, ...]  # in dependency order
    nodes: tuple[Node, ...]
    warnings: tuple[Mapping[str, Any], ...] = ()

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(planned.query for planned in self.planned)


def build(
    graph: Graph,
    spark: SparkSession,
    settings: Settings,
    *,
    version: str | None = None,
    streaming: bool = True,
    prepare: bool = True,
    accept_gap: bool = False,
) -> BuiltPipeline:
    """Build every query of the graph.

    `prepare=False` (definition mode) reads outputs of other queries from an empty temporary folder
    instead of creating their folders. `streaming=False` builds the same queries over static data.
    `version` is the deployed code's version, recorded with quarantined rows. With `accept_gap`
    sources skip records that were deleted before they were read.
    """
    _silence_analysis_errors()
    _pickle_by_value(graph)
    for function in graph.udfs:
        function.register(spark)
    work = Frames(graph, spark, settings, version, streaming, prepare, accept_gap)
    try:
        return _plan_all(work)
    finally:
        for folder in work.stand_ins:  # needed for analysis only
            shutil.rmtree(folder, ignore_errors=True)


def _plan_all(work: Frames) -> BuiltPipeline:
    problems: list[Error] = []
    planned: list[PlannedQuery] = []
    warnings: list[Mapping[str, Any]] = []

    def plan(nodes: list[GraphNode]) -> None:
        for node in nodes:
            try:
                planned.append(_plan_query(work, node, warnings))
            except Error as exc:
                problems.extend(each_of(exc))

    queries = [work.nodes[name] for name in work.graph.queries]
    # Real time first: a view is built for the first query that uses it, and views of real-time
    # queries must not run Python.
    plan(sorted(queries, key=lambda node: not realtime_checks.is_candidate(node)))
    hidden = work.add_quarantine_queries()
    plan(hidden)
    if problems:
        # Two queries over one bad view raise the same error.
        raise together(list({id(p): p for p in problems}.values()))
    names = [node.name for node in (*queries, *hidden)]
    planned.sort(key=lambda p: names.index(p.query.name))
    order = in_order({p.query.name: p.after for p in planned})
    planned.sort(key=lambda p: order.index(p.query.name))
    if work.streaming and work.prepare:
        plans = count_plan.plan_pipeline_counts(work, _countable(planned, work.graph.queries))
        planned = [replace(p, count_plan=plans.get(p.query.name, NOTHING)) for p in planned]
    return BuiltPipeline(tuple(planned), tuple(_nodes(work)), tuple(warnings))


def _countable(planned: Sequence[PlannedQuery], own: Sequence[str]) -> dict[str, DataFrame]:
    """No real-time query. Hidden queries last: shared sources are counted for the user's own."""
    frames = {
        p.query.name: p.frame for p in planned if not isinstance(p.trigger, triggers.RealTime)
    }
    return dict(sorted(frames.items(), key=lambda item: item[0] not in own))


def _plan_query(work: Frames, node: GraphNode, warnings: list[Mapping[str, Any]]) -> PlannedQuery:
    work.frame(node.name)  # finds its sources
    sources = work.sources_of(node.name) or {"its own": None}
    # Task slots of a real-time query are counted from declared sources only.
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
    frame = work.prepare_frame(node)
    problems: list[Error] = list(
        checks.connector_problems(node, sources, production=work.settings.production)
    )
    if problem := checks.column_problem(node, frame.dtypes):
        problems.append(problem)
    stateful = plan_analysis.operators(work.spark, frame) if work.streaming else []
    if isinstance(trigger, triggers.RealTime) and work.streaming:
        problems += checks.real_time_problems(
            node,
            [] if stateful else realtime_checks.find_unsupported_operators(work.spark, frame),
            [operator.name for operator in stateful],
            is_twice=realtime_checks.is_read_twice(plan_analysis.sources(frame)),
            batch_s=trigger.batch_s,
            limited=[n for n, c in sources.items() if c and c.capabilities.has_batch_limit],
        )
    problems += [
        problem
        for name in work.with_views(node.name)
        for timer in (work.notes[name].timed if name in work.notes else ())
        if (problem := checks.timer_problem(node, timer.transform, timer.limit_s, trigger))
    ]
    if work.streaming:
        functions = plan_analysis.pandas_aggregates(frame)
        problems += [checks.pandas_aggregate(node, function) for function in functions]
        modes = plan_analysis.output_modes(work.spark, frame)
        if problem := checks.mode_problem(node, mode, modes):
            problems.append(problem)
        warnings += [
            checks.unbounded_state(node, why).as_dict()
            for operator in stateful
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
        fingerprint=plan_analysis.fingerprint(frame, mode, fields, stateful, work.stand_ins)
        if work.streaming
        else {},
    )
    after = work.queries_below(node.name)
    return PlannedQuery(query, frame, node.sink, trigger, tuple(sources.values()), after)


def _fields(work: Frames, connector: Connector) -> dict[str, Any]:
    """A connector's fields; a function's place is in the user's file, not the deployed copy."""
    fields = connector.fields()
    if code := connector.user_code():
        place = work.graph.collector.place(code.co_filename, code.co_firstlineno)
        fields["function"] = f"{fields['function'].split(' at ')[0]} at {place}"
    return fields


def _nodes(work: Frames) -> list[Node]:
    """Every node that a query uses."""
    nodes = []
    for name in (*work.frames, *sorted(work.recognised.difference(work.frames))):
        node, frame = work.nodes[name], work.frames.get(name)
        connector = node.sink if node.kind == "query" else work.connectors.get(name)
        nodes.append(
            Node(
                name=name,
                kind=node.kind,
                place=node.place,
                inputs=work.inputs.get(name, ()),
                connector=_fields(work, connector) if connector else None,
                schema=ddl(frame.schema) if frame is not None else None,
                streaming=frame.isStreaming if frame is not None else True,
                engines=tuple(work.notes[name].engines) if name in work.notes else (),
                is_declared=name not in work.recognised,
            )
        )
    return nodes


def _trigger(
    node: GraphNode, sources: Mapping[str, Connector | None], *, can_real_time: bool
) -> tuple[triggers.Trigger, str]:
    """The trigger and output mode that the query runs with."""
    trigger = node.trigger
    if isinstance(trigger, triggers.RealTime):
        can_real_time = can_real_time and node.sink.capabilities.can_run_in_real_time
        if can_real_time and _could_be_real_time(node, sources):
            return trigger, "update"
        trigger = trigger.otherwise
    if trigger is None:
        is_polled = all(c and c.capabilities.is_polled for c in sources.values())
        trigger = triggers.Every(1.0) if is_polled else triggers.AsFast()
    return trigger, node.mode


def _could_be_real_time(node: GraphNode, sources: Mapping[str, Connector | None]) -> bool:
    """Whether real time is asked for and all sources support it."""
    is_asked_for = isinstance(node.trigger, triggers.RealTime)
    return is_asked_for and all(c and c.capabilities.can_run_in_real_time for c in sources.values())


def _pickle_by_value(graph: Graph) -> None:
    """Python workers cannot import the user's modules, so their functions are sent as code."""
    from pyspark import cloudpickle

    for module in graph.collector.modules:
        if module.__name__ in sys.modules:  # else cloudpickle sends it by value anyway
            cloudpickle.register_pickle_by_value(module)


def _silence_analysis_errors() -> None:
    """PySpark logs every analysis error with its JVM trace. Our error says the same in one line."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
