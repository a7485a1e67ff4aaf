"""Chooses the engine of `parse_json`: Spark's parser, or Arrow in Python workers.

Both give the same rows. Arrow is faster for large volumes, which are not known in advance, so
"auto" uses it for brokers only, and only on one machine: executors of a cluster may lack Arrow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.transforms import build_notes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

AUTO, SPARK, ARROW = "auto", "spark", "arrow"
_NUMBERS = {"tinyint", "smallint", "int", "bigint", "double"}
_PARSED = _NUMBERS | {"boolean", "string", "timestamp", "date"}
_KEPT = _PARSED | {"binary", "float", "timestamp_ntz"}
_NAME = re.compile(r'[^"\\\x00-\x1f\x7f-\U0010ffff]+')  # a key with one JSON spelling


def choose(
    wish: str, df: DataFrame, schema: StructType, kept: tuple[str, ...], *, has_options: bool
) -> str:
    if wish not in (AUTO, SPARK, ARROW):
        raise DefinitionError(
            f"Invalid engine for hr.parse_json: {wish!r}.",
            fix='Use engine="auto", "spark" or "arrow".',
            slug="bad-engine",
        )
    notes = build_notes.current()
    refused = _find_arrow_problem(df, schema, kept, has_options)
    if notes is not None and notes.is_real_time:
        refused = (
            refused
            or "a real-time query reads the result, and real-time queries do not support Python"
        )
    if wish == ARROW and refused:
        raise DefinitionError(
            f'hr.parse_json cannot use the engine "arrow" here: {refused}.',
            why="That engine supports flat records of simple types, and runs in Python workers.",
            fix="Remove engine= to use Spark's parser, which gives the same rows.",
            slug="bad-engine",
        )
    if wish == AUTO:
        is_worth_it = notes is not None and notes.is_from_brokers and notes.is_local
        return ARROW if is_worth_it and not refused else SPARK
    return wish


def _find_arrow_problem(
    df: DataFrame, schema: StructType, kept: tuple[str, ...], has_options: bool
) -> str | None:
    """Why the results of Arrow and Spark might differ; None if they cannot."""
    if has_options:
        return "options= applies only to Spark's parser"
    if not schema.fields:
        return "the schema has no fields"
    time_parser = df.sparkSession.conf.get("spark.sql.legacy.timeParserPolicy", "EXCEPTION") or ""
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if kind not in _PARSED:
            return f"the field {field.name} has type {_short(kind)}"
        if not _NAME.fullmatch(field.name):
            return f"the field name {field.name!r} can be written in more than one way in JSON"
        if kind in ("timestamp", "date") and time_parser.upper() == "LEGACY":
            return "spark.sql.legacy.timeParserPolicy is LEGACY"
    for column in (df.schema[name] for name in kept):
        if not _can_travel(column.dataType):
            kind = _short(column.dataType.simpleString())
            return f"the column {column.name} in keep= has type {kind}"
        if column.metadata:  # contains the delay of a watermark, which would be lost
            return f"the column {column.name} in keep= has metadata, such as a watermark"
    return None


def _can_travel(kind: Any) -> bool:
    if hasattr(kind, "fields"):
        return all(_can_travel(field.dataType) for field in kind.fields)
    if hasattr(kind, "elementType"):
        return _can_travel(kind.elementType)
    name = kind.simpleString()
    return name in _KEPT or name.startswith("decimal")


def _short(kind: str) -> str:
    return kind if len(kind) <= 40 else kind[:37] + "..."
