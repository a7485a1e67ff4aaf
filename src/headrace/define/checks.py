"""Checks of a query that need its connectors and columns, and their error texts. Pure.

`graph` checks the names before anything is built; the driver's `build` calls the checks here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.connectors.connector import Connector
from headrace.define.graph import GraphNode
from headrace.define.triggers import Continuous, Every, RealTime, Trigger
from headrace.errors import DefinitionError

REAL_TIME_MIN_S = 5.0  # Spark's own limit (spark.sql.streaming.realTimeMode.minBatchDuration)


def connector_problems(
    node: GraphNode, sources: Mapping[str, Connector | None], *, production: bool
) -> list[DefinitionError]:
    """Sources and sinks that cannot be combined in any query."""
    found: list[DefinitionError] = []
    lost = [name for name, c in sources.items() if c and not c.capabilities.is_replayable]
    if lost and node.sink.capabilities.needs_checkpoint:
        found.append(
            DefinitionError(
                f"{node.name!r} cannot write rows from {', '.join(lost)} to {node.sink.kind}.",
                why="The source cannot be replayed, so every run starts at batch 0. The sink skips "
                "batch numbers that it already has, so rows would be silently lost.",
                where=node.place,
                fix="Write to hr.kafka(…), hr.each_batch(…) or hr.console(), or read from files.",
                slug="not-replayable",
            )
        )
    able = node.sink.capabilities
    is_transactional = able.is_broker and able.delivery == "exactly-once"
    if is_transactional and isinstance(node.trigger, RealTime | Continuous):
        kind = "real-time" if isinstance(node.trigger, RealTime) else "continuous"
        found.append(
            DefinitionError(
                f"{node.name!r} combines exactly_once with the {kind} trigger, which is not "
                "supported.",
                why="A transaction covers a whole batch, so rows become visible only when the "
                "batch ends.",
                where=node.place,
                fix='Remove exactly_once from the sink, or use every="…".',
                slug="not-real-time",
            )
        )
    found += [
        DefinitionError(
            f"{node.name!r} reads {name} and writes to the same place, {node.sink.identity()}.",
            why="The query would read its own output forever.",
            where=node.place,
            fix="Write to another folder or topic, or exclude this one from the source.",
            slug="reads-itself",
        )
        for name, source in sources.items()
        if source is not None and node.sink.feeds(source)
    ]
    used = {**sources, "the sink": node.sink} if production else {}
    return found + _production_problems(node, used)


def column_problem(node: GraphNode, columns: Sequence[tuple[str, str]]) -> DefinitionError | None:
    names = [name for name, _ in columns]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        return DefinitionError(
            f"{node.name!r} has duplicate columns: {', '.join(double)}.",
            where=node.place,
            fix="Drop or rename one of each pair. If they come from a join, join by name "
            '(df.join(other, "id")), which keeps only one.',
            slug="column-twice",
        )
    wrong = node.sink.sink_problem(dict(columns))
    if wrong is None:
        return None
    fix = "Change the query's columns with .select(…), or change the sink's options."
    if node.sink.kind == "text":
        fix = 'Combine the columns: .select(F.to_json(F.struct("*")).alias("value")).'
    return DefinitionError(
        f"{node.name!r} cannot be written to {node.sink.kind}: {wrong}.",
        where=node.place,
        fix=fix,
        slug="sink-schema",
    )


def mode_problem(
    node: GraphNode, mode: str, able: Mapping[str, str | None]
) -> DefinitionError | None:
    """`able` has the reason why the query cannot run in a mode, or None if it can."""
    modes = node.sink.capabilities.modes
    works = [m for m, why in able.items() if why is None and m in modes]
    if mode in works:
        return None
    written = f"{node.sink.kind} supports only {', '.join(modes)}"
    if len(works) == 1:
        fix = f'Use mode="{works[0]}".'
    elif works:
        fix = f"Use one of these modes: {', '.join(works)}."
    else:
        can = ", ".join(m for m, why in able.items() if why is None) or "no mode"
        fix = f"Add a watermark, or use another sink: the query supports {can}, but {written}."
    return DefinitionError(
        f"{node.name!r} cannot run in {mode} mode.",
        why=able.get(mode) or f"{written}. This sink cannot change rows that are already written.",
        where=node.place,
        fix=fix,
        slug="unsupported-mode",
    )


def pandas_aggregate(node: GraphNode, function: str) -> DefinitionError:
    return DefinitionError(
        f"{node.name!r} aggregates with the pandas function {function!r}, which streams do not "
        "support.",
        why="The function needs all rows of a group at once, but a stream is never complete.",
        where=node.place,
        fix="Use transformWithState to keep state for each key; see guides/own-aggregate.md.",
        slug="pandas-aggregate",
    )


def timer_problem(
    node: GraphNode, transform: str, limit_s: float, trigger: Trigger
) -> DefinitionError | None:
    """Timers expire only in a batch: with too few they expire late, without an interval batches
    run in a busy loop."""
    what = f"{node.name!r} uses hr.{transform} but has no interval (every=…)."
    why = "Its timers need regular batches, even without new data. Without an interval, batches "
    why += "would run in a busy loop."
    if node.trigger is not None and isinstance(trigger, Every):
        if trigger.seconds <= limit_s / 2:
            return None
        what = (
            f"{node.name!r} runs every {trigger.seconds:g} s, too rarely to detect keys that are "
        )
        what += f"silent for {limit_s:g} s."
        why = "An active key could seem silent between two batches."
    return DefinitionError(
        what,
        why=why,
        where=node.place,
        fix=f'Set every="{min(5.0, limit_s / 2):g} seconds".',
        slug="timer-interval",
    )


# Spark's operator -> description, fix
_REAL_TIME = {
    "EvalPython": ("a Python function", "Use Spark's built-in functions (F.…, SQL)"),
    "MapIn": ("a Python function", "Use Spark's built-in functions (F.…, SQL)"),
    "Join": ("a join that is not a broadcast equi-join", "Broadcast the table: F.broadcast(…)"),
    "Exchange": ("a repartition", "Remove the repartition"),
    "Coalesce": ("coalesce", "Remove the coalesce"),
}


def real_time_problems(
    node: GraphNode,
    operators: Sequence[str],
    remembers: Sequence[str],
    *,
    is_twice: bool,
    batch_s: float,
    limited: Sequence[str] = (),
) -> list[DefinitionError]:
    """For a query whose sources and sink support it. `operators` are not on Spark's allow-list,
    `limited` are sources with a batch limit."""
    found = []
    for name in limited:
        why = f"{name} limits how much a batch or a task reads (max_rows, min_partitions, …)"
        found.append((why, "Remove the limit"))
    if remembers:
        found.append((f"it is stateful ({', '.join(remembers)})", "Aggregate in another query"))
    for name in operators:
        what, fix = next(
            (words for part, words in _REAL_TIME.items() if part in name),
            (f"Spark's operator {name}", "Rewrite the query without it"),
        )
        found.append((f"it uses {what}", fix))
    if is_twice:
        why = "it reads one source twice, as in a union"
        found.append((why, "Read it once (for several topics: hr.route(df, {topic: condition}))"))
    if batch_s < REAL_TIME_MIN_S:
        least = f"{REAL_TIME_MIN_S:g} seconds"
        found.append((f"its batch of {batch_s:g} s is too short", f'Use hr.real_time("{least}")'))
    return [
        DefinitionError(
            f"{node.name!r} cannot run in real time: {why}.",
            why="Spark's real-time trigger supports projections, filters, explode, broadcast "
            "joins, and unions of different sources.",
            where=node.place,
            fix=f"{fix}, or use every=… instead of hr.real_time.",
            slug="not-real-time",
        )
        for why, fix in dict.fromkeys(found)
    ]


def too_few_slots(
    held: Mapping[str, int], others: Sequence[str], there: int
) -> DefinitionError | None:
    """`held`: task slots of each real-time query, one per partition. `others` share one slot."""
    needed = sum(held.values()) + bool(others)
    if not held or there >= needed:
        return None
    each = ", ".join(f"{name}: {count}" for name, count in held.items())
    return DefinitionError(
        f"This pipeline needs {needed} task slots, but there are only {there}.",
        why=f"Real-time queries occupy one slot per partition ({each})"
        + (", and the other queries share one" if others else "")
        + ". With fewer slots, Spark hangs silently.",
        where="[spark]",
        fix=f'Set "spark.master" = "local[{needed + 1}]", or remove the setting so that Headrace '
        "chooses a value.",
        slug="too-few-slots",
    )


def not_a_dataframe(node: GraphNode, result: object) -> DefinitionError:
    what = "None" if result is None else f"{type(result).__name__} {result!r:.60}"
    return DefinitionError(
        f"{node.name!r} returned {what}, not a DataFrame.",
        why="It must return a DataFrame or SQL text; sources and tables can also return a "
        "connector.",
        where=node.place,
        fix="Add a `return` statement."
        if result is None
        else "Return the DataFrame that the function builds.",
        slug="not-a-dataframe",
    )


def not_streaming(node: GraphNode, inputs: Sequence[str]) -> DefinitionError:
    other = ", or make it an @hr.table." if node.kind == "source" else "."
    return DefinitionError(
        f"{node.name!r} is not a stream.",
        why=f"It reads only static data: {', '.join(inputs)}." if inputs else "It reads no source.",
        where=node.place,
        fix="Read a streaming source: spark.readStream, or [sources.…] without `table = true`"
        + other,
        slug="not-streaming",
    )


def not_static(node: GraphNode) -> DefinitionError:
    what = f"{node.name!r} returns a stream, so a batch run cannot read it."
    fix = "Return a connector such as hr.parquet(…), which supports batch and streaming reads."
    if node.kind == "table":
        what = f"The table {node.name!r} is a stream."
        fix = "Use spark.read instead of spark.readStream, or make it an @hr.source."
    return DefinitionError(what, where=node.place, fix=fix, slug="not-static")


def unbounded_state(node: GraphNode, why: str) -> DefinitionError:
    """A warning: with few distinct keys this is fine."""
    return DefinitionError(
        f"The state of {node.name!r} grows without limit: {why}.",
        why="Every key stays in the checkpoint and in memory.",
        where=node.place,
        fix="Use withWatermark, and add the watermark column, or a window over it, to the keys. "
        "Ignore this warning if there are few distinct keys.",
        slug="unbounded-state",
    )


def not_yet_real_time(node: GraphNode, lacks: str) -> DefinitionError:
    """A warning: it runs, but slower than intended."""
    return DefinitionError(
        f"{node.name!r} runs with its otherwise= trigger, not in real time, because {lacks} is not "
        "set.",
        why="Without this setting, a real-time query would deliver rows only at the end of each "
        "batch.",
        where=node.place,
        fix='Add to headrace.toml:\n[alerts]\nservers = "HOST:PORT"',
        slug="not-yet-real-time",
    )


def _production_problems(
    node: GraphNode, used: Mapping[str, Connector | None]
) -> list[DefinitionError]:
    return [
        DefinitionError(
            f"{node.name!r} uses {name} ({connector.kind}), which is not intended for production.",
            why=f"{reason[:1].upper()}{reason[1:]}.",
            where=node.place,
            fix="Use another connector in this profile, or mark the profile as not for production: "
            "[profiles.NAME.project] production = false",
            slug="not-for-production",
        )
        for name, connector in used.items()
        if connector is not None and (reason := connector.capabilities.not_for_production)
    ]
