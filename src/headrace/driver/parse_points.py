"""Places where records are parsed into columns: `hr.parse_json`, and file sources with a schema.

Found once, when a pipeline is built or a script starts a query. `quality_counts` samples their
records. Invariant: the parsed value is a record of the source, unchanged. After a filter the sample
also has records that are not parsed (`is_filtered`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import Connector
from headrace.driver.field_counts import Field
from headrace.driver.plan_analysis import class_of, each, plan_of, walk
from headrace.transforms.build_notes import ParseNote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.connectors.kafka.connector import Kafka

FIELDS_MAX = 50
LINES = ("json", "csv")  # file formats with one record per line
_OPTIONS = (
    *("header", "sep", "delimiter", "quote", "nullValue", "dateFormat", "timestampFormat"),
    *("multiLine", "lineSep", "wholetext", "encoding", "charset"),
)
_NOT_BY_LINE = {"multiline": "true", "wholetext": "true"}
_PASSING = ("Project", "SubqueryAlias", "EventTimeWatermark", "View", "Filter")


@dataclass(frozen=True)
class ParsePoint:
    """`source` is sampled: a Kafka source, or the path of a folder."""

    name: str  # of the view, the stream or the source
    call: str  # the call with the schema
    place: str
    source: Kafka | str
    format: str  # of a record: parse_json, json or csv
    fields: tuple[Field, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    is_filtered: bool = False  # a filter removes some records before they are parsed

    @property
    def sender(self) -> str:
        """The source's name for people."""
        source = self.source
        if isinstance(source, str):
            return os.path.relpath(source) if os.path.isabs(source) else source
        return ", ".join((*source.subscribe, *source.assign)) or source.pattern or source.servers


def by_parse_json(
    name: str, place: str, note: ParseNote, sources: Iterable[Connector | None]
) -> ParsePoint | None:
    """None if its records cannot be sampled."""
    connectors = list(sources)
    connector = connectors[0] if len(connectors) == 1 else None
    if connector is None or (between := _between(note.frame, note.column)) is None:
        return None
    source: Kafka | str | None = connector.as_kafka()
    options: dict[str, str] = {}
    if (files := connector.as_files()) and files.format == "text":
        source, options = files.identity(), _normalise_options(files.options)
    if source is None or not _is_by_line(options):
        return None
    kind, fields, is_filtered = "parse_json", _fields(note.schema), "Filter" in between
    return ParsePoint(name, f"hr.{kind}", place, source, kind, fields, options, is_filtered)


def by_source(
    frame: DataFrame, known: Mapping[str, tuple[str, str]], place: str
) -> tuple[ParsePoint, ...]:
    """The JSON and CSV file sources of a query. `known` has name and place of declared sources by
    path; other sources get `place`."""
    from pyspark.sql.types import StructType

    points = []
    for node in walk(plan_of(frame)):
        source = node.dataSource() if class_of(node) == "StreamingRelation" else None
        if source is None or source.className().lower() not in LINES:
            continue
        schema, all_options = source.userSpecifiedSchema(), source.options()
        options = _normalise_options(
            {o: v.get() for o in _OPTIONS if (v := all_options.get(o)).isDefined()}
        )
        path = all_options.get("path")
        if schema.isEmpty() or path.isEmpty() or not _is_by_line(options):
            continue
        where = path.get().removeprefix("file://").rstrip("/")
        name, at = known.get(where, (os.path.basename(where), place))
        fields = _fields(StructType.fromJson(json.loads(schema.get().json())))
        kind = source.className().lower()
        points.append(ParsePoint(name, f"hr.{kind}", at, where, kind, fields, options))
    return tuple(points)


def _between(frame: DataFrame, column: str) -> set[str] | None:
    """The operators between a source and this column, None if it is not the source's value."""
    plan, passed = plan_of(frame), set[str]()
    wanted = next((a for a in each(plan.output()) if a.name() == column), None)
    while wanted is not None:
        name = class_of(plan)
        if name.startswith("StreamingRelation"):
            return passed if wanted.name() == "value" else None
        if name not in _PASSING:
            return None
        passed.add(name)
        if name == "Project":
            wanted = _origin(plan, wanted.exprId().id())
        (plan,) = each(plan.children())
    return None


def _origin(project: Any, number: int) -> Any:
    """The column that this one renames or casts, None if it is computed."""
    for expression in each(project.projectList()):
        if expression.exprId().id() == number:
            while class_of(expression) in ("Alias", "Cast"):
                expression = expression.child()
            return expression if class_of(expression) == "AttributeReference" else None
    return None


def _fields(schema: StructType) -> tuple[Field, ...]:
    return tuple(
        Field(column.name, column.dataType.simpleString(), not column.nullable)
        for column in schema.fields[:FIELDS_MAX]
    )


def _normalise_options(options: Mapping[str, str]) -> dict[str, str]:
    normalised = {name.lower(): str(value) for name, value in options.items()}
    if "delimiter" in normalised:
        normalised.setdefault("sep", normalised["delimiter"])
    return normalised


def _is_by_line(options: Mapping[str, str]) -> bool:
    charset = options.get("encoding", options.get("charset", "utf-8")).lower()
    odd = any(options.get(name, "").lower() == value for name, value in _NOT_BY_LINE.items())
    return not odd and "linesep" not in options and charset in ("utf-8", "utf8", "us-ascii")
