"""What SQL can name: the sinks of headrace.toml, and the streams that are deployed, by their names.

`find` turns a name into a `Table`, or says what there is instead. Reads settings and definitions
only; which files count is `scan`'s to say.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.config import Settings, counted_from
from headrace.connectors import kinds
from headrace.connectors.connector import Connector
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.files import FORMATS, Files, files
from headrace.connectors.kafka import Kafka
from headrace.errors import Error, SqlError
from headrace.explore import live
from headrace.model.pipeline import Definition, Query
from headrace.words import near

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Table:
    """Something with rows. `schema` is Spark's DDL where it is known."""

    name: str
    sink: Connector
    schema: str | None = None
    written_by: str = ""  # PIPELINE/QUERY
    snapshots: str = ""  # of a live table: their folder
    is_part: bool = False  # given by a path that may be inside a table's folder

    @property
    def place(self) -> str | None:
        """Where its rows are, if it keeps any."""
        if self.snapshots:
            return self.snapshots
        return self.sink.identity() if isinstance(self.sink, Files) else None

    @property
    def is_for_spark(self) -> bool:
        """Kept by another system, which only Spark can read: a topic."""
        return isinstance(self.sink, Kafka | EventHubs)


@dataclass(frozen=True, slots=True)
class Names:
    """`tables` by pipeline and name; without a pipeline where the name alone says which."""

    project: Path
    tables: Mapping[tuple[str, str], Table] = field(default_factory=dict)
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_confined: bool = False  # paths lead only to where a table's rows are: for the page

    def find(self, parts: tuple[str, ...]) -> Table:
        """`parts` stand between the dots: a format and a path, PIPELINE and STREAM, or a name."""
        if len(parts) == 2 and parts[0].lower() in FORMATS:
            return self._at_path(parts[1], parts[0].lower())
        found = self.look_up(parts)
        if found is None:
            raise self._unknown(".".join(parts))
        return found

    def look_up(self, parts: tuple[str, ...]) -> Table | None:
        """A sink or a stream; None if there is none of this name.

        A stream may have a dot in its name (VIEW.quarantine), and then needs no quotes, unless
        there is such a stream of such a pipeline: that one cannot be said in another way.
        """
        full = ".".join(parts)
        known = {_lower(key): table for key, table in self.tables.items()}
        for key in ((parts[0], ".".join(parts[1:])), ("", full)):
            if found := known.get(_lower(key)):
                return found
        if given := self.ambiguous.get(full.lower()):
            raise SqlError(
                f"{full!r} is a stream of {len(given)} pipelines.",
                why=f"It could be {', '.join(given)}.",
                fix=f"Say which: {given[0]}",
                slug="ambiguous-name",
            )
        return None

    def _at_path(self, path: str, format: str) -> Table:
        """What a deployed stream writes there has its columns and types."""
        sink = files(counted_from(self.project, path), format)
        name = f"{format}.`{path}`"
        real = os.path.realpath(sink.identity())  # a link may lead anywhere
        known = sorted(self.tables.values(), key=lambda one: one.schema is not None)
        owners = {os.path.realpath(one.place): one for one in known if one.place}
        at = next((one for one in (real, *_above(real)) if one in owners), None)
        if at is None and self.is_confined:
            raise SqlError(
                f"The page does not read {path!r}: no table has its rows there.",
                why="A path may lead anywhere on this machine; here only to what pipelines write.",
                fix="Ask by a table's name, or use headrace sql on the command line.",
                slug="not-a-table",
            )
        if at is None:
            return Table(name, sink, is_part=True)
        owner, below = owners[at], real.removeprefix(at).split("/")
        if any(part.startswith((".", "_")) and "=" not in part for part in below):
            raise not_committed(path, f"Names with . or _ in front are not data of {owner.name!r}.")
        if owner.snapshots and at == real and format == "parquet":
            return replace(owner, name=name)
        if owner.snapshots:
            raise not_committed(path, f"It belongs to the live table {owner.name!r}.")
        return Table(name, sink, owner.schema if at == real else None, is_part=at != real)

    def _unknown(self, name: str) -> SqlError:
        known = sorted(spelled(*key) for key in self.tables)
        meant = near(name, known)
        shown = ", ".join(known[:SHOWN_MAX]) + (", …" if len(known) > SHOWN_MAX else "")
        return SqlError(
            f"There is no table {name!r}.",
            why=f"There is: {shown}." if known else "Nothing is deployed, and there are no sinks.",
            fix=f"Did you mean {meant!r}?"
            if meant
            else "Files are read by their path: SELECT * FROM parquet.`data/metrics`",
            slug="unknown-table",
        )


def _above(path: str) -> tuple[str, ...]:
    return tuple(str(one) for one in Path(path).parents)


def not_committed(path: str, why: str) -> SqlError:
    return SqlError(
        f"{path!r} is not committed, so it is not read.",
        why=why,
        fix="Ask for the table by its name, or for its folder.",
        slug="not-committed",
    )


def _lower(key: tuple[str, str]) -> tuple[str, str]:
    return key[0].lower(), key[1].lower()


def spelled(*parts: str) -> str:
    """A name as it has to stand in SQL."""
    return ".".join(p if re.fullmatch(r"[A-Za-z_]\w*", p) else column(p) for p in parts if p)


def column(name: str) -> str:
    """The same, always in quotes."""
    return "`" + name.replace("`", "``") + "`"


def collect(settings: Settings, definitions: Iterable[Definition]) -> Names:
    """A sink's name wins over a stream's: it stands in headrace.toml, for everyone to see."""
    tables: dict[tuple[str, str], Table] = {}
    owners: dict[str, list[str]] = {}
    by_place: dict[str, Table] = {}
    for one in definitions:
        for query in one.queries:
            table = _written(one.pipeline, query)
            tables[one.pipeline, query.name] = table
            if place := table.place:
                by_place[place] = table
            owners.setdefault(query.name, []).append(one.pipeline)
    for name, pipelines in owners.items():
        if len(pipelines) == 1:
            tables["", name] = tables[pipelines[0], name]
    for name, fields in settings.sources.items():
        if fields.get("kind") in (Kafka.kind, EventHubs.kind):
            with contextlib.suppress(Error):  # as below
                tables["", name] = Table(name, kinds.made(fields).located(settings.project))
                owners.pop(name, None)
    for name, fields in settings.sinks.items():
        try:
            sink = kinds.made(fields, name=name).located(settings.project)
        except Error:
            continue  # `check` tells; who only looks is not stopped by it
        if sink.kind == live.KIND:
            continue  # every stream that goes there has a table of its own, with its own name
        writer = by_place.get(sink.identity() or "")
        schema = writer.schema if writer else None
        tables["", name] = Table(name, sink, schema, writer.written_by if writer else "")
        owners.pop(name, None)
    ambiguous = {
        name.lower(): tuple(spelled(pipeline, name) for pipeline in pipelines)
        for name, pipelines in owners.items()
        if len(pipelines) > 1
    }
    return Names(settings.project, tables, ambiguous)


def _written(pipeline: str, query: Query) -> Table:
    try:
        sink = kinds.made(query.sink)
    except Error:
        sink = Connector()  # a function's, or of a kind that is installed no more
    is_live = query.sink.get("kind") == live.KIND
    snapshots = str(query.sink.get("path") or "") if is_live else ""
    return Table(query.name, sink, query.schema, f"{pipeline}/{query.name}", snapshots)


def files_of(table: Table) -> Files:
    """Its folder; an error for what keeps nothing that could be read."""
    if isinstance(table.sink, Files):
        return table.sink
    if table.is_for_spark:
        raise SqlError(
            f"{table.name!r} is a topic of Kafka, which only Spark can read here.",
            fix='headrace sql --spark "…": a JVM starts for it.',
            slug="needs-spark",
        )
    kind = table.sink.kind or "a function"
    raise SqlError(
        f"{table.name!r} cannot be read: it goes to {kind}, which keeps no rows.",
        fix="Write it to files (hr.parquet) to have it here.",
        slug="nothing-to-read",
    )
