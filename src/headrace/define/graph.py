"""From declared definitions and settings to a graph of nodes; every mistake at once. Pure.

`resolve` is called by the driver after `loader.load`. Names of sources come from `headrace.toml`
and from `@hr.source`; a parameter of a function is the name of another node. What a function
returns is not known here: SQL text may bring more inputs, which `driver/build` follows.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.config import Settings, counted_from
from headrace.connectors import kinds
from headrace.connectors.connector import Connector
from headrace.connectors.udf import Udf
from headrace.define import triggers
from headrace.define.declared import Collector, Declared
from headrace.define.order import find_cycles, in_order
from headrace.errors import DefinitionError, Error, together
from headrace.model.limits import QuerySettings
from headrace.words import near

SESSION = "spark"
ASIDE = "quarantine"  # VIEW.quarantine is the hidden query of what a view sets aside
NOWHERE = Connector()  # of a query whose sink was refused, and of nodes that have none


@dataclass(frozen=True)
class GraphNode:
    """`function` makes the DataFrame; a source of headrace.toml has a connector instead."""

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
    queries: tuple[str, ...] = ()  # in dependency order; the unsound ones are not among them
    unsound: Mapping[str, Error] = field(default_factory=dict)  # by name: why it cannot be built


def resolve(pipeline: str, collector: Collector, settings: Settings) -> Graph:
    """Raises the one problem, or Problems. `settings` are already those of the pipeline."""
    graph, problems = examine(pipeline, collector, settings)
    if problems:
        raise together(problems)
    return graph


def examine(pipeline: str, collector: Collector, settings: Settings) -> tuple[Graph, list[Error]]:
    """All problems, and what is sound beside them: the rest of a file can still be checked."""
    problems: list[Error] = list(collector.problems)
    unsound: dict[str, Error] = {}
    nodes: dict[str, GraphNode] = {}
    for node in _from_settings(settings, problems, unsound):
        nodes[node.name] = node
    udfs: dict[str, str] = {}
    for one in collector.declared:
        first = udfs.get(one.name) if one.kind == "udf" else _place_of(nodes.get(one.name))
        if first is not None:
            problems.append(_twice(one, first))
            unsound |= {one.name: problems[-1]} if one.kind != "udf" else {}
        elif one.kind == "udf":
            udfs[one.name] = str(one.place)
        else:
            before = len(problems)
            nodes[one.name] = _node(one, pipeline, settings, problems)
            if len(problems) > before or _is_refused(one, nodes[one.name]):
                unsound[one.name] = problems[-1]
    queries = [n for n in nodes.values() if n.kind == "query"]
    if not queries:
        problems.append(_no_streams(pipeline, collector))
    inputs = {n.name: n.inputs for n in nodes.values()}
    for found in (_unknown_inputs(nodes, settings), _unreadable_inputs(nodes)):
        problems += [problem for _, problem in found]
        unsound |= dict(found)
    problems += _unknown_query_settings(nodes, pipeline, settings)
    problems += _shared(queries, {*itertools.chain(*inputs.values())}, pipeline, settings)
    for path in find_cycles(inputs):
        problems.append(cycle(path, nodes))
        unsound |= dict.fromkeys(path, problems[-1])
    order = in_order({name: () if name in unsound else inputs[name] for name in nodes})
    for name in order:  # whoever takes something unsound is so too
        below = [unsound[i] for i in inputs[name] if i in unsound]
        if below:
            unsound.setdefault(name, below[0])
    made = tuple(one.options["udf"] for one in collector.declared if one.kind == "udf")
    sound = tuple(n for n in order if nodes[n].kind == "query" and n not in unsound)
    return Graph(pipeline, nodes, collector, made, sound, unsound), problems


def cycle(path: Sequence[str], nodes: Mapping[str, GraphNode]) -> DefinitionError:
    return DefinitionError(
        f"These definitions need each other in a circle: {' → '.join(path)}.",
        why="Each would have to be built before the other.",
        where=nodes[path[0]].place,
        fix=f"Take one of the names out, for example {path[1]!r} of {path[0]!r}.",
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
    if meant := near(name, known):
        fix = f"Did you mean {meant!r}?"
    elif name in sinks:
        fix = f"{name!r} is a sink; name the stream that writes to it instead."
    else:
        fix = f"Define it with @hr.view, or add [sources.{name}] to headrace.toml."
    return DefinitionError(
        f"{by.name!r} takes {name!r}, which does not exist.",
        why=f"Known here: {', '.join(known) or 'nothing'}; and `spark`, the session.",
        where=where or by.place,
        fix=fix,
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
            connector = kinds.made(own, name=name, where=where).located(settings.project)
        except Error as exc:
            problems.append(exc)
            unsound[name] = exc
            connector = None
        kind = "table" if table.get("table") is True else "source"
        if connector is not None and not connector.is_source:
            unsound[name] = _not_a_source(name, connector, where)
            problems.append(unsound[name])
        nodes.append(GraphNode(name, kind, where, connector=connector))
    for name, table in settings.sinks.items():  # also those that no query of this pipeline uses
        try:
            kinds.made(table, name=name, where=settings.place("sinks", name))
        except Error as exc:
            problems.append(exc)
    return nodes


def _node(one: Declared, pipeline: str, settings: Settings, problems: list[Error]) -> GraphNode:
    inputs = _parameters(one, problems)
    if one.kind != "query":
        return GraphNode(one.name, one.kind, str(one.place), inputs, one.function)
    own = settings.queries.get(one.name) or QuerySettings()
    sink = _sink(one, settings, problems).of_query(settings, pipeline, one.name)
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


def _is_refused(one: Declared, node: GraphNode) -> bool:
    """Where it was declared, or with the settings of its sink: the problem is told already."""
    return bool(one.options.get("is_refused")) or (one.kind == "query" and node.sink is NOWHERE)


def _parameters(one: Declared, problems: list[Error]) -> tuple[str, ...]:
    """Those without a default: one with a default is the user's own, as in pytest."""
    names = []
    for name, parameter in inspect.signature(one.function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problems.append(
                DefinitionError(
                    f"{one.name!r} takes *{name}, which names no input.",
                    where=str(one.place),
                    fix="Name each input as a parameter of its own.",
                    slug="bad-parameter",
                )
            )
        elif parameter.default is parameter.empty and name != SESSION:
            names.append(name)
    return tuple(names)


def _sink(one: Declared, settings: Settings, problems: list[Error]) -> Connector:
    to = one.options["to"]
    if isinstance(to, Connector) and to.is_sink:
        return to.located(settings.project)
    if not isinstance(to, str):
        return NOWHERE  # refused where it was declared
    table = settings.sinks.get(to)
    if table is None:
        meant = near(to, settings.sinks)
        problems.append(
            DefinitionError(
                f"{one.name!r} writes to {to!r}, which is no sink.",
                why=f"headrace.toml has: {', '.join(settings.sinks) or 'no sinks'}.",
                where=str(one.place),
                fix=f"Did you mean {meant!r}?" if meant else f"Add [sinks.{to}] to headrace.toml.",
                slug="unknown-sink",
            )
        )
        return NOWHERE
    try:
        sink = kinds.made(table, name=to).located(settings.project)
    except Error:
        return NOWHERE  # told with the settings
    if not sink.is_sink:
        problems.append(
            DefinitionError(
                f"{one.name!r} writes to {to!r}, but {sink.kind} can only be read.",
                where=str(one.place),
                fix=f"Give [sinks.{to}] another kind.",
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
        f"{by.name!r} reads the stream {name!r}, but its sink {upstream.sink.kind} cannot be read "
        "back.",
        why="A stream as input is its committed output; a console, memory table or function keeps "
        "none.",
        where=by.place,
        fix=f"Write {name!r} to files (hr.parquet), or put what both need into an @hr.view.",
        slug="cannot-read-back",
    )


def _unreadable_inputs(nodes: Mapping[str, GraphNode]) -> list[tuple[str, Error]]:
    return [
        (node.name, unreadable(name, node, nodes[name]))
        for node in nodes.values()
        for name in node.inputs
        if name in nodes and nodes[name].kind == "query"
        if nodes[name].sink is not NOWHERE and not nodes[name].sink.can_read_back
    ]


def _unknown_query_settings(
    nodes: Mapping[str, GraphNode], pipeline: str, settings: Settings
) -> list[Error]:
    known = [node.name for node in nodes.values() if node.kind == "query"]
    found: list[Error] = []
    for name in settings.queries:
        # VIEW.quarantine: whether the view sets rows aside is known once it is built.
        is_aside = any(name.startswith(f"{node}.{ASIDE}") for node in nodes)
        if known and name not in known and not is_aside:
            meant = near(name, known)
            found.append(
                DefinitionError(
                    f"[pipelines.{pipeline}.queries.{name}] is about no query.",
                    why=f"Queries of {pipeline!r} are {', '.join(known)}.",
                    where=settings.place("pipelines", pipeline, "queries", name),
                    fix=f"Did you mean {meant!r}?" if meant else "Remove the section.",
                    slug="unknown-query",
                )
            )
    return found


def _shared(
    queries: Sequence[GraphNode], inputs: Collection[str], pipeline: str, settings: Settings
) -> list[Error]:
    """Checkpoints and sinks that would have two writers. `inputs` are names that others take."""
    found: list[Error] = []
    checkpoints: dict[str, str] = {}
    for name, table in settings.raw.get("pipelines", {}).items():
        for query, own in table.get("queries", {}).items() if name != pipeline else ():
            if isinstance(own, Mapping) and own.get("checkpoint"):
                path = counted_from(settings.project, own["checkpoint"])
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
                    why="It belongs to one query: two would skip and repeat each other's rows.",
                    where=query.place,
                    fix=f"Take `checkpoint` out of [pipelines.{pipeline}.queries.{query.name}]; "
                    "Headrace gives each query its own.",
                    slug="checkpoint-shared",
                )
            )
        checkpoints.setdefault(query.checkpoint, label)
        if (identity := query.sink.identity()) is not None:
            first = sinks.setdefault(identity, query)
            if first is not query and (refused := _sink_shared(first, query, inputs)):
                found.append(refused)
    return found


def _sink_shared(
    first: GraphNode, second: GraphNode, inputs: Collection[str]
) -> DefinitionError | None:
    """Of two queries with one sink. `inputs` are names that are read, also of streams."""
    if first.sink.has_one_writer:
        why = "The folder's log takes a batch number once: the second query's rows with the same "
        why += "number would be left out without a word."
    elif read := next((one.name for one in (first, second) if one.name in inputs), None):
        why = f"Who takes {read!r} reads that back, and would get the other one's rows, too."
    else:
        return None
    return DefinitionError(
        f"{first.name!r} and {second.name!r} both write to {first.sink.identity()}.",
        why=why,
        where=f"{first.place} and {second.place}",
        fix="Give each its own place, or make one query of both with a union.",
        slug="sink-shared",
    )


def _overlap(one: str, other: str) -> bool:
    one, other = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)


def _place_of(node: GraphNode | None) -> str | None:
    return node.place if node is not None else None


def _twice(one: Declared, first: str) -> DefinitionError:
    return DefinitionError(
        f"The name {one.name!r} is used twice: at {first} and at {one.place}.",
        why="A parameter finds its input by name, so each name may stand for one thing.",
        where=str(one.place),
        fix='Rename one of them, or give name="…".',
        slug="name-twice",
    )


def _no_streams(pipeline: str, collector: Collector) -> DefinitionError:
    had = ", ".join(d.name for d in collector.declared)
    return DefinitionError(
        f"The pipeline {pipeline!r} has no stream.",
        why=f"It defines {had}, but nothing that runs." if had else "It defines nothing.",
        where=str(collector.declared[-1].place) if collector.declared else None,
        fix="Put @hr.stream(to=…) before the function whose answer you want kept up to date.",
        slug="no-streams",
    )


def _not_a_source(name: str, connector: Connector, where: str) -> DefinitionError:
    if lacks := connector.lacks_as_source():
        return DefinitionError(
            f"{name!r} does not say what it reads.",
            where=where,
            fix=f"Write {lacks}.",
            slug="not-a-source",
        )
    return DefinitionError(
        f"{name!r} is a source of kind {connector.kind}, which can only be written to.",
        where=where,
        fix=f"Move it to [sinks.{name}], or give it another kind.",
        slug="not-a-source",
    )
