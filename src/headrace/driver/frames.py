"""The DataFrames of one build: each definition's function is called once, its result is shared.

Owned by `build`. A parameter of a function is the DataFrame of the node with that name; for a
stream, its committed output read back. A failure is kept, so that two queries over one bad view
report the same error.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.config import Settings
from headrace.connectors.connector import Connector
from headrace.connectors.files import ddl, files
from headrace.define import checks, sql_names
from headrace.define import graph as graphs
from headrace.define.graph import ASIDE, SESSION, Graph, GraphNode
from headrace.define.triggers import AvailableNow, every
from headrace.driver import plan_analysis, realtime_checks, source_detection
from headrace.errors import DefinitionError, Error
from headrace.model.limits import QuerySettings
from headrace.transforms import build_notes
from headrace.transforms.build_notes import BuildNotes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.connectors.files import Files

QUARANTINE_EVERY_S = 10.0  # not urgent, and every batch reads the whole input


class Frames:
    def __init__(
        self,
        graph: Graph,
        spark: SparkSession,
        settings: Settings,
        version: str | None,
        streaming: bool,
        prepare: bool,
        accept_gap: bool = False,
    ) -> None:
        self.graph = graph
        self.nodes: dict[str, GraphNode] = dict(graph.nodes)  # hidden queries are added
        self.spark = spark
        self.settings = settings
        self.version = version
        self.streaming = streaming
        self.prepare = prepare
        self.accept_gap = accept_gap
        self.frames: dict[str, DataFrame] = {}
        self.failed: dict[str, Error] = dict(graph.unsound)
        self.connectors: dict[str, Connector] = {}
        self.inputs: dict[str, tuple[str, ...]] = {}
        self.recognised: set[str] = set()  # undeclared sources that a function reads itself
        self.notes: dict[str, BuildNotes] = {}
        self.stand_ins: dict[str, str] = {}  # temporary path: the path that it replaces
        self._path: list[str] = []  # the nodes being built, outermost first
        self._inputs: dict[str, list[DataFrame]] = {}  # frames passed to a node's function
        self._real_time = realtime_checks.find_candidates(graph) if streaming else frozenset()

    def frame(self, name: str) -> DataFrame:
        """The node's own DataFrame, built on first use."""
        if name in self.failed:
            raise self.failed[name]
        if name not in self.frames:
            if name in self._path:
                raise graphs.cycle((*self._path[self._path.index(name) :], name), self.nodes)
            self._path.append(name)
            try:
                self.frames[name] = self._make(self.nodes[name])
            except Error as exc:
                self.failed[name] = exc
                raise
            finally:
                self._path.pop()
        return self.frames[name]

    def input(self, name: str, by: GraphNode) -> DataFrame:
        """The frame that other definitions get under this name."""
        frame = self._read_back(name, by)
        self._inputs.setdefault(by.name, []).append(frame)
        return frame

    def _read_back(self, name: str, by: GraphNode) -> DataFrame:
        node, frame = self.nodes[name], self.frame(name)
        if node.kind != "query":
            return frame
        sink = node.sink
        if not sink.capabilities.can_read_back:
            raise graphs.unreadable(name, by, node)
        file_sink = sink.as_files()
        if not self.streaming:
            return file_sink.read_back_columns(frame) if file_sink else frame
        if file_sink:
            sink = _readable(self, file_sink)
        if self.accept_gap:
            sink = sink.accepting_gap()
        return sink.read(self.spark, streaming=True, schema=ddl(frame.schema))

    def prepare_frame(self, node: GraphNode) -> DataFrame:
        """A query's rows in the form that its sink needs."""
        frame = self.frame(node.name)
        with self._placing_errors(node):
            return node.sink.prepare_frame(frame)

    def sources_of(self, name: str) -> dict[str, Connector | None]:
        """Streaming sources of a query by name; None for one that Headrace does not know."""
        sources: dict[str, Connector | None] = {}
        for below in self.inputs.get(name, ()):
            node = self.nodes[below]
            if node.kind == "query":
                sources[below] = node.sink
            elif node.kind == "source":  # its function may read several
                sources |= self.sources_of(below) or {below: self.connectors.get(below)}
            elif node.kind == "view":
                sources |= self.sources_of(below)
        return sources

    def queries_below(self, name: str) -> tuple[str, ...]:
        """The queries whose output this one reads back, directly or through views."""
        queries: list[str] = []
        for below in self.inputs.get(name, ()):
            is_query = self.nodes[below].kind == "query"
            queries += [below] if is_query else self.queries_below(below)
        return tuple(dict.fromkeys(queries))

    def with_views(self, name: str) -> list[str]:
        """This definition and the views that it uses, directly or through views."""
        names = [name]
        for below in self.inputs.get(name, ()):
            names += self.with_views(below) if self.nodes[below].kind == "view" else []
        return names

    def add_quarantine_queries(self) -> list[GraphNode]:
        """One for each transform that quarantines rows. They are known once the views are built."""
        hidden = []
        for name in [name for name in self.notes if name in self.frames]:
            readers = [self.nodes[q] for q in self.graph.queries if name in self.with_views(q)]
            for number, frame in enumerate(self.notes[name].asides, start=1):
                node = quarantine_query(
                    self.nodes[name], readers, number, self.graph.pipeline, self.settings
                )
                self.nodes[node.name], self.frames[node.name] = node, frame
                self.inputs[node.name] = self.inputs.get(name, ())
                hidden.append(node)
        return hidden

    def _make(self, node: GraphNode) -> DataFrame:
        result: object = node.connector
        if node.function is not None:
            self.inputs[node.name] = node.inputs
            result = self._call_function(node, node.function)
        if isinstance(result, str):
            result = self._from_sql(node, result)
        if isinstance(result, Connector) and node.kind in ("source", "table"):
            result = self._from_connector(node, result)
        frame = _check_frame(self, node, result)
        if self.streaming and node.function is not None and node.name not in self.connectors:
            _recognise(self, node, frame)
        return frame

    def _call_function(self, node: GraphNode, function: Callable[..., Any]) -> object:
        arguments: dict[str, Any] = {name: self.input(name, node) for name in node.inputs}
        if SESSION in inspect.signature(function).parameters:
            arguments[SESSION] = self.spark
        notes = self.notes[node.name] = _create_notes(self, node)
        with self._placing_errors(node), build_notes.taking(notes):
            return function(**arguments)

    def _from_sql(self, node: GraphNode, text: str) -> DataFrame:
        with self._placing_errors(node):
            names = sql_names.tables(text, list(self.nodes))
            self.inputs[node.name] = tuple(dict.fromkeys((*node.inputs, *names)))
            for name in names:
                self.input(name, node).createOrReplaceTempView(name)
            return self.spark.sql(text)

    def _from_connector(self, node: GraphNode, connector: Connector) -> DataFrame:
        connector = connector.resolve_paths(self.settings.project)
        self.connectors[node.name] = connector
        is_stream = self.streaming and node.kind == "source"
        try:
            readable = connector.accepting_gap() if self.accept_gap else connector
            return readable.read(self.spark, streaming=is_stream)
        except Error as exc:
            what = f"{node.name!r}: {exc.what}"
            raise DefinitionError(
                what, why=exc.why, where=node.place, fix=exc.fix, slug=exc.code
            ) from exc
        except Exception as exc:  # Spark's own, of any kind
            raise plan_analysis.to_definition_error(exc, node.name, node.place) from exc

    @contextmanager
    def _placing_errors(self, node: GraphNode) -> Iterator[None]:
        """Raises an exception of Spark or of the user's code as our error, with its place."""
        try:
            yield
        except Exception as exc:  # a boundary: the user's code may raise anything
            where = str(self.graph.collector.innermost(exc.__traceback__) or node.place)
            if isinstance(exc, Error):
                exc.where = exc.where or where
                raise
            if missing := plan_analysis.missing_table(exc):
                sinks = tuple(self.settings.sinks)
                raise graphs.unknown_input(missing, node, self.nodes, where, sinks) from exc
            raise plan_analysis.to_definition_error(exc, node.name, where) from exc


def quarantine_query(
    of: GraphNode, readers: Sequence[GraphNode], number: int, pipeline: str, settings: Settings
) -> GraphNode:
    """A hidden query, with a checkpoint, a line in `status`, and settings under
    [pipelines.P.queries."VIEW.quarantine"]. `number` counts the transforms of one definition.
    `readers` are the queries that use the definition: if all of them end, so must this one."""
    suffix = "" if number == 1 else f".{number}"
    name = f"{of.name}.{ASIDE}{suffix}"
    own = settings.queries.get(name) or QuerySettings()
    is_ending = bool(readers) and all(isinstance(r.trigger, AvailableNow) for r in readers)
    default = AvailableNow() if is_ending else every(QUARANTINE_EVERY_S)
    return GraphNode(
        name=name,
        kind="query",
        place=of.place,
        inputs=of.inputs,
        sink=files(settings.quarantine_path(pipeline, of.name + suffix), "parquet"),
        trigger=default if own.every is None else every(own.every),
        checkpoint=settings.checkpoint(pipeline, name),
        fresh_within_s=own.fresh_within,
    )


def _recognise(work: Frames, node: GraphNode, frame: DataFrame) -> None:
    """Adds the undeclared sources that the node's function reads."""
    own = source_detection.detect(frame, work._inputs.get(node.name, []), work.settings.project)
    if node.kind == "source" and len(own) == 1:
        work.recognised.add(node.name)
        if own[0].connector is not None:
            work.connectors[node.name] = own[0].connector
        return
    names = [_add_source(work, source, node.place) for source in own]
    work.inputs[node.name] = tuple(dict.fromkeys((*work.inputs[node.name], *names)))


def _check_frame(work: Frames, node: GraphNode, result: object) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(result, DataFrame):
        raise checks.not_a_dataframe(node, result)
    if work.streaming and node.kind in ("query", "source") and not result.isStreaming:
        raise checks.not_streaming(node, work.inputs.get(node.name, ()))
    if result.isStreaming and (node.kind == "table" or not work.streaming):
        raise checks.not_static(node)
    return result


def _readable(work: Frames, sink: Files) -> Files:
    """The sink, with a folder that can be read before its first batch."""
    if work.prepare:
        sink.prepare_output(work.spark)
        return sink
    if os.path.isdir(sink.identity()):
        return sink
    folder = tempfile.mkdtemp(prefix="headrace-")
    work.stand_ins[folder] = sink.path
    return replace(sink, path=folder)


def _add_source(work: Frames, source: source_detection.DetectedSource, place: str) -> str:
    """The name of the source's node. All readers of the same source share one node."""
    own = {name: work.connectors.get(name) for name in work.recognised}
    name = source_detection.free_name(source, {**work.nodes, **own})
    work.recognised.add(name)
    work.nodes.setdefault(name, GraphNode(name, "source", place, connector=source.connector))
    if source.connector is not None:
        work.connectors[name] = source.connector
    return name


def _create_notes(work: Frames, node: GraphNode) -> BuildNotes:
    """What a transform may have to know about the query that it is built for."""
    queries = (name for name in reversed(work._path) if work.nodes[name].kind == "query")
    query = next(queries, None)
    sources = work.sources_of(node.name).values()
    return BuildNotes(
        work.version,
        is_batch=not work.streaming,
        is_real_time=bool(work._real_time & {node.name, query}),
        is_from_brokers=bool(sources)
        and all(source and source.capabilities.is_broker for source in sources),
        is_local=work.spark.sparkContext.master.startswith("local"),
    )
