"""Where records become columns: `hr.parse_json` over a source, and file sources with a schema.

Found once, when a pipeline is built or a script starts a query. Read by `counts`, which looks at a
few of the records now and then.
Invariant: only where a record of the source is what is parsed. Behind a filter the sample has other
records as well, so that less can be concluded from it (`is_filtered`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import Connector
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.files import Files
from headrace.connectors.kafka import Kafka
from headrace.driver.analyse import class_of, each, plan_of, walk
from headrace.driver.fieldcounts import Field
from headrace.transforms.notes import Opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FIELDS_MAX = 50
LINES = ("json", "csv")  # formats of files with a record a line
_OPTIONS = (
    *("header", "sep", "delimiter", "quote", "nullValue", "dateFormat", "timestampFormat"),
    *("multiLine", "lineSep", "wholetext", "encoding", "charset"),
)
_NOT_BY_LINE = {"multiline": "true", "wholetext": "true"}
_PASSING = ("Project", "SubqueryAlias", "EventTimeWatermark", "View", "Filter")


@dataclass(frozen=True)
class Parsed:
    """`source` is what is sampled: a topic, or the path of a folder."""

    name: str  # of the view, the stream or the source that people know
    call: str  # what has the schema
    place: str
    source: Kafka | str
    format: str  # of a record: parse_json, json, csv
    fields: tuple[Field, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    is_filtered: bool = False  # some records of the source do not come so far

    @property
    def sender(self) -> str:
        """What it reads, for people."""
        if isinstance(self.source, str):
            return os.path.relpath(self.source) if os.path.isabs(self.source) else self.source
        one = self.source
        return ", ".join((*one.subscribe, *one.assign)) or one.pattern or one.servers


def by_parse_json(
    name: str, place: str, opened: Opened, sources: Iterable[Connector | None]
) -> Parsed | None:
    """None where it cannot be sampled."""
    found = list(sources)
    if len(found) != 1 or (between := _between(opened.frame, opened.column)) is None:
        return None
    source: Kafka | str
    options: dict[str, str] = {}
    match found[0]:
        case EventHubs() as hubs:
            source = hubs.as_kafka(is_source=True)
        case Kafka() as kafka:
            source = kafka
        case Files(format="text") as files:
            source, options = files.identity(), _lowered(files.options)
            if not _is_by_line(options):
                return None
        case _:
            return None
    fields = _fields(opened.schema)
    is_filtered = "Filter" in between
    return Parsed(name, "hr.parse_json", place, source, "parse_json", fields, options, is_filtered)


def by_source(
    frame: DataFrame, known: Mapping[str, tuple[str, str]], place: str
) -> tuple[Parsed, ...]:
    """File sources of a query that are JSON or CSV. `known`: name and place by path; a script has
    none, and there `place` is where it starts the query."""
    from pyspark.sql.types import StructType

    found = []
    for node in walk(plan_of(frame)):
        source = node.dataSource() if class_of(node) == "StreamingRelation" else None
        if source is None or source.className().lower() not in LINES:
            continue
        schema, given = source.userSpecifiedSchema(), source.options()
        options = _lowered({o: v.get() for o in _OPTIONS if (v := given.get(o)).isDefined()})
        path = given.get("path")
        if schema.isEmpty() or path.isEmpty() or not _is_by_line(options):
            continue
        where = path.get().removeprefix("file://").rstrip("/")
        name, at = known.get(where, (os.path.basename(where), place))
        fields = _fields(StructType.fromJson(json.loads(schema.get().json())))
        kind = source.className().lower()
        found.append(Parsed(name, f"hr.{kind}", at, where, kind, fields, options))
    return tuple(found)


def _between(frame: DataFrame, column: str) -> set[str] | None:
    """What lies between a source and this column, if that is the source's value; else None."""
    plan, found = plan_of(frame), set[str]()
    wanted = next((a for a in each(plan.output()) if a.name() == column), None)
    while wanted is not None:
        name = class_of(plan)
        if name.startswith("StreamingRelation"):
            return found if wanted.name() == "value" else None
        if name not in _PASSING:
            return None
        found.add(name)
        if name == "Project":
            wanted = _origin(plan, wanted.exprId().id())
        (plan,) = each(plan.children())
    return None


def _origin(project: Any, number: int) -> Any:
    """The column that another one is, by name or as text; None if it is computed."""
    for one in each(project.projectList()):
        if one.exprId().id() == number:
            while class_of(one) in ("Alias", "Cast"):
                one = one.child()
            return one if class_of(one) == "AttributeReference" else None
    return None


def _fields(schema: StructType) -> tuple[Field, ...]:
    return tuple(
        Field(one.name, one.dataType.simpleString(), not one.nullable)
        for one in schema.fields[:FIELDS_MAX]
    )


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    found = {name.lower(): str(value) for name, value in options.items()}
    if "delimiter" in found:
        found.setdefault("sep", found["delimiter"])
    return found


def _is_by_line(options: Mapping[str, str]) -> bool:
    charset = options.get("encoding", options.get("charset", "utf-8")).lower()
    odd = any(options.get(name, "").lower() == value for name, value in _NOT_BY_LINE.items())
    return not odd and "linesep" not in options and charset in ("utf-8", "utf8", "us-ascii")
