"""`hr.parse_json` parses text or bytes into columns, and quarantines records that do not match.

Spark's `from_json` is too lenient: it ignores text after the first value, replaces invalid UTF-8 by
question marks, and turns numbers out of range into infinity. Here a record is good if all of it is
one JSON object that matches the schema. Invariant: every input record is either in the result or in
the quarantine; bad records never become nulls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import plain_options
from headrace.errors import DefinitionError
from headrace.transforms import build_notes, column_checks, engines
from headrace.transforms.record_parser import RULE, RecordParser

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

MAX_BYTES = 10_000_000
# RFC 8259; `options=` may override these.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def parse_json(
    df: DataFrame,
    schema: str | StructType,
    column: str = "value",
    *,
    quarantine: bool = True,
    max_bytes: int = MAX_BYTES,
    keep: str | list[str] | tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
    engine: str = engines.AUTO,
) -> DataFrame:
    """The fields of `schema` as columns, after the columns of `df` named by `keep`.

    `schema` is DDL or a StructType; NOT NULL fields are required. With `quarantine=False` bad
    records are dropped, for example because another node keeps them. `engine` is "spark" or
    "arrow", with the same result; "auto" chooses.
    """
    fields = _parse_schema(schema)
    kept = (keep,) if isinstance(keep, str) else tuple(keep)
    _check_columns(df, fields, column, kept)
    given = {**_STRICT, **plain_options(options)}
    used = engines.choose(engine, df, fields, kept, has_options=bool(options))
    parser = RecordParser(fields, column, max_bytes, given, is_vectorised=used == engines.ARROW)
    if (notes := build_notes.current()) is not None:
        notes.engines.append(used)
        notes.opened.append(build_notes.ParseNote(df, column, fields))
    if quarantine:
        _note_bad_records(df, parser)
    return parser.rows(df, kept).where(parser.is_good()).select(*kept, *parser.fields())


def _note_bad_records(df: DataFrame, parser: RecordParser) -> None:
    notes = build_notes.current()
    if notes is None:
        raise DefinitionError(
            "hr.parse_json can quarantine bad records only in a pipeline.",
            why="A separate query writes them to the quarantine, and Headrace runs that query only "
            "in a pipeline.",
            fix="Call hr.parse_json in an @hr.view or @hr.stream, or pass quarantine=False to drop "
            "bad records.",
            slug="quarantine-outside",
        )
    if notes.is_batch:
        return
    if not df.isStreaming:
        raise DefinitionError(
            "hr.parse_json can quarantine bad records only for a stream, but this is a static "
            "DataFrame.",
            fix="Pass quarantine=False.",
            slug="quarantine-static",
        )
    notes.asides.append(parser.quarantine_rows(df, notes.version))


def _parse_schema(schema: str | StructType) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    try:
        parsed = StructType.fromDDL(schema)
    except PySparkException as exc:
        said = str(exc).strip().splitlines()[0]
        raise DefinitionError(
            f"The schema passed to hr.parse_json is invalid: {said}",
            why=f"The schema is {schema!r}.",
            fix='Write, for example, "id int, name string, tags array<string>".',
            slug="bad-schema",
        ) from exc
    if not isinstance(parsed, StructType):
        raise DefinitionError(
            "The schema passed to hr.parse_json must be a list of fields, but it is "
            f"{parsed.simpleString()}.",
            fix='Write, for example, "id int, name string".',
            slug="bad-schema",
        )
    return parsed


def _check_columns(df: DataFrame, schema: StructType, column: str, kept: tuple[str, ...]) -> None:
    kinds = column_checks.require(df, RULE, (column, *kept))
    if kinds[column] not in ("string", "binary"):
        raise DefinitionError(
            f"hr.parse_json reads a string or binary column, but {column!r} is {kinds[column]}.",
            fix="Name the column that contains the JSON.",
            slug="unknown-column",
        )
    names = [*kept, *schema.fieldNames()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DefinitionError(
            f"hr.parse_json would create duplicate columns: {', '.join(twice)}.",
            fix="Remove them from keep=, or rename them first.",
            slug="column-twice",
        )
