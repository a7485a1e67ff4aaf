"""What Spark itself says about a built query before it is started: modes, state, sources.

Read by `build`. Everything goes through py4j on the analysed plan; no query runs and nothing is
written. Invariant: these are facts and words; what is refused is decided by the caller.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.connectors.files import ddl
from headrace.errors import DefinitionError
from headrace.words import near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODES = ("append", "update", "complete")
_WATERMARK = "spark.watermarkDelayMs"
_SOURCE_OPTIONS = ("path", "subscribe", "subscribePattern", "assign", "host", "port", "streamName")
_FREE_STATE = (
    "FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState", "TransformWithState",
    "TransformWithStateInPySpark", "TransformWithStateInPandas",
)  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """A part of the query that remembers. `unbounded` says why its state never shrinks."""

    name: str
    keys: tuple[str, ...]
    unbounded: str | None = None
    detail: str = ""

    def grows_in(self, mode: str) -> str | None:
        if self.unbounded is None and mode == "complete" and self.name == "aggregate" and self.keys:
            return "complete mode keeps every group that ever was"
        return self.unbounded


def output_modes(spark: SparkSession, frame: DataFrame) -> dict[str, str | None]:
    """For each mode None if the query can run in it, otherwise Spark's reason."""
    from pyspark.errors import AnalysisException

    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    found: dict[str, str | None] = {}
    for mode in MODES:
        try:
            checker.checkForStreaming(plan_of(frame), getattr(modes, mode.capitalize())())
            found[mode] = None
        except AnalysisException as exc:
            found[mode] = said(exc)
    return found


def operators(spark: SparkSession, frame: DataFrame) -> list[Operator]:
    """The stateful parts, from the sources outwards."""
    found: list[Operator] = []
    for node in walk(plan_of(frame)):
        made = _operator(spark, node) if node.isStreaming() else None
        if made is not None:
            found.append(made)
    return found[::-1]


def pandas_aggregates(frame: DataFrame) -> list[str]:
    """Functions that aggregate a group in pandas; Spark would refuse them with the first batch."""
    return [
        str(part.name())
        for node in walk(plan_of(frame))
        if class_of(node) == "Aggregate" and node.isStreaming()
        for made in each(node.aggregateExpressions())
        for part in walk(made)
        if class_of(part) == "PythonUDAF"
    ]


def sources(frame: DataFrame, real_paths: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """Kind and path or topic of each streaming source in the order that a checkpoint knows them.
    `real_paths` undoes stand-ins that `build` has used."""
    found = []
    for kind, option in relations(frame):
        picked = {o: v for o in _SOURCE_OPTIONS if (v := option(o)) is not None}
        if path := picked.get("path"):
            picked["path"] = (real_paths or {}).get(path, path)
        found.append({"kind": kind, **picked})
    return found


def relations(frame: DataFrame) -> Iterator[tuple[str, Callable[[str], str | None]]]:
    """Each streaming source of the plan: Spark's name of its kind, and a way to ask for an option.
    Options may hold secrets: ask for those that you know."""
    for node in walk(plan_of(frame)):
        name = class_of(node)
        if name == "StreamingRelation":
            yield str(node.dataSource().className()), partial(_defined, node.dataSource().options())
        elif name == "StreamingRelationV2":
            yield str(node.sourceName()), partial(_given, node.extraOptions())


def addresses(frame: DataFrame) -> tuple[str, ...]:
    """HOST:PORT of every broker that the sources of a query name."""
    found: dict[str, None] = {}
    for _, option in relations(frame):
        servers = option("kafka.bootstrap.servers") or ""
        found |= dict.fromkeys(one.strip() for one in servers.split(",") if one.strip())
    return tuple(found)


def fingerprint(
    frame: DataFrame,
    mode: str,
    sink: Mapping[str, Any],
    remembered: list[Operator],
    real_paths: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What must stay the same for a checkpoint to be resumed without a wrong answer."""
    where = {k: v for k, v in sink.items() if k in ("kind", "path", "topic", "table")}
    return {
        "sources": sources(frame, real_paths),
        "schema": ddl(frame.schema),
        "mode": mode,
        "operators": [
            {"name": o.name, "keys": list(o.keys), "detail": o.detail} for o in remembered
        ],
        "watermarks": [
            f"{n.eventTime().name()} {n.delay().toString()}"
            for n in walk(plan_of(frame))
            if class_of(n) == "EventTimeWatermark"
        ],
        "sink": where,
    }


def explained(exc: Exception, name: str, where: str) -> DefinitionError:
    """An exception of the user's function, or of Spark in it, with a fix where one is known."""
    from pyspark.errors import AnalysisException

    if not isinstance(exc, AnalysisException):
        return DefinitionError(
            f"{name!r} raised {type(exc).__name__}: {first_line(str(exc))}",
            why="The function is called once to build the query; nothing has been read yet.",
            where=where,
            fix=f"Correct {where}, then: headrace check",
            slug="definition-raised",
        )
    condition = exc.getCondition() or ""
    fix = f"Correct {where}, then: headrace check"
    given = dict(exc.getMessageParameters() or {})
    if proposed := re.findall(r"`([^`]+)`", given.get("proposal", "")):
        wanted = given.get("objectName", "").strip("`").rsplit("`.`", 1)[-1]
        meant = near(wanted, proposed) or proposed[0]
        fix = f"Did you mean {meant!r}? Columns there: {', '.join(proposed)}."
    return DefinitionError(
        f"{name!r}: {said(exc)}",
        why=f"Spark: {condition}" if condition else None,
        where=where,
        fix=fix,
        slug="analysis-error",
    )


def missing_table(exc: Exception) -> str | None:
    """The name, if Spark did not find a table or view."""
    from pyspark.errors import AnalysisException

    if not isinstance(exc, AnalysisException) or exc.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    given = exc.getMessageParameters() or {}
    return str(given.get("relationName", "")).strip("`").replace("`.`", ".") or None


def said(exc: BaseException) -> str:
    """Spark's first sentence, without its codes and the plan below."""
    line = first_line(str(exc))
    line = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line)
    return re.sub(r"\s*SQLSTATE: \w+;?.*$", "", line).rstrip(";").strip()


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:500]


def _operator(spark: SparkSession, node: Any) -> Operator | None:
    name = class_of(node)
    if name == "Aggregate":
        keys = [_named(e) for e in each(node.groupingExpressions())]
        why = (
            None
            if not keys or any(k.is_watermarked for k in keys)
            else _no_watermark("grouping", keys)
        )
        detail = _hash([_bare(e) for e in each(node.aggregateExpressions())] + _made_by(node, keys))
        return Operator("aggregate", tuple(k.text for k in keys), why, detail)
    if name in ("Deduplicate", "Distinct"):
        attributes = node.keys() if name == "Deduplicate" else node.output()
        keys = [_named(e) for e in each(attributes)]
        why = None if any(k.is_watermarked for k in keys) else _no_watermark("deduplication", keys)
        return Operator("deduplicate", tuple(k.text for k in keys), why)
    if name == "DeduplicateWithinWatermark":
        return Operator(
            "deduplicate-within-watermark", tuple(_named(e).text for e in each(node.keys()))
        )
    if name == "Join":
        if not (node.left().isStreaming() and node.right().isStreaming()):
            return None
        condition = _bare(node.condition().get()) if node.condition().isDefined() else ""
        detail = _hash([node.joinType().toString(), condition])
        return Operator("join", (node.joinType().toString(),), _join_unbounded(spark, node), detail)
    if name in _FREE_STATE:
        return Operator(name, ())
    return None


@dataclass(frozen=True)
class _Key:
    name: str
    text: str
    is_watermarked: bool
    id: int


def _named(expression: Any) -> _Key:
    if class_of(expression) != "AttributeReference":
        return _Key(_bare(expression), _bare(expression), False, -1)
    name = expression.name()
    return _Key(
        name=name,
        text=f"{name} {expression.dataType().simpleString()}",
        is_watermarked=_WATERMARK in expression.metadata().json(),
        id=expression.exprId().id(),
    )


def _made_by(node: Any, keys: list[_Key]) -> list[str]:
    """How a key below is computed: a window of another size has the same name and type."""
    wanted = {k.id for k in keys}
    found = []
    for below in walk(node.child()):
        if class_of(below) == "Project":
            for one in each(below.projectList()):
                if class_of(one) == "Alias" and one.exprId().id() in wanted:
                    found.append(_bare(one.child()))
    return found


def _no_watermark(what: str, keys: list[_Key]) -> str:
    return (
        f"{what} by {', '.join(k.name for k in keys)} has no watermarked column among the keys, "
        "so no key is ever forgotten"
    )


def _join_unbounded(spark: SparkSession, node: Any) -> str | None:
    """Spark forgets rows of a side if the condition bounds their event time by the other side's
    watermark, or if a join key is watermarked."""
    condition = node.condition()
    if not condition.isDefined():
        return "it joins two streams without a condition"
    for part in walk(condition.get()):
        if class_of(part) == "EqualTo":
            sides = (part.left(), part.right())
            if any(class_of(s) == "AttributeReference" and _named(s).is_watermarked for s in sides):
                return None
    jvm: Any = spark._jvm
    helper = jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper
    now = jvm.scala.jdk.javaapi.OptionConverters.toScala(jvm.java.util.OptionalLong.of(0))
    sides = (node.left().outputSet(), node.right().outputSet())
    kept = [
        name
        for name, own, other in (("left", *sides), ("right", *sides[::-1]))
        if helper.getStateValueWatermark(own, other, condition, now).isEmpty()
    ]
    if not kept:
        return None
    sides_kept = " and ".join(kept)
    return f"the join's condition has no watermarked time range that bounds its {sides_kept} side"


def _defined(options: Any, name: str) -> str | None:
    """Of a Scala map."""
    found = options.get(name)
    return str(found.get()) if found.isDefined() else None


def _given(options: Any, name: str) -> str | None:
    """Of a Java map."""
    found = options.get(name)
    return None if found is None else str(found)


def plan_of(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def walk(node: Any) -> Iterator[Any]:
    """A tree of Scala from the top, left before right."""
    yield node
    for child in each(node.children()):
        yield from walk(child)


def each(items: Any) -> Iterator[Any]:
    for position in range(items.size()):
        yield items.apply(position)


def class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _bare(expression: Any) -> str:
    """An expression without the numbers that Spark gives anew each time."""
    return re.sub(r"#\d+L?(-T\d+ms)?", "", str(expression.toString()))


def _hash(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
