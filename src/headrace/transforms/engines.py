"""Chooses the engine of `parse_json`: Spark's parser, or Arrow in Python workers. Pure.

Both give the same rows. Arrow is faster for large volumes, which are not known in advance, so
"auto" uses it for brokers only, and only on one machine: executors of a cluster may lack Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.transforms import arrow_json
from headrace.transforms.build_notes import BuildNotes

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

AUTO, SPARK, ARROW = "auto", "spark", "arrow"
_KEPT = {
    "string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double",
    "date", "timestamp", "timestamp_ntz",
}  # fmt: skip


def choose(wish: str, notes: BuildNotes | None, refused: str | None) -> str:
    """`refused` is the reason why Arrow cannot be used, if there is one."""
    if wish not in (AUTO, SPARK, ARROW):
        raise DefinitionError(
            f"Invalid engine for hr.parse_json: {wish!r}.",
            fix='Use engine="auto", "spark" or "arrow".',
            slug="bad-engine",
        )
    if notes is not None and notes.is_real_time:
        refused = refused or "a real-time query reads this, where Python is not supported"
    if wish == ARROW and refused:
        raise DefinitionError(
            f'hr.parse_json cannot use the engine "arrow" here: {refused}.',
            why="It supports flat records of simple types, and runs in Python workers.",
            fix="Remove engine=: Spark's parser gives the same rows.",
            slug="bad-engine",
        )
    if wish == AUTO:
        is_worth_it = notes is not None and notes.is_from_brokers and notes.is_local
        return ARROW if is_worth_it and not refused else SPARK
    return wish


def find_arrow_problem(
    schema: StructType, kept: Iterable[StructField], has_options: bool, time_parser: str
) -> str | None:
    """Why Arrow might give another result than Spark; None if it cannot."""
    if has_options:
        return "options= change what Spark's parser does"
    if not schema.fields:
        return "the schema has no fields"
    for one in schema.fields:
        kind = one.dataType.simpleString()
        if kind not in arrow_json.KINDS:
            return f"{one.name} is {_short(kind)}"
        if not arrow_json.NAME.fullmatch(one.name):
            return f"JSON has more than one spelling of the name {one.name!r}"
        if kind in ("timestamp", "date") and time_parser.upper() == "LEGACY":
            return "spark.sql.legacy.timeParserPolicy is LEGACY"
    for one in kept:
        if not _can_travel(one.dataType):
            return f"the kept column {one.name} is {_short(one.dataType.simpleString())}"
        if one.metadata:  # contains the delay of a watermark, which would be lost
            return f"the kept column {one.name} has metadata"
    return None


def _can_travel(kind: Any) -> bool:
    if hasattr(kind, "fields"):
        return all(_can_travel(one.dataType) for one in kind.fields)
    if hasattr(kind, "elementType"):
        return _can_travel(kind.elementType)
    name = kind.simpleString()
    return name in _KEPT or name.startswith("decimal")


def _short(kind: str) -> str:
    return kind if len(kind) <= 40 else kind[:37] + "..."
