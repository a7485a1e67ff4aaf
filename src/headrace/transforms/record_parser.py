"""The record parser of `hr.parse_json`: parses and checks records, and describes the bad ones.

A hidden query per node writes the bad records to the quarantine. Its `observe` counts the input and
the bad records of each batch, so that input = passed + quarantined can be verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

RULE = "parse_json"
OBSERVED = "headrace_quarantine"  # the metric's name in Spark's progress; fields: rows, bad
RAW_BYTES = 65_536  # kept of a record that is too large
_CORRUPT = "_headrace_corrupt"
_RECORD = "_headrace_record"
_RAW = "_headrace_raw"
_DONE = "_headrace_done"
_READ = "_headrace_read_"  # followed by the number of the field
_BYTES = "_headrace_bytes"


class RecordParser:
    """Its columns refer to those that `rows` adds."""

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

        values = [self._field(field) for field in self.schema.fields]
        if self.is_vectorised:
            values = [
                F.when(F.col(_DONE), F.col(f"{_READ}{n}")).otherwise(slow)
                for n, slow in enumerate(values)
            ]
        return [v.alias(name) for v, name in zip(values, self.schema.fieldNames(), strict=True)]

    def is_good(self) -> Column:
        from pyspark.sql import functions as F

        record = F.get(_RECORD, F.lit(0))
        is_one = F.col(_CORRUPT).isNull() & (F.size(_RECORD) == 1) & record.isNotNull()
        missing = [self._field(field).isNull() for field in self.schema if not field.nullable]
        fits = F.coalesce(is_one & ~reduce(or_, missing, self._is_out_of_range()), F.lit(False))
        return F.col(_DONE) | fits if self.is_vectorised else fits

    def quarantine_rows(self, df: DataFrame, version: str | None) -> DataFrame:
        """The bad records, their origin, and the reason."""
        from pyspark.sql import functions as F

        origin = _origin_columns(df)
        bad = ~self.is_good()
        rows = self.rows(df.withColumns(origin), tuple(origin), only_bad=True).observe(
            OBSERVED, F.count(F.lit(1)).alias("rows"), F.count_if(bad).alias("bad")
        )
        return rows.where(bad).select(
            self.raw.cast("binary").alias("raw"),
            self.size.alias("bytes"),
            self.reason().alias("reason"),
            self.detail().alias("detail"),
            F.lit(RULE).alias("rule"),
            *(F.col(name).alias(name.removeprefix("_headrace_")) for name in origin),
            F.lit(version).cast("string").alias("version"),
            F.current_timestamp().alias("at"),
        )

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

        as_text = self._from_json(ArrayType(MapType(StringType(), StringType())))
        texts = F.get(as_text[_RECORD], F.lit(0))
        details = []
        for field in self.schema.fields:
            name, value = field.name, self._field(field)
            detail = F.when(
                texts[name].isNotNull() & value.isNull(),
                F.lit(f"{name} is not of type {field.dataType.simpleString()}"),
            )
            if (is_infinite := _holds_infinity(value, field.dataType)) is not None:
                detail = detail.when(is_infinite, F.lit(f"{name} is out of range"))
            if not field.nullable:
                detail = detail.when(value.isNull(), F.lit(f"{name} is missing"))
            details.append(detail)
        about_fields = self.reason().isin("wrong-type", "out-of-range", "missing-field")
        return F.when(about_fields, F.nullif(F.concat_ws(", ", *details), F.lit("")))

    def _parse_with_arrow(self, df: DataFrame, with_fields: bool) -> DataFrame:
        """Adds the fields of records that Arrow parsed; the others keep their text."""
        from pyspark import cloudpickle
        from pyspark.sql.types import BooleanType, StructField, StructType

        from headrace.transforms import arrow_json

        *kept, raw = df.schema.fields
        fields = self.schema.fields
        plan = arrow_json.ParsePlan(
            tuple(field.name for field in fields),
            tuple(field.dataType.simpleString() for field in fields),
            tuple(not field.nullable for field in fields),
            self.max_bytes,
        )
        added = [StructField(_RAW, raw.dataType), StructField(_DONE, BooleanType(), False)]
        if with_fields:
            added += [StructField(f"{_READ}{n}", field.dataType) for n, field in enumerate(fields)]
        # Workers need Arrow, but not Headrace.
        cloudpickle.register_pickle_by_value(arrow_json)
        worker = arrow_json.worker(plan, tuple(field.name for field in added))
        return df.mapInArrow(worker, StructType([*kept, *added]))

    def _from_json(self, record: Any) -> Column:
        """Parsed inside an array, so that text around the value is an error."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructType

        shape = StructType().add(_RECORD, record).add(_CORRUPT, StringType())
        text = F.concat(F.lit(f'{{"{_RECORD}":['), self.text, F.lit("]}"))
        settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **self.options}
        return F.from_json(text, shape, settings)

    def _field(self, field: StructField) -> Column:
        from pyspark.sql import functions as F

        return F.get(_RECORD, F.lit(0))[field.name]

    def _is_out_of_range(self) -> Column:
        from pyspark.sql import functions as F

        tests = (_holds_infinity(self._field(field), field.dataType) for field in self.schema)
        return reduce(or_, (test for test in tests if test is not None), F.lit(False))


def _holds_infinity(value: Column, kind: DataType) -> Column | None:
    """JSON has no infinity: it is the result of an overflow. None if the type has no doubles."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def inside(of: DataType) -> Callable[[Column], Column] | None:
        if _holds_infinity(F.lit(None), of) is None:
            return None
        return lambda item: _holds_infinity(item, of)

    tests: list[Column] = []
    if isinstance(kind, T.DoubleType | T.FloatType):
        tests = [F.abs(value) == F.lit(float("inf"))]
    elif isinstance(kind, T.StructType):
        parts = [_holds_infinity(value[field.name], field.dataType) for field in kind]
        tests = [part for part in parts if part is not None]
    elif isinstance(kind, T.ArrayType) and (item := inside(kind.elementType)):
        tests = [F.exists(value, item)]
    elif isinstance(kind, T.MapType) and (item := inside(kind.valueType)):
        tests = [F.exists(F.map_values(value), item)]
    return F.coalesce(reduce(or_, tests), F.lit(False)) if tests else None


def _origin_columns(df: DataFrame) -> dict[str, Column]:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    source = partition = offset = F.lit(None)
    if {"topic", "partition", "offset"} <= set(df.columns):
        source, partition, offset = F.col("topic"), F.col("partition"), F.col("offset")
    else:
        try:
            df.select("_metadata.file_path")
            source = F.col("_metadata.file_path")
        except AnalysisException:  # not from files, or the column was dropped
            pass
    return {
        "_headrace_source": source.cast("string"),
        "_headrace_partition": partition.cast("int"),
        "_headrace_offset": offset.cast("bigint"),
    }
