"""Which engine opens the records of a `parse_json`: Spark's parser, or Arrow in Python workers.

Pure but for reading a schema. Both give the same rows; they differ in what they cost. Arrow pays
for itself where much is read, which nobody knows before: so by itself it is taken for brokers only.
And only on one machine: the executors of a cluster need not have Python, nor Arrow in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.transforms import vectorised
from headrace.transforms.notes import Notes

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

AUTO, SPARK, ARROW = "auto", "spark", "arrow"
_KEPT = {
    "string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double",
    "date", "timestamp", "timestamp_ntz",
}  # fmt: skip


def chosen(wish: str, notes: Notes | None, refused: str | None) -> str:
    """`refused` is why Arrow cannot be had here, if so."""
    if wish not in (AUTO, SPARK, ARROW):
        raise DefinitionError(
            f"hr.parse_json has no engine {wish!r}.",
            fix='Use engine="auto", "spark" or "arrow".',
            slug="bad-engine",
        )
    if notes is not None and notes.is_real_time:
        refused = refused or "a query under the real-time trigger reads this, and takes no Python"
    if wish == ARROW and refused:
        raise DefinitionError(
            f'hr.parse_json cannot use the engine "arrow" here: {refused}.',
            why="It reads flat records of plain types in Python workers, and leaves the rest.",
            fix="Leave engine= away: Spark's own parser gives the same rows.",
            slug="bad-engine",
        )
    if wish == AUTO:
        is_worth_it = notes is not None and notes.is_from_brokers and notes.is_local
        return ARROW if is_worth_it and not refused else SPARK
    return wish


def refusal(
    schema: StructType, kept: Iterable[StructField], has_options: bool, time_parser: str
) -> str | None:
    """Why Arrow cannot be sure to give what Spark gives, in words; None if it can."""
    if has_options:
        return "options= change what Spark's parser does"
    if not schema.fields:
        return "the schema has no fields"
    for one in schema.fields:
        kind = one.dataType.simpleString()
        if kind not in vectorised.KINDS:
            return f"{one.name} is {_short(kind)}"
        if not vectorised.NAME.fullmatch(one.name):
            return f"JSON can write the name {one.name!r} in more than one way"
        if kind in ("timestamp", "date") and time_parser.upper() == "LEGACY":
            return "spark.sql.legacy.timeParserPolicy is LEGACY"
    for one in kept:
        if not _can_travel(one.dataType):
            return f"the kept column {one.name} is {_short(one.dataType.simpleString())}"
        if one.metadata:  # a watermark's delay is kept there, and would be lost
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
