"""The tables that SQL can name: the sinks in headrace.toml and the deployed streams.

Reads settings and definitions only; `scan` determines which files belong to a table.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.config import Settings, resolve_path
from headrace.connectors import kinds
from headrace.connectors.connector import Connector
from headrace.connectors.files import FORMATS, files
from headrace.errors import Error, SqlError
from headrace.explore import live_tables
from headrace.model.pipeline import Definition, Query
from headrace.spelling import closest

if TYPE_CHECKING:
    from headrace.connectors.files import Files

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Table:
    """`schema` is Spark's DDL, if known."""

    name: str
    sink: Connector
    schema: str | None = None
    written_by: str = ""  # PIPELINE/QUERY
    snapshots: str = ""  # of a live table: the folder of its snapshots
    is_part: bool = False  # named by a path that may be inside a table's folder

    @property
    def place(self) -> str | None:
        """The location of its rows, if it keeps any."""
        if self.snapshots:
            return self.snapshots
        return self.sink.identity() if self.sink.as_files() else None

    @property
    def is_for_spark(self) -> bool:
        """A topic: only Spark can read it."""
        return self.sink.capabilities.is_broker


@dataclass(frozen=True, slots=True)
class Catalog:
    """`tables` by pipeline and name; the pipeline is empty if the name alone is unique."""

    project: Path
    tables: Mapping[tuple[str, str], Table] = field(default_factory=dict)
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_confined: bool = False  # only paths of known tables are allowed: for the page

    def find(self, parts: tuple[str, ...]) -> Table:
        """`parts` are separated by dots: a format and a path, PIPELINE and STREAM, or a name."""
        if len(parts) == 2 and parts[0].lower() in FORMATS:
            return self._at_path(parts[1], parts[0].lower())
        table = self.look_up(parts)
        if table is None:
            raise self._unknown(".".join(parts))
        return table

    def look_up(self, parts: tuple[str, ...]) -> Table | None:
        """A sink or a stream, or None.

        A stream's name may contain a dot (VIEW.quarantine) without quotes. A stream QUARANTINE of a
        pipeline VIEW takes precedence, because it has no other name.
        """
        full = ".".join(parts)
        known = {(p.lower(), name.lower()): table for (p, name), table in self.tables.items()}
        for pipeline, name in ((parts[0], ".".join(parts[1:])), ("", full)):
            if table := known.get((pipeline.lower(), name.lower())):
                return table
        if names := self.ambiguous.get(full.lower()):
            raise SqlError(
                f"{full!r} is ambiguous: {len(names)} pipelines have a stream with this name.",
                why=f"It could be {', '.join(names)}.",
                fix=f"Use the full name, for example {names[0]}.",
                slug="ambiguous-name",
            )
        return None

    def _at_path(self, path: str, format: str) -> Table:
        """A path that a deployed stream writes has the columns and types of that stream."""
        sink = files(resolve_path(self.project, path), format)
        name = f"{format}.`{path}`"
        real = os.path.realpath(sink.identity())  # a link may lead anywhere
        known = sorted(self.tables.values(), key=lambda table: table.schema is not None)
        owners = {os.path.realpath(table.place): table for table in known if table.place}
        at = next((p for p in (real, *map(str, Path(real).parents)) if p in owners), None)
        if at is None and self.is_confined:
            raise SqlError(
                f"{path!r} does not belong to a table, so the web page cannot query it.",
                why="The web page can query only paths that pipelines write to.",
                fix="Use a table name, or run `headrace sql` on the command line.",
                slug="not-a-table",
            )
        if at is None:
            return Table(name, sink, is_part=True)
        owner, below = owners[at], real.removeprefix(at).split("/")
        if any(part.startswith((".", "_")) and "=" not in part for part in below):
            raise not_committed_error(
                path,
                f"Files and folders whose names start with . or _ are not part of {owner.name!r}.",
            )
        if owner.snapshots and at == real and format == "parquet":
            return replace(owner, name=name)
        if owner.snapshots:
            why = f"It belongs to the live table {owner.name!r}, which can be read only as a whole."
            raise not_committed_error(path, why)
        return Table(name, sink, owner.schema if at == real else None, is_part=at != real)

    def _unknown(self, name: str) -> SqlError:
        known = sorted(sql_name(*key) for key in self.tables)
        meant = closest(name, known)
        shown = ", ".join(known[:SHOWN_MAX]) + (", …" if len(known) > SHOWN_MAX else "")
        return SqlError(
            f"Unknown table {name!r}.",
            why=f"Known tables: {shown}."
            if known
            else "No streams are deployed, and no sinks are defined.",
            fix=f"Did you mean {meant!r}?"
            if meant
            else "To read files, use their path: SELECT * FROM parquet.`data/metrics`",
            slug="unknown-table",
        )


def not_committed_error(path: str, why: str) -> SqlError:
    return SqlError(
        f"{path!r} cannot be read: it is not committed data.",
        why=why,
        fix="Use the table's name or its folder.",
        slug="not-committed",
    )


def sql_name(*parts: str) -> str:
    """The name in SQL, quoted where necessary."""
    return ".".join(p if re.fullmatch(r"[A-Za-z_]\w*", p) else column(p) for p in parts if p)


def column(name: str) -> str:
    """The name in quotes."""
    return "`" + name.replace("`", "``") + "`"


def collect(settings: Settings, definitions: Iterable[Definition]) -> Catalog:
    """The name of a sink in headrace.toml takes precedence over that of a stream."""
    tables: dict[tuple[str, str], Table] = {}
    owners: dict[str, list[str]] = {}
    by_place: dict[str, Table] = {}
    for definition in definitions:
        for query in definition.queries:
            table = _table_from_query(definition.pipeline, query)
            tables[definition.pipeline, query.name] = table
            if place := table.place:
                by_place[place] = table
            owners.setdefault(query.name, []).append(definition.pipeline)
    for name, pipelines in owners.items():
        if len(pipelines) == 1:
            tables["", name] = tables[pipelines[0], name]
    for name, fields in settings.sources.items():
        if kinds.has_topics(fields.get("kind")):
            with contextlib.suppress(Error):  # as below
                tables["", name] = Table(
                    name, kinds.build_connector(fields).resolve_paths(settings.project)
                )
                owners.pop(name, None)
    for name, fields in settings.sinks.items():
        try:
            sink = kinds.build_connector(fields, name=name).resolve_paths(settings.project)
        except Error:
            continue  # `check` reports it; other tables can still be read
        if sink.kind == live_tables.KIND:
            continue  # each stream that writes to it is a table under its own name
        writer = by_place.get(sink.identity() or "") or Table(name, sink)
        tables["", name] = Table(name, sink, writer.schema, writer.written_by)
        owners.pop(name, None)
    ambiguous = {
        name.lower(): tuple(sql_name(pipeline, name) for pipeline in pipelines)
        for name, pipelines in owners.items()
        if len(pipelines) > 1
    }
    return Catalog(settings.project, tables, ambiguous)


def _table_from_query(pipeline: str, query: Query) -> Table:
    try:
        sink = kinds.build_connector(query.sink)
    except Error:
        sink = Connector()  # a function, or a connector that is no longer installed
    is_live = query.sink.get("kind") == live_tables.KIND
    snapshots = str(query.sink.get("path") or "") if is_live else ""
    return Table(query.name, sink, query.schema, f"{pipeline}/{query.name}", snapshots)


def files_of(table: Table) -> Files:
    """Raises if the sink of the table keeps no files."""
    if found := table.sink.as_files():
        return found
    if table.is_for_spark:
        raise SqlError(
            f"{table.name!r} is a Kafka topic, which only Spark can read.",
            fix='Use headrace sql --spark "…", which starts a JVM.',
            slug="needs-spark",
        )
    kind = table.sink.kind or "a function"
    raise SqlError(
        f"{table.name!r} cannot be read: its sink, {kind}, stores no rows.",
        fix="Write the stream to files, for example with hr.parquet.",
        slug="nothing-to-read",
    )
