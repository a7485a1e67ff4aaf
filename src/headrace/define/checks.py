"""What is wrong with a query once its connectors and columns are known, in words. Pure.

`graph` judges the names before anything is built; the driver's `build` asks here for the rest.
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
    """Sources and sinks that may not be combined, whatever the query does."""
    found: list[DefinitionError] = []
    lost = [name for name, c in sources.items() if c is not None and not c.is_replayable]
    if lost and node.sink.needs_checkpoint:
        found.append(
            DefinitionError(
                f"{node.name!r} cannot write from {', '.join(lost)} to {node.sink.kind}.",
                why="The source cannot be replayed, so every run begins anew at batch 0; the sink "
                "has seen a batch 0, and would leave out the new one without a word.",
                where=node.place,
                fix="Write to hr.kafka(…), hr.each_batch(…) or hr.console(), or read from files.",
                slug="not-replayable",
            )
        )
    is_at_once = isinstance(node.trigger, RealTime | Continuous)
    if is_at_once and getattr(node.sink, "exactly_once", False):
        found.append(
            DefinitionError(
                f"{node.name!r} cannot write exactly once in real time.",
                why="A transaction is a batch: nobody would see a row before the batch ends.",
                where=node.place,
                fix='Keep one of the two: remove exactly_once from the sink, or give every="…".',
                slug="not-real-time",
            )
        )
    found += [
        DefinitionError(
            f"{node.name!r} reads {name} and writes to the same place, {node.sink.identity()}.",
            why="It would read its own rows for ever.",
            where=node.place,
            fix="Give the sink a folder or topic of its own, or let the source leave that out.",
            slug="reads-itself",
        )
        for name, source in sources.items()
        if source is not None and node.sink.feeds(source)
    ]
    return found + (_toys(node, {**sources, "the sink": node.sink}) if production else [])


def column_problem(node: GraphNode, columns: Sequence[tuple[str, str]]) -> DefinitionError | None:
    """`columns` are (name, type) in order."""
    names = [name for name, _ in columns]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        return DefinitionError(
            f"{node.name!r} gives the column {', '.join(double)} twice.",
            where=node.place,
            fix="Drop one or rename it; join on a column's name to keep one of the two.",
            slug="column-twice",
        )
    wrong = node.sink.sink_problem(dict(columns))
    if wrong is None:
        return None
    fix = "Choose the columns with .select(…)."
    if node.sink.kind == "text":
        fix = 'Make one of it: .select(F.to_json(F.struct("*")).alias("value")).'
    return DefinitionError(
        f"{node.name!r} cannot be written to {node.sink.kind}: {wrong}.",
        where=node.place,
        fix=fix,
        slug="sink-schema",
    )


def mode_problem(
    node: GraphNode, mode: str, able: Mapping[str, str | None]
) -> DefinitionError | None:
    """`able` says for each mode why the query itself cannot run in it, or None if it can."""
    works = [m for m, why in able.items() if why is None and m in node.sink.modes]
    if mode in works:
        return None
    written = f"{node.sink.kind} takes only {', '.join(node.sink.modes)}"
    if len(works) == 1:
        fix = f'Use mode="{works[0]}".'
    elif works:
        fix = f"Modes that work: {', '.join(works)}."
    else:
        can = ", ".join(m for m, why in able.items() if why is None) or "no mode at all"
        fix = f"The query can run in {can}, but {written}: add a watermark, or take another sink."
    return DefinitionError(
        f"{node.name!r} cannot run in {mode} mode.",
        why=able.get(mode) or f"{written}: it cannot change rows that it has written.",
        where=node.place,
        fix=fix,
        slug="unsupported-mode",
    )


def pandas_aggregate(node: GraphNode, function: str) -> DefinitionError:
    return DefinitionError(
        f"{node.name!r} aggregates with {function!r}, a pandas function, which no stream can.",
        why="It needs all rows of a group at once, and a stream never has them all.",
        where=node.place,
        fix="Keep what it needs for each key with transformWithState: guides/own-aggregate.md.",
        slug="pandas-aggregate",
    )


def timer_problem(
    node: GraphNode, transform: str, limit_s: float, trigger: Trigger
) -> DefinitionError | None:
    """Timers run out only when a batch runs: too seldom is late, without an interval it spins."""
    if node.trigger is not None and isinstance(trigger, Every) and trigger.seconds <= limit_s / 2:
        return None
    what = f"{node.name!r} uses hr.{transform}, and has no interval."
    why = "Its timers need a batch now and then also when nothing arrives; without an interval one "
    why += "batch would follow the other for ever."
    if node.trigger is not None and isinstance(trigger, Every):
        what = f"{node.name!r} looks every {trigger.seconds:g} s for what may be silent for "
        what += f"{limit_s:g} s."
        why = "A key that is there all the time could seem silent between two batches."
    return DefinitionError(
        what,
        why=why,
        where=node.place,
        fix=f'Give it every="{min(5.0, limit_s / 2):g} seconds".',
        slug="timer-interval",
    )


# Spark's operator -> what it is, and what to do instead
_REAL_TIME = {
    "EvalPython": ("a Python function", "Use Spark's own functions (F.…, SQL)"),
    "MapIn": ("a Python function", "Use Spark's own functions (F.…, SQL)"),
    "Join": (
        "a join that is not by broadcast on equal keys",
        "Broadcast the table: F.broadcast(…)",
    ),
    "Exchange": ("a repartition", "Take the repartition out"),
    "Coalesce": ("a repartition", "Take the coalesce out"),
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
    """Of a query whose source and sink could. `operators` are those that Spark's list refuses,
    `limited` are sources that limit how much a batch reads."""
    found = []
    for name in limited:
        why = f"{name} says how much a batch or a task reads (max_rows, min_partitions, …)"
        found.append((why, "Remove the limit: rows are read as they come"))
    if remembers:
        found.append((f"it remembers rows ({', '.join(remembers)})", "Count in another query"))
    for name in operators:
        what, fix = next(
            (words for part, words in _REAL_TIME.items() if part in name),
            (f"Spark's operator {name}", "Say it without that"),
        )
        found.append((f"it has {what}", fix))
    if is_twice:
        why = "it reads one source twice, as in a union"
        found.append((why, "Read it once; for several topics use hr.route(df, {topic: condition})"))
    if batch_s < REAL_TIME_MIN_S:
        least = f"{REAL_TIME_MIN_S:g} seconds"
        found.append((f"its batch of {batch_s:g} s is too short", f'Write hr.real_time("{least}")'))
    return [
        DefinitionError(
            f"{node.name!r} cannot run in real time: {why}.",
            why="Spark's real-time trigger takes projections, filters, explode, broadcast joins, "
            "and unions of different sources.",
            where=node.place,
            fix=f"{fix}; or give it every=… in the place of hr.real_time.",
            slug="not-real-time",
        )
        for why, fix in dict.fromkeys(found)
    ]


def too_few_slots(
    held: Mapping[str, int], others: Sequence[str], there: int
) -> DefinitionError | None:
    """`held` are task slots by real-time query: one a partition, for good. `others` share one."""
    needed = sum(held.values()) + bool(others)
    if not held or there >= needed:
        return None
    each = ", ".join(f"{name} {count}" for name, count in held.items())
    return DefinitionError(
        f"{there} task slots are too few: this pipeline needs {needed}.",
        why=f"Real-time queries hold one a partition for good ({each})"
        + (", and the other queries need one" if others else "")
        + ". Spark would hang without a word.",
        where="[spark]",
        fix=f'Write "spark.master" = "local[{needed + 1}]", or leave it out: then it is counted.',
        slug="too-few-slots",
    )


def not_a_dataframe(node: GraphNode, result: object) -> DefinitionError:
    if result is None:
        what, fix = "nothing", "Add `return …` at its end."
        why = "Without a `return` a function returns nothing."
    else:
        what, fix = f"{type(result).__name__} {result!r:.60}", None
        why = "It has to be a DataFrame or SQL text; of a source or table also a connector."
    return DefinitionError(
        f"{node.name!r} returned {what}, not a DataFrame.",
        why=why,
        where=node.place,
        fix=fix,
        slug="not-a-dataframe",
    )


def not_streaming(node: GraphNode, inputs: Sequence[str]) -> DefinitionError:
    other = ", or make it a @hr.table." if node.kind == "source" else "."
    return DefinitionError(
        f"{node.name!r} is not a stream.",
        why=f"It reads {', '.join(inputs) or 'no source'}; only tables have an end, and leave "
        "nothing to keep up to date.",
        where=node.place,
        fix="Read a source: spark.readStream, or [sources.…] without `table = true`" + other,
        slug="not-streaming",
    )


def not_static(node: GraphNode) -> DefinitionError:
    if node.kind == "table":
        what, fix = (
            f"The table {node.name!r} is a stream.",
            "Use spark.read, or make it a @hr.source.",
        )
    else:
        what = f"{node.name!r} cannot be read as a batch: it returns a stream."
        fix = "Return a connector (hr.parquet …): it is read either way."
    return DefinitionError(what, where=node.place, fix=fix, slug="not-static")


def unbounded_state(node: GraphNode, why: str) -> DefinitionError:
    """A warning: few different keys are fine."""
    return DefinitionError(
        f"The state of {node.name!r} grows without end: {why}.",
        why="Every key stays in the checkpoint and in memory.",
        where=node.place,
        fix="Use withWatermark and have that column, or a window of it, among the keys; leave it "
        "so if there are only a few different keys.",
        slug="unbounded-state",
    )


def not_yet_real_time(node: GraphNode, lacks: str) -> DefinitionError:
    """A warning: it runs, but slower than it was meant to."""
    return DefinitionError(
        f"{node.name!r} runs by its otherwise, not in real time: there is no {lacks}.",
        why="Its rows would wait for the end of a batch.",
        where=node.place,
        fix='[alerts]\n  servers = "HOST:PORT"',
        slug="not-yet-real-time",
    )


def _toys(node: GraphNode, used: Mapping[str, Connector | None]) -> list[DefinitionError]:
    return [
        DefinitionError(
            f"{node.name!r} uses {name} ({connector.kind}), which is not for production.",
            why=f"{connector.not_for_production[:1].upper()}{connector.not_for_production[1:]}.",
            where=node.place,
            fix="Use another one in this profile, or say that the profile is not for production: "
            "[profiles.NAME.project] production = false.",
            slug="not-for-production",
        )
        for name, connector in used.items()
        if connector is not None and not connector.for_production
    ]
