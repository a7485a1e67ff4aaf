"""From a graph to streaming DataFrames that are ready to be started; nothing is started here.

Called by the driver, in a run and in definition mode, and by tests. A parameter of a function is
the DataFrame of the node of that name; a view is built once and shared. The problems of all
queries are collected and raised together.
"""

from __future__ import annotations

import inspect
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.config import Settings
from headrace.connectors.connector import Connector
from headrace.connectors.each import EachBatch, EachRow, code_of
from headrace.connectors.files import Files, ddl
from headrace.define import checks, guarantee, sql, triggers
from headrace.define import graph as graphs
from headrace.define.graph import SESSION, Graph, GraphNode
from headrace.define.order import in_order
from headrace.driver import analyse
from headrace.errors import DefinitionError, Error, Problems, together
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
    streaming: bool = True,
    prepare: bool = True,
) -> Built:
    """`prepare=False` (definition mode) makes no folder for outputs that another stream reads: an
    empty one elsewhere stands in. `streaming=False` gives the same queries over static data."""
    _quiet()
    _pickle_by_value(graph)
    for function in graph.udfs:
        function.register(spark)
    work = _Build(graph, spark, settings, streaming, prepare)
    try:
        return _all_planned(work)
    finally:
        for folder in work.stand_ins:  # the plans are made; nothing will be read from these
            shutil.rmtree(folder, ignore_errors=True)


def _all_planned(work: _Build) -> Built:
    problems: list[Error] = []
    planned: list[Planned] = []
    warnings: list[Mapping[str, Any]] = []
    for name in work.graph.queries:
        try:
            planned.append(_planned(work, work.graph.nodes[name], warnings))
        except Problems as exc:
            problems += exc.problems
        except Error as exc:
            problems.append(exc)
    if problems:
        # A view that two queries use fails both, with the one error.
        unique = list({id(p): p for p in problems}.values())
        raise together(unique)
    order = in_order({p.query.name: work.streams_below(p.query.name) for p in planned})
    planned.sort(key=lambda p: order.index(p.query.name))
    return Built(tuple(planned), tuple(_nodes(work)), tuple(warnings))


class _Build:
    """The DataFrames of one build: what was made already, what it read, and what failed."""

    def __init__(
        self, graph: Graph, spark: SparkSession, settings: Settings, streaming: bool, prepare: bool
    ) -> None:
        self.graph = graph
        self.spark = spark
        self.settings = settings
        self.streaming = streaming
        self.prepare = prepare
        self.frames: dict[str, DataFrame] = {}
        self.failed: dict[str, Error] = dict(graph.unsound)
        self.connectors: dict[str, Connector] = {}
        self.inputs: dict[str, tuple[str, ...]] = {}
        self.stand_ins: dict[str, str] = {}  # path in use: path that it stands for
        self._path: list[str] = []

    def frame(self, name: str) -> DataFrame:
        """The node's own DataFrame, built when first asked for."""
        if name in self.failed:
            raise self.failed[name]
        if name not in self.frames:
            if name in self._path:
                raise graphs.cycle((*self._path[self._path.index(name) :], name), self.graph.nodes)
            self._path.append(name)
            try:
                self.frames[name] = self._make(self.graph.nodes[name])
            except Error as exc:
                self.failed[name] = exc
                raise
            finally:
                self._path.pop()
        return self.frames[name]

    def input(self, name: str, by: GraphNode) -> DataFrame:
        """What others get under this name: of a stream its committed output, read back."""
        node, frame = self.graph.nodes[name], self.frame(name)
        if node.kind != "query":
            return frame
        sink = node.sink
        if not sink.can_read_back:
            raise graphs.unreadable(name, by, node)
        if not self.streaming:
            return sink.read_back_columns(frame) if isinstance(sink, Files) else frame
        if isinstance(sink, Files):
            sink = self._readable(sink)
        return sink.read(self.spark, streaming=True, schema=ddl(frame.schema))

    def sources_of(self, name: str) -> dict[str, Connector | None]:
        """Streaming sources of a query by name; None for a DataFrame of the user's own."""
        found: dict[str, Connector | None] = {}
        for below in self.inputs.get(name, ()):
            node = self.graph.nodes[below]
            if node.kind == "query":
                found[below] = node.sink
            elif node.kind == "source":
                found[below] = self.connectors.get(below)
            elif node.kind == "view":
                found |= self.sources_of(below)
        return found

    def streams_below(self, name: str) -> tuple[str, ...]:
        found: list[str] = []
        for below in self.inputs.get(name, ()):
            is_query = self.graph.nodes[below].kind == "query"
            found += [below] if is_query else self.streams_below(below)
        return tuple(found)

    def _make(self, node: GraphNode) -> DataFrame:
        result: object = node.connector
        if node.function is not None:
            self.inputs[node.name] = node.inputs
            result = self._called(node, node.function)
        if isinstance(result, str):
            result = self._from_sql(node, result)
        if isinstance(result, Connector) and node.kind in ("source", "table"):
            result = self._from_connector(node, result)
        return self._checked(node, result)

    def _called(self, node: GraphNode, function: Callable[..., Any]) -> object:
        given: dict[str, Any] = {name: self.input(name, node) for name in node.inputs}
        if SESSION in inspect.signature(function).parameters:
            given[SESSION] = self.spark
        try:
            return function(**given)
        except Exception as exc:  # a border: the user's code may raise anything
            raise self._told(exc, node) from exc

    def _from_sql(self, node: GraphNode, text: str) -> DataFrame:
        try:
            names = sql.tables(text, list(self.graph.nodes))
            self.inputs[node.name] = tuple(dict.fromkeys((*node.inputs, *names)))
            for name in names:
                self.input(name, node).createOrReplaceTempView(name)
            return self.spark.sql(text)
        except Error as exc:
            exc.where = exc.where or node.place
            raise
        except Exception as exc:  # Spark's own, of any kind
            raise self._told(exc, node) from exc

    def _from_connector(self, node: GraphNode, connector: Connector) -> DataFrame:
        connector = connector.located(self.settings.project)
        self.connectors[node.name] = connector
        is_stream = self.streaming and node.kind == "source"
        try:
            return connector.read(self.spark, streaming=is_stream)
        except Error as exc:
            what = f"{node.name!r}: {exc.what}"
            raise DefinitionError(
                what, why=exc.why, where=node.place, fix=exc.fix, slug=exc.code
            ) from exc
        except Exception as exc:  # Spark's own, of any kind
            raise analyse.explained(exc, node.name, node.place) from exc

    def _told(self, exc: Exception, node: GraphNode) -> Error:
        where = str(self.graph.collector.innermost(exc.__traceback__) or node.place)
        if isinstance(exc, Error):
            exc.where = exc.where or where
            return exc
        if missing := analyse.missing_table(exc):
            sinks = tuple(self.settings.sinks)
            return graphs.unknown_input(missing, node, self.graph.nodes, where, sinks)
        return analyse.explained(exc, node.name, where)

    def _checked(self, node: GraphNode, result: object) -> DataFrame:
        """Only a DataFrame will do, and for a query a streaming one."""
        from pyspark.sql import DataFrame

        if not isinstance(result, DataFrame):
            raise checks.not_a_dataframe(node, result)
        if self.streaming and node.kind in ("query", "source") and not result.isStreaming:
            raise checks.not_streaming(node, self.inputs.get(node.name, ()))
        if result.isStreaming and (node.kind == "table" or not self.streaming):
            raise checks.not_static(node)
        return result

    def _readable(self, sink: Files) -> Files:
        """The sink with a folder that can be read already, before its first batch."""
        if self.prepare:
            sink.prepare_output(self.spark)
            return sink
        if os.path.isdir(sink.identity()):
            return sink
        folder = tempfile.mkdtemp(prefix="headrace-")
        self.stand_ins[folder] = sink.path
        return replace(sink, path=folder)


def _planned(work: _Build, node: GraphNode, warnings: list[Mapping[str, Any]]) -> Planned:
    """A query with everything that is known about it; raises what is wrong with it."""
    frame = work.frame(node.name)
    sources = work.sources_of(node.name) or {"its own": None}
    problems: list[Error] = list(
        checks.connector_problems(node, sources, production=work.settings.production)
    )
    if wrong := checks.column_problem(node, frame.dtypes):
        problems.append(wrong)
    remembered = analyse.operators(work.spark, frame) if work.streaming else []
    trigger, mode = _trigger(node, sources, remembered)
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
    return Planned(query, frame, node.sink, trigger)


def _fields(work: _Build, connector: Connector) -> dict[str, Any]:
    """A connector's fields; a function's place as the user knows it, not as it was deployed."""
    fields = connector.fields()
    if isinstance(connector, EachRow | EachBatch) and (found := code_of(connector.function)):
        place = work.graph.collector.place(found.co_filename, found.co_firstlineno)
        fields["function"] = f"{fields['function'].split(' at ')[0]} at {place}"
    return fields


def _nodes(work: _Build) -> list[Node]:
    """Everything that some query uses."""
    made = []
    for name, frame in work.frames.items():
        node = work.graph.nodes[name]
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
            )
        )
    return made


def _trigger(
    node: GraphNode, sources: Mapping[str, Connector | None], remembered: list[analyse.Operator]
) -> tuple[triggers.Trigger, str]:
    """The trigger that will be used, and the mode with it."""
    connectors = list(sources.values())
    chosen = node.trigger
    if isinstance(chosen, triggers.RealTime):
        can = node.sink.can_real_time and not remembered
        if can and all(c is not None and c.can_real_time for c in connectors):
            return chosen, "update"
        chosen = chosen.otherwise
    if chosen is None:
        polled = all(c is not None and c.is_polled for c in connectors)
        chosen = triggers.Every(1.0) if polled else triggers.AsFast()
    return chosen, node.mode


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
