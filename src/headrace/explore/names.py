"""What SQL can name: the sinks of headrace.toml, and the streams that are deployed, by their names.

`find` turns a name into a `Table`, or says what there is instead. Reads settings and definitions
only; which files count is `scan`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.config import Settings, counted_from, near
from headrace.connectors import kinds
from headrace.connectors.connector import Connector
from headrace.connectors.files import FORMATS, Files, files
from headrace.errors import Error, SqlError
from headrace.model.pipeline import Definition

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Table:
    """Something with rows. `schema` is Spark's DDL where it is known."""

    name: str
    sink: Connector
    schema: str | None = None
    written_by: str = ""  # PIPELINE/QUERY


@dataclass(frozen=True, slots=True)
class Names:
    project: Path
    tables: Mapping[str, Table] = field(default_factory=dict)  # by name, also PIPELINE.QUERY
    ambiguous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, name: str, space: str = "") -> Table:
        """`space` is what stands before the dot: a format (the name is a path), or a pipeline."""
        if space.lower() in FORMATS:
            return self._at_path(name, space.lower())
        full = f"{space}.{name}" if space else name
        if full.lower() in self.ambiguous:
            given = self.ambiguous[full.lower()]
            raise SqlError(
                f"{full!r} is a stream of {len(given)} pipelines.",
                why=f"It could be {', '.join(given)}.",
                fix=f"Say which: {given[0]}",
                slug="ambiguous-name",
            )
        found = {known.lower(): table for known, table in self.tables.items()}.get(full.lower())
        if found is None:
            raise self._unknown(full)
        return found

    def _at_path(self, path: str, format: str) -> Table:
        """What a deployed stream writes there has its columns and types."""
        sink = files(counted_from(self.project, path), format)
        writers = [one for one in self.tables.values() if one.sink.identity() == sink.identity()]
        schema = next((one.schema for one in writers), None)
        return Table(f"{format}.`{path}`", sink, schema)

    def _unknown(self, name: str) -> SqlError:
        known = sorted(self.tables)
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


def collect(settings: Settings, definitions: Iterable[Definition]) -> Names:
    """A sink's name wins over a stream's: it stands in headrace.toml, for everyone to see."""
    tables: dict[str, Table] = {}
    owners: dict[str, list[str]] = {}
    by_place: dict[str, Table] = {}
    for one in definitions:
        for query in one.queries:
            try:
                sink = kinds.made(query.sink)
            except Error:
                sink = Connector()  # a function's, or of a kind that is installed no more
            full = f"{one.pipeline}.{query.name}"
            table = Table(query.name, sink, query.schema, f"{one.pipeline}/{query.name}")
            tables[full] = table
            if place := sink.identity():
                by_place[place] = table
            owners.setdefault(query.name, []).append(full)
    for name, full_names in owners.items():
        if len(full_names) == 1:
            tables[name] = tables[full_names[0]]
    for name, fields in settings.sinks.items():
        try:
            sink = kinds.made(fields, name=name).located(settings.project)
        except Error:
            continue  # `check` tells; who only looks is not stopped by it
        writer = by_place.get(sink.identity() or "")
        schema = writer.schema if writer else None
        tables[name] = Table(name, sink, schema, writer.written_by if writer else "")
        owners.pop(name, None)
    ambiguous = {n.lower(): tuple(full) for n, full in owners.items() if len(full) > 1}
    return Names(settings.project, tables, ambiguous)


def files_of(table: Table) -> Files:
    """Its folder; an error for what keeps nothing that could be read."""
    if isinstance(table.sink, Files):
        return table.sink
    kind = table.sink.kind or "a function"
    raise SqlError(
        f"{table.name!r} cannot be read: it goes to {kind}, which keeps no rows.",
        fix="Write it to files (hr.parquet) to have it here.",
        slug="nothing-to-read",
    )
