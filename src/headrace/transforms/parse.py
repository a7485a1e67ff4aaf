"""`hr.parse_json`: text or bytes in, columns out; what does not fit is kept aside with its reason.

Spark's `from_json` alone is lenient where it hurts: it ignores whatever follows the first value,
turns bytes that are not UTF-8 into question marks and a number out of range into infinity. Here a
record is good if all of it is one JSON object that fits the schema. Invariant: every record of the
input is either among the rows given back or in the quarantine, never a row of silent nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import plain_options
from headrace.errors import DefinitionError
from headrace.transforms import columns, engines, notes, vectorised
from headrace.transforms.quarantine import RAW_BYTES, kept_aside

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

RULE = "parse_json"
MAX_BYTES = 10_000_000
_CORRUPT = "_headrace_corrupt"
_RECORD = "_headrace_record"
_RAW = "_headrace_raw"
_DONE = "_headrace_done"
_READ = "_headrace_read_"  # and the number of the field
_BYTES = "_headrace_bytes"
# JSON is what RFC 8259 says; `options=` may loosen that again.
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
    """The fields of `schema` as columns, after those of `df` that `keep` names.

    `schema` is DDL or a StructType; a field that is NOT NULL has to be there. With
    `quarantine=False` bad records are dropped here because another node keeps them already.
    `engine` is what opens them, "spark" or "arrow", with the same result; "auto" chooses.
    """
    fields = _schema(schema)
    kept = (keep,) if isinstance(keep, str) else tuple(keep)
    _refuse_wrong_columns(df, fields, column, kept)
    given = {**_STRICT, **plain_options(options)}
    used = _engine(df, fields, kept, options, engine)
    opened = _Opened(fields, column, max_bytes, given, is_vectorised=used == engines.ARROW)
    if (taken := notes.current()) is not None:
        taken.engines.append(used)
        taken.opened.append(notes.Opened(df, column, fields))
    if quarantine:
        _set_aside(df, opened)
    return opened.rows(df, kept).where(opened.is_good()).select(*kept, *opened.fields())


class _Opened:
    """How a record is opened and judged. The columns it speaks of are those that `rows` adds."""

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
        self.raw = F.col(_RAW)  # null where Arrow has read it
        self.text = self.raw.cast("string")
        self.size = F.col(_BYTES)  # where bad records alone are asked for

    def rows(self, df: DataFrame, kept: tuple[str, ...], *, only_bad: bool = False) -> DataFrame:
        """With each record opened once: Spark would parse again for every use of the result, were
        it not the output of a generator. What Arrow has read already is null here."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType

        df = self._cut(df, kept, only_bad=only_bad)
        if self.is_vectorised:
            df = self._vectorised(df, with_fields=not only_bad)
        parsed = self._from_json(ArrayType(self.schema))
        is_readable = F.is_valid_utf8(self.text)
        if only_bad:
            is_readable = is_readable & (self.size <= self.max_bytes)
        return df.select("*", F.inline(F.array(F.when(is_readable, parsed))))

    def _cut(self, df: DataFrame, kept: tuple[str, ...], *, only_bad: bool) -> DataFrame:
        """Nothing of a record that is too large, or of a bad one its beginning, before anything
        else holds it: every operator with a copy of 50 MB fills the heap."""
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
        """Only for records that are not good, after `rows`."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, StringType

        trimmed = F.btrim(self.text, F.lit(" \t\r\n"))
        # Every JSON value can be had as text: where this fails it is the JSON that is wrong.
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
        """Which fields of the record are wrong, where it is an object that does not fit."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, MapType, StringType

        opened = self._from_json(ArrayType(MapType(StringType(), StringType())))
        texts = F.get(opened[_RECORD], F.lit(0))
        said = []
        for one in self.schema.fields:
            told = F.when(
                texts[one.name].isNotNull() & self._field(one.name).isNull(),
                F.lit(f"{one.name} is no {one.dataType.simpleString()}"),
            )
            if (is_infinite := self._is_infinite(one)) is not None:
                told = told.when(is_infinite, F.lit(f"{one.name} is out of range"))
            if not one.nullable:
                told = told.when(self._is_missing(one), F.lit(f"{one.name} is missing"))
            said.append(told)
        about_fields = self.reason().isin("wrong-type", "out-of-range", "missing-field")
        return F.when(about_fields, F.nullif(F.concat_ws(", ", *said), F.lit("")))

    def _vectorised(self, df: DataFrame, with_fields: bool) -> DataFrame:
        """Where Arrow has read the record its fields are there, else the record still is."""
        from pyspark import cloudpickle
        from pyspark.sql.types import BooleanType, StructField, StructType

        *kept, raw = df.schema.fields
        fields = self.schema.fields
        plan = vectorised.Plan(
            tuple(one.name for one in fields),
            tuple(one.dataType.simpleString() for one in fields),
            tuple(not one.nullable for one in fields),
            self.max_bytes,
        )
        read = [StructField(f"{_READ}{n}", one.dataType) for n, one in enumerate(fields)]
        added = [StructField(_RAW, raw.dataType), StructField(_DONE, BooleanType(), False)]
        added += read if with_fields else []
        # Workers need Arrow, but not us.
        cloudpickle.register_pickle_by_value(vectorised)
        opened = vectorised.worker(plan, tuple(one.name for one in added))
        return df.mapInArrow(opened, StructType([*kept, *added]))

    def _from_json(self, record: Any) -> Column:
        """In brackets, so that nothing may stand before or behind the one value."""
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
    """JSON has no infinity: one comes of a number that a double cannot hold. None: no doubles."""
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


def _engine(
    df: DataFrame,
    schema: StructType,
    kept: tuple[str, ...],
    options: Mapping[str, Any] | None,
    wish: str,
) -> str:
    setting = "spark.sql.legacy.timeParserPolicy"
    time_parser = df.sparkSession.conf.get(setting, "EXCEPTION") or ""
    of_kept = [df.schema[name] for name in kept]
    taken = notes.current()
    refused = engines.refusal(schema, of_kept, bool(options), time_parser)
    return engines.chosen(wish, taken, refused)


def _set_aside(df: DataFrame, opened: _Opened) -> None:
    """Leave a note of the bad records, for the hidden query that keeps them."""
    taken = notes.current()
    if taken is None:
        raise DefinitionError(
            "hr.parse_json keeps bad records aside only inside a pipeline.",
            why="The query that writes them to the quarantine is run by Headrace.",
            fix="Call it in an @hr.view or @hr.stream, or pass quarantine=False to drop them.",
            slug="quarantine-outside",
        )
    if taken.is_batch:
        return
    if not df.isStreaming:
        raise DefinitionError(
            "hr.parse_json was given a table, and only a stream's bad records are kept aside.",
            fix="Pass quarantine=False.",
            slug="quarantine-static",
        )
    taken.asides.append(kept_aside(df, opened, RULE, taken.version))


def _schema(schema: str | StructType) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    try:
        parsed = StructType.fromDDL(schema)
    except PySparkException as exc:
        said = str(exc).strip().splitlines()[0]
        raise DefinitionError(
            f"The schema of hr.parse_json cannot be read: {said}",
            why=f"It is {schema!r}.",
            fix='Write it like "id int, name string, tags array<string>".',
            slug="bad-schema",
        ) from exc
    if not isinstance(parsed, StructType):
        raise DefinitionError(
            f"The schema of hr.parse_json is {parsed.simpleString()}, not a list of fields.",
            fix='Write it like "id int, name string".',
            slug="bad-schema",
        )
    return parsed


def _refuse_wrong_columns(
    df: DataFrame, schema: StructType, column: str, kept: tuple[str, ...]
) -> None:
    kinds = columns.require(df, RULE, (column, *kept))
    if kinds[column] not in ("string", "binary"):
        raise DefinitionError(
            f"hr.parse_json reads text or bytes, and {column!r} is {kinds[column]}.",
            fix="Name the column that holds the JSON.",
            slug="unknown-column",
        )
    names = [*kept, *schema.fieldNames()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DefinitionError(
            f"hr.parse_json would give the column {', '.join(twice)} twice.",
            fix="Take it out of keep=, or rename the column before.",
            slug="column-twice",
        )
