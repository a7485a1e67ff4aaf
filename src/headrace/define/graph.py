"""Builds the graph of nodes from declarations and settings, and reports all mistakes. Pure.

The driver calls `resolve` after `loader.load`. Source names come from `headrace.toml` and from
`@hr.source`; a function's parameters are names of other nodes. Functions are not called here: if
one returns SQL text, `driver/build` adds the inputs that the text names.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.config import Settings, resolve_path
from headrace.connectors import kinds
from headrace.connectors.connector import Connector
from headrace.define import listeners, triggers
from headrace.define.declarations import Collector, Declaration
from headrace.define.dependency_order import find_cycles, in_order
from headrace.errors import DefinitionError, Error, together
from headrace.model.limits import QuerySettings
from headrace.spelling import suggest
from headrace.transforms.udf import Udf

SESSION = "spark"
ASIDE = "quarantine"  # VIEW.quarantine is the hidden query for the bad records of a view
NOWHERE = Connector()  # for a query with an invalid sink, and for nodes without one


@dataclass(frozen=True)
class GraphNode:
    """`function` returns the DataFrame; a source in headrace.toml has a connector instead."""

    name: str
    kind: str  # source | table | view | query
    place: str
    inputs: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    connector: Connector | None = None
    sink: Connector = NOWHERE
    mode: str = "append"
    trigger: triggers.Trigger | None = None
    checkpoint: str = ""
    fresh_within_s: float | None = None


@dataclass(frozen=True)
class Graph:
    pipeline: str
    nodes: Mapping[str, GraphNode]
    collector: Collector
    udfs: tuple[Udf, ...] = ()
    queries: tuple[str, ...] = ()  # valid ones, in dependency order
    unsound: Mapping[str, Error] = field(default_factory=dict)  # name: why it cannot be built
    listeners: tuple[Declaration, ...] = ()


def resolve(pipeline: str, collector: Collector, settings: Settings) -> Graph:
    """Raises all problems together. `settings` are those of the pipeline."""
    graph, problems = examine(pipeline, collector, settings)
    if problems:
        raise together(problems)
    return graph


def examine(pipeline: str, collector: Collector, settings: Settings) -> tuple[Graph, list[Error]]:
    """All problems, and the valid rest of the graph, which can still be checked."""
    own, wrong = listeners.declared(collector)
    problems: list[Error] = [*collector.problems, *wrong]
    unsound: dict[str, Error] = {}
    nodes = {node.name: node for node in _from_settings(settings, problems, unsound)}
    udfs: dict[str, Declaration] = {}
    for one in (one for one in collector.declared if one not in own):
        first = udfs.get(one.name) if one.kind == "udf" else nodes.get(one.name)
        if first is not None:
            problems.append(_duplicate_name(one, str(first.place)))
            unsound |= {one.name: problems[-1]} if one.kind != "udf" else {}
        elif one.kind == "udf":
            udfs[one.name] = one
        else:
            before = len(problems)
            nodes[one.name] = _node(one, pipeline, settings, problems)
            if len(problems) > before or _is_invalid(one, nodes[one.name]):
                unsound[one.name] = problems[-1]
    queries = [n for n in nodes.values() if n.kind == "query"]
    if not queries:
        problems.append(_no_streams(pipeline, collector))
    inputs = {n.name: n.inputs for n in nodes.values()}
    for found in (_unknown_inputs(nodes, settings), _unreadable_inputs(nodes)):
        problems += [problem for _, problem in found]
        unsound |= dict(found)
    problems += _unknown_query_settings(nodes, pipeline, settings)
    problems += _writer_conflicts(queries, {*itertools.chain(*inputs.values())}, pipeline, settings)
    for path in find_cycles(inputs):
        problems.append(cycle(path, nodes))
        unsound |= dict.fromkeys(path, problems[-1])
    order = in_order({name: () if name in unsound else inputs[name] for name in nodes})
    for name in order:  # a node with an invalid input is invalid too
        below = [unsound[i] for i in inputs[name] if i in unsound]
        if below:
            unsound.setdefault(name, below[0])
    made = tuple(one.options["udf"] for one in collector.declared if one.kind == "udf")
    sound = tuple(n for n in order if nodes[n].kind == "query" and n not in unsound)
    return Graph(pipeline, nodes, collector, made, sound, unsound, own), problems


def cycle(path: Sequence[str], nodes: Mapping[str, GraphNode]) -> DefinitionError:
    return DefinitionError(
        f"These definitions form a cycle: {' → '.join(path)}.",
        why="Each one needs the next one as an input.",
        where=nodes[path[0]].place,
        fix=f"Remove one of the inputs, for example {path[1]!r} from {path[0]!r}.",
        slug="cycle",
    )


def unknown_input(
    name: str,
    by: GraphNode,
    nodes: Mapping[str, GraphNode],
    where: str | None = None,
    sinks: Sequence[str] = (),
) -> DefinitionError:
    known = sorted(n for n in nodes if n != by.name)
    fix = f"Define it with @hr.view, or add [sources.{name}] to headrace.toml."
    if name in sinks:
        fix = f"{name!r} is a sink; use the stream that writes to it instead."
    return DefinitionError(
        f"{by.name!r} has an unknown input: {name!r}.",
        why=f"Known inputs: {', '.join([*known, 'spark'])}.",
        where=where or by.place,
        fix=suggest(name, known, fix),
        slug="unknown-input",
    )


def _from_settings(
    settings: Settings, problems: list[Error], unsound: dict[str, Error]
) -> list[GraphNode]:
    nodes = []
    for name, table in settings.sources.items():
        where = settings.place("sources", name)
        own = {k: v for k, v in table.items() if k != "table"}
        try:
            built = kinds.build_connector(own, name=name, where=where)
            connector = built.resolve_paths(settings.project)
        except Error as exc:
            problems.append(exc)
            unsound[name] = exc
            connector = None
        kind = "table" if table.get("table") is True else "source"
        if connector is not None and not connector.capabilities.is_source:
            unsound[name] = _not_a_source(name, connector, where)
            problems.append(unsound[name])
        nodes.append(GraphNode(name, kind, where, connector=connector))
    for name, table in settings.sinks.items():  # also those that this pipeline does not use
        try:
            kinds.build_connector(table, name=name, where=settings.place("sinks", name))
        except Error as exc:
            problems.append(exc)
    return nodes


def _node(one: Declaration, pipeline: str, settings: Settings, problems: list[Error]) -> GraphNode:
    inputs = _parameters(one, problems)
    if one.kind != "query":
        return GraphNode(one.name, one.kind, str(one.place), inputs, one.function)
    own = settings.queries.get(one.name) or QuerySettings()
    sink = _sink(one, settings, problems).bind_to_query(settings, pipeline, one.name)
    trigger = one.options["trigger"] if own.every is None else triggers.every(own.every)
    fresh = (own.fresh_within, one.options["fresh_within"], settings.fresh_within)
    return GraphNode(
        name=one.name,
        kind="query",
        place=str(one.place),
        inputs=inputs,
        function=one.function,
        sink=sink,
        mode=one.options["mode"],
        trigger=trigger,
        checkpoint=settings.checkpoint(pipeline, one.name),
        fresh_within_s=next((f for f in fresh if f is not None), None),
    )


def _is_invalid(one: Declaration, node: GraphNode) -> bool:
    """Whether its declaration or sink is invalid, which was already reported."""
    return bool(one.options.get("is_refused")) or (one.kind == "query" and node.sink is NOWHERE)


def _parameters(one: Declaration, problems: list[Error]) -> tuple[str, ...]:
    """Parameters without a default; others belong to the user, as in pytest."""
    names = []
    for name, parameter in inspect.signature(one.function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problems.append(
                DefinitionError(
                    f"{one.name!r} has the parameter *{name}, which is not the name of an input.",
                    where=str(one.place),
                    fix="Replace it with one named parameter for each input.",
                    slug="bad-parameter",
                )
            )
        elif parameter.default is parameter.empty and name != SESSION:
            names.append(name)
    return tuple(names)


def _sink(one: Declaration, settings: Settings, problems: list[Error]) -> Connector:
    to = one.options["to"]
    if isinstance(to, Connector) and to.capabilities.is_sink:
        return to.resolve_paths(settings.project)
    if not isinstance(to, str):
        return NOWHERE  # the decorator reported it
    table = settings.sinks.get(to)
    if table is None:
        problems.append(
            DefinitionError(
                f"{one.name!r} writes to an unknown sink: {to!r}.",
                why=f"Sinks in headrace.toml: {', '.join(settings.sinks) or 'none'}.",
                where=str(one.place),
                fix=suggest(to, settings.sinks, f"Add [sinks.{to}] to headrace.toml."),
                slug="unknown-sink",
            )
        )
        return NOWHERE
    try:
        sink = kinds.build_connector(table, name=to).resolve_paths(settings.project)
    except Error:
        return NOWHERE  # reported with the settings
    if not sink.capabilities.is_sink:
        problems.append(
            DefinitionError(
                f"{one.name!r} writes to {to!r}, but {sink.kind} can only be read from.",
                where=str(one.place),
                fix=f"Change the kind of [sinks.{to}].",
                slug="not-a-sink",
            )
        )
    return sink


def _unknown_inputs(nodes: Mapping[str, GraphNode], settings: Settings) -> list[tuple[str, Error]]:
    return [
        (node.name, unknown_input(name, node, nodes, sinks=tuple(settings.sinks)))
        for node in nodes.values()
        for name in node.inputs
        if name not in nodes
    ]


def unreadable(name: str, by: GraphNode, upstream: GraphNode) -> DefinitionError:
    return DefinitionError(
        f"{by.name!r} reads the stream {name!r}, whose sink ({upstream.sink.kind}) cannot be read.",
        why="Reading a stream means reading its committed output, which this sink does not keep.",
        where=by.place,
        fix=f"Write {name!r} to files (hr.parquet), or move the shared logic to an @hr.view.",
        slug="cannot-read-back",
    )


def _unreadable_inputs(nodes: Mapping[str, GraphNode]) -> list[tuple[str, Error]]:
    return [
        (node.name, unreadable(name, node, nodes[name]))
        for node in nodes.values()
        for name in node.inputs
        if name in nodes and nodes[name].kind == "query"
        if nodes[name].sink is not NOWHERE and not nodes[name].sink.capabilities.can_read_back
    ]


def _unknown_query_settings(
    nodes: Mapping[str, GraphNode], pipeline: str, settings: Settings
) -> list[Error]:
    known = [node.name for node in nodes.values() if node.kind == "query"]
    found: list[Error] = []
    for name in settings.queries:
        # Whether a view has a quarantine is only known when it is built.
        is_aside = any(name.startswith(f"{node}.{ASIDE}") for node in nodes)
        if known and name not in known and not is_aside:
            found.append(
                DefinitionError(
                    f"[pipelines.{pipeline}.queries.{name}] does not match any query.",
                    why=f"Queries in {pipeline!r}: {', '.join(known)}.",
                    where=settings.place("pipelines", pipeline, "queries", name),
                    fix=suggest(name, known, "Remove the section."),
                    slug="unknown-query",
                )
            )
    return found


def _writer_conflicts(
    queries: Sequence[GraphNode], inputs: Collection[str], pipeline: str, settings: Settings
) -> list[Error]:
    """Checkpoints and sinks with two writers. `inputs` are the names that nodes read."""
    found: list[Error] = []
    checkpoints: dict[str, str] = {}
    for name, table in settings.raw.get("pipelines", {}).items():
        for query, own in table.get("queries", {}).items() if name != pipeline else ():
            if isinstance(own, Mapping) and own.get("checkpoint"):
                path = resolve_path(settings.project, own["checkpoint"])
                checkpoints[path] = f"{name}/{query}"
    sinks: dict[str, GraphNode] = {}
    for query in queries:
        label = f"{pipeline}/{query.name}"
        other = next((label_ for path, label_ in checkpoints.items()
                      if _overlap(path, query.checkpoint)), None)  # fmt: skip
        if other:
            found.append(
                DefinitionError(
                    f"{other} and {label} would share the checkpoint {query.checkpoint}.",
                    why="Queries that share a checkpoint lose and duplicate rows.",
                    where=query.place,
                    fix=f"Remove `checkpoint` from [pipelines.{pipeline}.queries.{query.name}] or "
                    "from the other query's section, so that Headrace assigns one.",
                    slug="checkpoint-shared",
                )
            )
        checkpoints.setdefault(query.checkpoint, label)
        if (identity := query.sink.identity()) is not None:
            first = sinks.setdefault(identity, query)
            if first is not query and (refused := _sink_conflict(first, query, inputs)):
                found.append(refused)
    return found


def _sink_conflict(
    first: GraphNode, second: GraphNode, inputs: Collection[str]
) -> DefinitionError | None:
    if first.sink.capabilities.has_one_writer:
        why = "The log in the folder accepts each batch number only once, so rows from one of the "
        why += "queries would be silently lost."
    elif read := next((one.name for one in (first, second) if one.name in inputs), None):
        why = f"Queries that read {read!r} would also read the other query's rows."
    else:
        return None
    return DefinitionError(
        f"{first.name!r} and {second.name!r} both write to {first.sink.identity()}.",
        why=why,
        where=f"{first.place} and {second.place}",
        fix="Write to different places, or combine the two queries with a union.",
        slug="sink-shared",
    )


def _overlap(one: str, other: str) -> bool:
    one, other = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)


def _duplicate_name(one: Declaration, first: str) -> DefinitionError:
    return DefinitionError(
        f"The name {one.name!r} is used twice: at {first} and at {one.place}.",
        why="Parameters refer to inputs by name, so names must be unique.",
        where=str(one.place),
        fix='Rename one of them, or set name="…".',
        slug="name-twice",
    )


def _no_streams(pipeline: str, collector: Collector) -> DefinitionError:
    had = ", ".join(d.name for d in collector.declared)
    return DefinitionError(
        f"The pipeline {pipeline!r} has no stream.",
        why=f"It defines only {had}." if had else "It defines nothing.",
        where=str(collector.declared[-1].place) if collector.declared else None,
        fix="Add @hr.stream(to=…) to the function whose result should be written.",
        slug="no-streams",
    )


def _not_a_source(name: str, connector: Connector, where: str) -> DefinitionError:
    if lacks := connector.lacks_as_source():
        return DefinitionError(
            f"The source {name!r} does not specify what to read.",
            where=where,
            fix=f"Set {lacks}.",
            slug="not-a-source",
        )
    return DefinitionError(
        f"{name!r} is declared as a source, but {connector.kind} can only be written to.",
        where=where,
        fix=f"Move it to [sinks.{name}], or change its kind.",
        slug="not-a-source",
    )
