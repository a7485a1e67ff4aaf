"""The DataFrames of one build: a definition's function is called once, and what it made is shared.

Owned by `build`. A parameter of a function is the DataFrame of the node of that name; of a stream
it is the committed output, read back. What failed is remembered, so that two queries over one bad
view report it once.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.config import Settings
from headrace.connectors.connector import Connector
from headrace.connectors.files import Files, ddl
from headrace.define import checks, sql
from headrace.define import graph as graphs
from headrace.define.graph import SESSION, Graph, GraphNode
from headrace.driver import analyse, hidden, realtime, recognition
from headrace.errors import DefinitionError, Error
from headrace.transforms import notes
from headrace.transforms.notes import Notes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Frames:
    """The DataFrames of one build: what was made already, what it read, and what failed."""

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
        self.nodes: dict[str, GraphNode] = dict(graph.nodes)  # the hidden ones are added
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
        self.recognised: set[str] = set()  # sources that a function reads itself
        self.notes: dict[str, Notes] = {}
        self.stand_ins: dict[str, str] = {}  # path in use: path that it stands for
        self._path: list[str] = []
        self._taken: dict[str, list[DataFrame]] = {}  # by name: what its function was given
        self._real_time = realtime.built_for(graph) if streaming else frozenset()

    def frame(self, name: str) -> DataFrame:
        """The node's own DataFrame, built when first asked for."""
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
        """What others get under this name: of a stream its committed output, read back."""
        frame = self._read_back(name, by)
        self._taken.setdefault(by.name, []).append(frame)
        return frame

    def _read_back(self, name: str, by: GraphNode) -> DataFrame:
        node, frame = self.nodes[name], self.frame(name)
        if node.kind != "query":
            return frame
        sink = node.sink
        if not sink.can_read_back:
            raise graphs.unreadable(name, by, node)
        if not self.streaming:
            return sink.read_back_columns(frame) if isinstance(sink, Files) else frame
        if isinstance(sink, Files):
            sink = _readable(self, sink)
        if self.accept_gap:
            sink = sink.accepting_gap()
        return sink.read(self.spark, streaming=True, schema=ddl(frame.schema))

    def shaped(self, node: GraphNode) -> DataFrame:
        """A query's rows as its sink takes them."""
        frame = self.frame(node.name)
        try:
            return node.sink.shaped(frame)
        except Exception as exc:  # Spark's own, of any kind
            raise self._told(exc, node) from exc

    def sources_of(self, name: str) -> dict[str, Connector | None]:
        """Streaming sources of a query by name; None for a DataFrame of the user's own."""
        found: dict[str, Connector | None] = {}
        for below in self.inputs.get(name, ()):
            node = self.nodes[below]
            if node.kind == "query":
                found[below] = node.sink
            elif node.kind == "source":
                several = self.sources_of(below)  # a union of what its function reads
                found |= several or {below: self.connectors.get(below)}
            elif node.kind == "view":
                found |= self.sources_of(below)
        return found

    def streams_below(self, name: str) -> tuple[str, ...]:
        found: list[str] = []
        for below in self.inputs.get(name, ()):
            is_query = self.nodes[below].kind == "query"
            found += [below] if is_query else self.streams_below(below)
        return tuple(found)

    def timed(self, name: str) -> list[notes.Timed]:
        """What works by timers in this query: in its own function and in the views below it."""
        found = list(self.notes[name].timed) if name in self.notes else []
        for below in self.inputs.get(name, ()):
            found += self.timed(below) if self.nodes[below].kind == "view" else []
        return found

    def hidden(self) -> list[GraphNode]:
        """A query for every place where rows are set aside, known from now on like the others."""
        made = []
        for name in [name for name in self.notes if name in self.frames]:
            for number, frame in enumerate(self.notes[name].asides, start=1):
                node = hidden.quarantine(
                    self.nodes[name],
                    _readers(self, name),
                    number,
                    self.graph.pipeline,
                    self.settings,
                )
                self.nodes[node.name], self.frames[node.name] = node, frame
                self.inputs[node.name] = self.inputs.get(name, ())
                made.append(node)
        return made

    def _make(self, node: GraphNode) -> DataFrame:
        result: object = node.connector
        if node.function is not None:
            self.inputs[node.name] = node.inputs
            result = self._called(node, node.function)
        if isinstance(result, str):
            result = self._from_sql(node, result)
        if isinstance(result, Connector) and node.kind in ("source", "table"):
            result = self._from_connector(node, result)
        frame = _checked(self, node, result)
        if self.streaming and node.function is not None and node.name not in self.connectors:
            _recognise(self, node, frame)
        return frame

    def _called(self, node: GraphNode, function: Callable[..., Any]) -> object:
        given: dict[str, Any] = {name: self.input(name, node) for name in node.inputs}
        if SESSION in inspect.signature(function).parameters:
            given[SESSION] = self.spark
        noted = self.notes[node.name] = _noted(self, node)
        try:
            with notes.taking(noted):
                return function(**given)
        except Exception as exc:  # a border: the user's code may raise anything
            raise self._told(exc, node) from exc

    def _from_sql(self, node: GraphNode, text: str) -> DataFrame:
        try:
            names = sql.tables(text, list(self.nodes))
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
            readable = connector.accepting_gap() if self.accept_gap else connector
            return readable.read(self.spark, streaming=is_stream)
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
            return graphs.unknown_input(missing, node, self.nodes, where, sinks)
        return analyse.explained(exc, node.name, where)


def _readers(work: Frames, name: str) -> list[GraphNode]:
    """The queries that use this definition, also through views; a query uses itself."""
    return [work.nodes[one] for one in work.graph.queries if name in _used_by(work, one)]


def _used_by(work: Frames, name: str) -> set[str]:
    views = [one for one in work.inputs.get(name, ()) if work.nodes[one].kind == "view"]
    return {name}.union(*(_used_by(work, one) for one in views))


def _recognise(work: Frames, node: GraphNode, frame: DataFrame) -> None:
    """What its function reads itself becomes sources like the declared ones."""
    taken = work._taken.get(node.name, [])
    own = recognition.recognised(frame, taken, work.settings.project)
    if node.kind == "source" and len(own) == 1:
        work.recognised.add(node.name)
        if own[0].connector is not None:
            work.connectors[node.name] = own[0].connector
        return
    names = [_node_of(work, one, node.place) for one in own]
    work.inputs[node.name] = tuple(dict.fromkeys((*work.inputs[node.name], *names)))


def _checked(work: Frames, node: GraphNode, result: object) -> DataFrame:
    """It has to be a DataFrame, and for a query a streaming one."""
    from pyspark.sql import DataFrame

    if not isinstance(result, DataFrame):
        raise checks.not_a_dataframe(node, result)
    if work.streaming and node.kind in ("query", "source") and not result.isStreaming:
        raise checks.not_streaming(node, work.inputs.get(node.name, ()))
    if result.isStreaming and (node.kind == "table" or not work.streaming):
        raise checks.not_static(node)
    return result


def _readable(work: Frames, sink: Files) -> Files:
    """The sink with a folder that can be read already, before its first batch."""
    if work.prepare:
        sink.prepare_output(work.spark)
        return sink
    if os.path.isdir(sink.identity()):
        return sink
    folder = tempfile.mkdtemp(prefix="headrace-")
    work.stand_ins[folder] = sink.path
    return replace(sink, path=folder)


def _node_of(work: Frames, one: recognition.Recognised, place: str) -> str:
    """The name of the source's node: one for all who read the same."""
    own = {name: work.connectors.get(name) for name in work.recognised}
    name = recognition.free_name(one, {**work.nodes, **own})
    work.recognised.add(name)
    work.nodes.setdefault(name, GraphNode(name, "source", place, connector=one.connector))
    if one.connector is not None:
        work.connectors[name] = one.connector
    return name


def _noted(work: Frames, node: GraphNode) -> Notes:
    """With what a transform may have to know: the query that this is built for, and its sources."""
    above = (work.nodes[name] for name in reversed(work._path))
    query = next((one.name for one in above if one.kind == "query"), None)
    sources = work.sources_of(node.name).values()
    return Notes(
        work.version,
        is_batch=not work.streaming,
        is_real_time=bool(work._real_time & {node.name, query}),
        is_from_brokers=bool(sources) and all(one and one.is_broker for one in sources),
        is_local=work.spark.sparkContext.master.startswith("local"),
    )
