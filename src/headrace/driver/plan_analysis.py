"""Facts about a query from Spark's analysed plan, before it starts: modes, state, sources.

Used by `build`. Everything is read through py4j; no query runs and nothing is written. The caller
decides what to refuse.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.connectors.files import ddl
from headrace.errors import DefinitionError
from headrace.failures.classifier import FailureText, classify
from headrace.spelling import closest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

MODES = ("append", "update", "complete")
_WATERMARK = "spark.watermarkDelayMs"
_SOURCE_OPTIONS = ("path", "subscribe", "subscribePattern", "assign", "host", "port", "streamName")
_FREE_STATE = (
    "FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState", "TransformWithState",
    "TransformWithStateInPySpark", "TransformWithStateInPandas",
)  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """A stateful operator. `unbounded` is the reason why its state never shrinks."""

    name: str
    keys: tuple[str, ...]
    unbounded: str | None = None
    detail: str = ""

    def grows_in(self, mode: str) -> str | None:
        if self.unbounded is None and mode == "complete" and self.name == "aggregate" and self.keys:
            return "complete mode keeps every group forever"
        return self.unbounded


def output_modes(spark: SparkSession, frame: DataFrame) -> dict[str, str | None]:
    """For each mode, None if the query can run in it, else Spark's reason."""
    from pyspark.errors import AnalysisException

    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    reasons: dict[str, str | None] = {}
    for mode in MODES:
        try:
            checker.checkForStreaming(plan_of(frame), getattr(modes, mode.capitalize())())
            reasons[mode] = None
        except AnalysisException as exc:
            reasons[mode] = short_message(exc)
    return reasons


def operators(spark: SparkSession, frame: DataFrame) -> list[Operator]:
    """The stateful operators, from the sources outwards."""
    nodes = [node for node in walk(plan_of(frame)) if node.isStreaming()]
    return [state for node in reversed(nodes) if (state := _operator(spark, node)) is not None]


def pandas_aggregates(frame: DataFrame) -> list[str]:
    """Grouped-aggregate pandas functions. Spark would refuse them in the first batch."""
    return [
        str(part.name())
        for node in walk(plan_of(frame))
        if class_of(node) == "Aggregate" and node.isStreaming()
        for expression in each(node.aggregateExpressions())
        for part in walk(expression)
        if class_of(part) == "PythonUDAF"
    ]


def sources(frame: DataFrame, real_paths: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """Kind and path or topic of each streaming source, in the order of a checkpoint's offsets.
    `real_paths` maps temporary paths of `build` to the real ones."""
    described = []
    for kind, option in relations(frame):
        picked = {o: v for o in _SOURCE_OPTIONS if (v := option(o)) is not None}
        if path := picked.get("path"):
            picked["path"] = (real_paths or {}).get(path, path)
        described.append({"kind": kind, **picked})
    return described


def relations(frame: DataFrame) -> Iterator[tuple[str, Callable[[str], str | None]]]:
    """Each streaming source of the plan: Spark's name of its kind, and a function that reads one
    option. Options may hold secrets, so read only those that you need."""
    for node in walk(plan_of(frame)):
        name = class_of(node)
        if name == "StreamingRelation":
            source = node.dataSource()
            yield str(source.className()), partial(_get_from_scala_map, source.options())
        elif name == "StreamingRelationV2":
            yield str(node.sourceName()), partial(_get_from_java_map, node.extraOptions())


def addresses(frame: DataFrame) -> tuple[str, ...]:
    """HOST:PORT of every broker in the sources of a query, each once."""
    servers = [option("kafka.bootstrap.servers") or "" for _, option in relations(frame)]
    hosts = [host.strip() for text in servers for host in text.split(",")]
    return tuple(dict.fromkeys(host for host in hosts if host))


def fingerprint(
    frame: DataFrame,
    mode: str,
    sink: Mapping[str, Any],
    stateful: list[Operator],
    real_paths: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What must not change for a checkpoint to resume with correct results."""
    return {
        "sources": sources(frame, real_paths),
        "schema": ddl(frame.schema),
        "mode": mode,
        "operators": [{"name": o.name, "keys": list(o.keys), "detail": o.detail} for o in stateful],
        "watermarks": [
            f"{n.eventTime().name()} {n.delay().toString()}"
            for n in walk(plan_of(frame))
            if class_of(n) == "EventTimeWatermark"
        ],
        "sink": {k: v for k, v in sink.items() if k in ("kind", "path", "topic", "table")},
    }


def to_definition_error(exc: Exception, name: str, where: str) -> DefinitionError:
    """For an exception of the user's function, or of Spark in it."""
    from pyspark.errors import AnalysisException

    fix = f"Correct {where}, then run `headrace check`."
    if not isinstance(exc, AnalysisException):
        why = "The function is called once to build the query. No data has been read yet."
        known = classify(FailureText(causes=((type(exc).__name__, str(exc)),)))
        if known.slug == "python-function-cannot-travel":
            why, fix = f"{known.what} {known.why}", known.fix
        return DefinitionError(
            f"{name!r} raised {type(exc).__name__}: {first_line(str(exc))}",
            why=why,
            where=where,
            fix=fix,
            slug="definition-raised",
        )
    condition = exc.getCondition() or ""
    parameters = dict(exc.getMessageParameters() or {})
    if proposed := re.findall(r"`([^`]+)`", parameters.get("proposal", "")):
        unknown = parameters.get("objectName", "").strip("`").rsplit("`.`", 1)[-1]
        meant = closest(unknown, proposed) or proposed[0]
        fix = f"Did you mean {meant!r}? Available columns: {', '.join(proposed)}."
    return DefinitionError(
        f"{name!r}: {short_message(exc)}",
        why=f"Spark: {condition}" if condition else None,
        where=where,
        fix=fix,
        slug="analysis-error",
    )


def missing_table(exc: Exception) -> str | None:
    """The name of the table or view that Spark did not find, if that is the error."""
    from pyspark.errors import AnalysisException

    if not isinstance(exc, AnalysisException) or exc.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    parameters = exc.getMessageParameters() or {}
    return str(parameters.get("relationName", "")).strip("`").replace("`.`", ".") or None


def short_message(exc: BaseException) -> str:
    """Spark's first sentence, without error codes and the plan."""
    line = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", first_line(str(exc)))
    return re.sub(r"\s*SQLSTATE: \w+;?.*$", "", line).rstrip(";").strip()


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:500]


def _operator(spark: SparkSession, node: Any) -> Operator | None:
    name = class_of(node)
    if name == "Aggregate":
        keys = [_to_key(e) for e in each(node.groupingExpressions())]
        why = _no_watermark_reason("grouping", keys) if keys else None
        aggregates = [_bare(e) for e in each(node.aggregateExpressions())]
        detail = _hash(aggregates + _find_key_expressions(node, keys))
        return Operator("aggregate", tuple(k.text for k in keys), why, detail)
    if name in ("Deduplicate", "Distinct"):
        attributes = node.keys() if name == "Deduplicate" else node.output()
        keys = [_to_key(e) for e in each(attributes)]
        why = _no_watermark_reason("deduplication", keys)
        return Operator("deduplicate", tuple(k.text for k in keys), why)
    if name == "DeduplicateWithinWatermark":
        texts = tuple(_to_key(e).text for e in each(node.keys()))
        return Operator("deduplicate-within-watermark", texts)
    if name == "Join":
        if not (node.left().isStreaming() and node.right().isStreaming()):
            return None
        condition = _bare(node.condition().get()) if node.condition().isDefined() else ""
        kind, why = node.joinType().toString(), _unbounded_join_reason(spark, node)
        return Operator("join", (kind,), why, _hash([kind, condition]))
    return Operator(name, ()) if name in _FREE_STATE else None


class _Key(NamedTuple):
    name: str
    text: str
    is_watermarked: bool
    id: int


def _to_key(expression: Any) -> _Key:
    if class_of(expression) != "AttributeReference":
        return _Key(_bare(expression), _bare(expression), False, -1)
    name = expression.name()
    text = f"{name} {expression.dataType().simpleString()}"
    is_watermarked = _WATERMARK in expression.metadata().json()
    return _Key(name, text, is_watermarked, expression.exprId().id())


def _find_key_expressions(node: Any, keys: list[_Key]) -> list[str]:
    """How the keys are computed: windows of different size have the same name and type."""
    ids = {k.id for k in keys}
    return [
        _bare(expression.child())
        for below in walk(node.child())
        if class_of(below) == "Project"
        for expression in each(below.projectList())
        if class_of(expression) == "Alias" and expression.exprId().id() in ids
    ]


def _no_watermark_reason(what: str, keys: list[_Key]) -> str | None:
    if any(k.is_watermarked for k in keys):
        return None
    names = ", ".join(k.name for k in keys)
    return f"{what} by {names} does not include a watermarked column, so no key is ever removed"


def _unbounded_join_reason(spark: SparkSession, node: Any) -> str | None:
    """Spark removes rows of a side if the condition bounds their event time by the other side's
    watermark, or if a join key is watermarked."""
    condition = node.condition()
    if not condition.isDefined():
        return "it joins two streams without a condition"
    equalities = [part for part in walk(condition.get()) if class_of(part) == "EqualTo"]
    if any(_to_key(side).is_watermarked for e in equalities for side in (e.left(), e.right())):
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
    reason = "the join condition has no time range on a watermarked column that limits the"
    return f"{reason} {' and '.join(kept)} side" if kept else None


def _get_from_scala_map(options: Any, name: str) -> str | None:
    value = options.get(name)
    return str(value.get()) if value.isDefined() else None


def _get_from_java_map(options: Any, name: str) -> str | None:
    value = options.get(name)
    return None if value is None else str(value)


def plan_of(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def execution_of(query: StreamingQuery) -> Any:
    """The JVM's StreamExecution of a query."""
    java: Any = query._jsq
    return java.streamingQuery() if class_of(java) == "StreamingQueryWrapper" else java


def scala_object(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)


def walk(node: Any) -> Iterator[Any]:
    """A Scala tree from the top, left before right."""
    yield node
    for child in each(node.children()):
        yield from walk(child)


def each(items: Any) -> Iterator[Any]:
    for position in range(items.size()):
        yield items.apply(position)


def class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _bare(expression: Any) -> str:
    """An expression without Spark's expression ids, which differ in each session."""
    return re.sub(r"#\d+L?(-T\d+ms)?", "", str(expression.toString()))


def _hash(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
