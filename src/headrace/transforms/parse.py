"""`hr.parse_json` parses text or bytes into columns, and quarantines records that do not match.

Spark's `from_json` is too lenient: it ignores text after the first value, replaces invalid UTF-8 by
question marks, and turns numbers out of range into infinity. Here a record is good if all of it is
one JSON object that matches the schema. Invariant: every input record is either in the result or in
the quarantine; bad records never become nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import plain_options
from headrace.errors import DefinitionError
from headrace.transforms import arrow_json, build_notes, columns, engines
from headrace.transforms.quarantine import RAW_BYTES, quarantine_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

RULE = "parse_json"
MAX_BYTES = 10_000_000
_CORRUPT = "_headrace_corrupt"
_RECORD = "_headrace_record"
_RAW = "_headrace_raw"
_DONE = "_headrace_done"
_READ = "_headrace_read_"  # followed by the number of the field
_BYTES = "_headrace_bytes"
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
    used = _choose_engine(df, fields, kept, options, engine)
    opened = _RecordParser(fields, column, max_bytes, given, is_vectorised=used == engines.ARROW)
    if (taken := build_notes.current()) is not None:
        taken.engines.append(used)
        taken.opened.append(build_notes.ParseNote(df, column, fields))
    if quarantine:
        _note_bad_records(df, opened)
    return opened.rows(df, kept).where(opened.is_good()).select(*kept, *opened.fields())


class _RecordParser:
    """Parses and checks records. Its columns refer to those that `rows` adds."""

    def __init__(
        self,
        schema: StructType,
        column: str,
        max_bytes: int,
        options: Mapping[str, str],
        *,
        is_vectorised: bool,
    ) -> None:
        from pyspark.sql import functions as F

        self.schema = schema
        self.column = column
        self.max_bytes = max_bytes
        self.options = options
        self.is_vectorised = is_vectorised
        self.raw = F.col(_RAW)  # null if Arrow parsed it
        self.text = self.raw.cast("string")
        self.size = F.col(_BYTES)  # only with only_bad

    def rows(self, df: DataFrame, kept: tuple[str, ...], *, only_bad: bool = False) -> DataFrame:
        """Parses each record once: Spark would parse again for every use of the result if it were
        not the output of a generator. Null for records that Arrow has parsed."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType

        df = self._limit_record_size(df, kept, only_bad=only_bad)
        if self.is_vectorised:
            df = self._parse_with_arrow(df, with_fields=not only_bad)
        parsed = self._from_json(ArrayType(self.schema))
        is_readable = F.is_valid_utf8(self.text)
        if only_bad:
            is_readable = is_readable & (self.size <= self.max_bytes)
        return df.select("*", F.inline(F.array(F.when(is_readable, parsed))))

    def _limit_record_size(
        self, df: DataFrame, kept: tuple[str, ...], *, only_bad: bool
    ) -> DataFrame:
        """Drop records that are too large, or keep their first bytes, before other operators copy
        them: several copies of 50 MB would fill the heap."""
        from pyspark.sql import functions as F

        raw, size = F.col(self.column), F.octet_length(self.column)
        record = F.when(size <= self.max_bytes, raw)
        if not only_bad:
            return df.select(*kept, record.alias(_RAW))
        cut = record.otherwise(F.substring(raw, 1, RAW_BYTES))
        return df.select(*kept, size.alias(_BYTES), cut.alias(_RAW))

    def fields(self) -> list[Column]:
        from pyspark.sql import functions as F

        found = [(one.name, self._field(one.name)) for one in self.schema.fields]
        if self.is_vectorised:
            found = [
                (name, F.when(F.col(_DONE), F.col(f"{_READ}{n}")).otherwise(slow))
                for n, (name, slow) in enumerate(found)
            ]
        return [value.alias(name) for name, value in found]

    def is_good(self) -> Column:
        from pyspark.sql import functions as F

        is_one = F.col(_CORRUPT).isNull() & (F.size(_RECORD) == 1) & self._record().isNotNull()
        missing = [self._is_missing(one) for one in self.schema.fields if not one.nullable]
        fits = F.coalesce(is_one & ~reduce(or_, missing, self._is_out_of_range()), F.lit(False))
        return F.col(_DONE) | fits if self.is_vectorised else fits

    def reason(self) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, StringType

        trimmed = F.btrim(self.text, F.lit(" \t\r\n"))
        # Any JSON value can be read as a string: if this fails, the JSON is malformed.
        well_formed = self._from_json(ArrayType(StringType()))
        is_json = well_formed[_CORRUPT].isNull() & (F.size(well_formed[_RECORD]) == 1)
        return (
            F.when(self.raw.isNull(), "null")
            .when(self.size > self.max_bytes, "too-large")
            .when(~F.is_valid_utf8(self.text), "not-utf8")
            .when(trimmed == "", "empty")
            .when(~F.coalesce(is_json, F.lit(False)), "malformed")
            .when(~trimmed.startswith("{"), "not-an-object")
            .when(F.col(_CORRUPT).isNotNull(), "wrong-type")
            .when(self._is_out_of_range(), "out-of-range")
            .otherwise("missing-field")
        )  # fmt: skip

    def detail(self) -> Column:
        """The fields of an object that do not match the schema."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, MapType, StringType

        opened = self._from_json(ArrayType(MapType(StringType(), StringType())))
        texts = F.get(opened[_RECORD], F.lit(0))
        details = []
        for one in self.schema.fields:
            detail = F.when(
                texts[one.name].isNotNull() & self._field(one.name).isNull(),
                F.lit(f"{one.name} is not of type {one.dataType.simpleString()}"),
            )
            if (is_infinite := self._is_infinite(one)) is not None:
                detail = detail.when(is_infinite, F.lit(f"{one.name} is out of range"))
            if not one.nullable:
                detail = detail.when(self._is_missing(one), F.lit(f"{one.name} is missing"))
            details.append(detail)
        about_fields = self.reason().isin("wrong-type", "out-of-range", "missing-field")
        return F.when(about_fields, F.nullif(F.concat_ws(", ", *details), F.lit("")))

    def _parse_with_arrow(self, df: DataFrame, with_fields: bool) -> DataFrame:
        """Adds the fields of records that Arrow parsed; the others keep their text."""
        from pyspark import cloudpickle
        from pyspark.sql.types import BooleanType, StructField, StructType

        *kept, raw = df.schema.fields
        fields = self.schema.fields
        plan = arrow_json.ParsePlan(
            tuple(one.name for one in fields),
            tuple(one.dataType.simpleString() for one in fields),
            tuple(not one.nullable for one in fields),
            self.max_bytes,
        )
        read = [StructField(f"{_READ}{n}", one.dataType) for n, one in enumerate(fields)]
        added = [StructField(_RAW, raw.dataType), StructField(_DONE, BooleanType(), False)]
        added += read if with_fields else []
        # Workers need Arrow, but not Headrace.
        cloudpickle.register_pickle_by_value(arrow_json)
        opened = arrow_json.worker(plan, tuple(one.name for one in added))
        return df.mapInArrow(opened, StructType([*kept, *added]))

    def _from_json(self, record: Any) -> Column:
        """Parsed inside an array, so that text around the value is an error."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructType

        shape = StructType().add(_RECORD, record).add(_CORRUPT, StringType())
        text = F.concat(F.lit(f'{{"{_RECORD}":['), self.text, F.lit("]}"))
        settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **self.options}
        return F.from_json(text, shape, settings)

    def _record(self) -> Column:
        from pyspark.sql import functions as F

        return F.get(_RECORD, F.lit(0))

    def _field(self, name: str) -> Column:
        return self._record()[name]

    def _is_missing(self, one: StructField) -> Column:
        return self._field(one.name).isNull()

    def _is_infinite(self, one: StructField) -> Column | None:
        return _holds_infinity(self._field(one.name), one.dataType)

    def _is_out_of_range(self) -> Column:
        from pyspark.sql import functions as F

        found = (self._is_infinite(one) for one in self.schema.fields)
        return reduce(or_, (one for one in found if one is not None), F.lit(False))


def _holds_infinity(value: Column, kind: DataType) -> Column | None:
    """JSON has no infinity: it is the result of an overflow. None if the type has no doubles."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def inside(of: DataType) -> Callable[[Column], Column] | None:
        if _holds_infinity(F.lit(None), of) is None:
            return None
        return lambda item: _holds_infinity(item, of)

    found: list[Column] = []
    if isinstance(kind, T.DoubleType | T.FloatType):
        found = [F.abs(value) == F.lit(float("inf"))]
    elif isinstance(kind, T.StructType):
        parts = [_holds_infinity(value[one.name], one.dataType) for one in kind.fields]
        found = [part for part in parts if part is not None]
    elif isinstance(kind, T.ArrayType) and (item := inside(kind.elementType)):
        found = [F.exists(value, item)]
    elif isinstance(kind, T.MapType) and (item := inside(kind.valueType)):
        found = [F.exists(F.map_values(value), item)]
    if not found:
        return None
    return F.coalesce(reduce(or_, found), F.lit(False))


def _choose_engine(
    df: DataFrame,
    schema: StructType,
    kept: tuple[str, ...],
    options: Mapping[str, Any] | None,
    wish: str,
) -> str:
    setting = "spark.sql.legacy.timeParserPolicy"
    time_parser = df.sparkSession.conf.get(setting, "EXCEPTION") or ""
    of_kept = [df.schema[name] for name in kept]
    taken = build_notes.current()
    refused = engines.find_arrow_problem(schema, of_kept, bool(options), time_parser)
    return engines.choose(wish, taken, refused)


def _note_bad_records(df: DataFrame, opened: _RecordParser) -> None:
    taken = build_notes.current()
    if taken is None:
        raise DefinitionError(
            "hr.parse_json can quarantine bad records only in a pipeline.",
            why="Headrace runs the query that writes them to the quarantine.",
            fix="Call it in an @hr.view or @hr.stream, or pass quarantine=False to drop them.",
            slug="quarantine-outside",
        )
    if taken.is_batch:
        return
    if not df.isStreaming:
        raise DefinitionError(
            "hr.parse_json can quarantine bad records only for a stream, and this is a table.",
            fix="Pass quarantine=False.",
            slug="quarantine-static",
        )
    taken.asides.append(quarantine_rows(df, opened, RULE, taken.version))


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
            f"The schema of hr.parse_json is invalid: {said}",
            why=f"It is {schema!r}.",
            fix='Write for example "id int, name string, tags array<string>".',
            slug="bad-schema",
        ) from exc
    if not isinstance(parsed, StructType):
        raise DefinitionError(
            f"The schema of hr.parse_json is {parsed.simpleString()}, not a list of fields.",
            fix='Write for example "id int, name string".',
            slug="bad-schema",
        )
    return parsed


def _check_columns(df: DataFrame, schema: StructType, column: str, kept: tuple[str, ...]) -> None:
    kinds = columns.require(df, RULE, (column, *kept))
    if kinds[column] not in ("string", "binary"):
        raise DefinitionError(
            f"hr.parse_json reads string or binary, but {column!r} is {kinds[column]}.",
            fix="Name the column that contains the JSON.",
            slug="unknown-column",
        )
    names = [*kept, *schema.fieldNames()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DefinitionError(
            f"hr.parse_json would create the column {', '.join(twice)} twice.",
            fix="Remove it from keep=, or rename the column first.",
            slug="column-twice",
        )
