"""Parses blocks of JSON records with Arrow, in Spark's Python workers. For `record_parser`.

Arrow and Spark differ in many details, so a record is parsed here only if both give the same
result; Spark parses the others. A check that is too strict costs time, one that is too lax is a
bug. Invariant: the number of rows is verified: records start with `{` and end with `}`, so one that
is not exactly one object breaks the block or adds a row.
Imports only the standard library and Arrow: workers get this module by value. The driver imports it
only when it is used, because Arrow takes long to import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

INTS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
RECORD_BYTES = 20_000  # longer records may exceed limits of Jackson, Spark's parser
SHORT_BYTES = 900  # shorter records cannot exceed them
ODD_SHARE = 0.02  # of a block: each costs an attempt, and beyond this Spark is as fast
_DEEP = 500
_DAY = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_MOMENT = _DAY + r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|\+00:00)"
_ROW = re.compile(r" in row ([0-9]+)$")


@dataclass(frozen=True)
class ParsePlan:
    """Names, types and NOT NULL flags of the fields."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    required: tuple[bool, ...]
    max_bytes: int


def worker(plan: ParsePlan, added: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`. The last input column is the record. It is replaced by the record if Spark
    has to parse it, a flag, and the parsed fields if `added` has names for them."""

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            *kept, raw = batch.columns
            done, fields = read(raw, plan)
            left = pc.if_else(done, pa.scalar(None, raw.type), raw)
            names = [*batch.schema.names[:-1], *added]
            columns = [*kept, left, done, *fields]
            yield pa.RecordBatch.from_arrays(columns[: len(names)], names)

    return parse


def read(raw: Any, plan: ParsePlan) -> tuple[Any, list[Any]]:
    """A flag for each record that was parsed, and the fields."""
    texts = _as_strings(raw)
    table, done = _parse_block(texts, _plausible(texts, plan), plan)
    if table is None:
        return _leave_all(raw, plan)
    fields = []
    for name, kind, is_required in zip(plan.names, plan.kinds, plan.required, strict=True):
        column, fits = _convert_column(table.column(name).combine_chunks(), kind)
        done = _both(done, fits)
        if is_required:
            done = _both(done, column.is_valid())
        fields.append(column)
    return done, fields


def _leave_all(raw: Any, plan: ParsePlan) -> tuple[Any, list[Any]]:
    fields = [pa.nulls(len(raw), _arrow_type(kind)) for kind in plan.kinds]
    return pa.repeat(pa.scalar(False), len(raw)), fields


def suspicious(plan: ParsePlan) -> str:
    """A regular expression (RE2) for text that Arrow and Spark may parse differently, and for most
    text that breaks a block. Matches inside strings are harmless: Spark parses those records."""
    parts = [
        r"\}\s*[{\[]",  # a second value
        r"[:,\[]\s*-?(?:NaN|Inf)",  # numbers to Arrow, also in fields that are not read
        r"\\u",  # lone surrogates are handled differently
        r"\x00",
    ]
    wrong = {
        r"(?:[^-0-9n\s]|-?[0-9]+[.eE]|-?[0-9]{19})": tuple(INTS),
        r"[^-0-9n\s]": ("double",),
        r"[^tfn\s]": ("boolean",),
        r'[^"n\s]': ("string", "timestamp", "date"),
    }
    for begins, kinds in wrong.items():
        of = [re.escape(n) for n, k in zip(plan.names, plan.kinds, strict=True) if k in kinds]
        if of:
            parts.append(rf'"(?:{"|".join(of)})"\s*:\s*{begins}')
    return "|".join(parts)


def _as_strings(raw: Any) -> Any:
    """The bytes as a string array, not validated: `_plausible` checks UTF-8."""
    if pa.types.is_large_string(raw.type) or pa.types.is_large_binary(raw.type):
        raw = raw.cast(pa.binary())
    valid, offsets, data = raw.buffers()
    return pa.StringArray.from_buffers(len(raw), offsets, data, valid, -1, raw.offset)


def _plausible(texts: Any, plan: ParsePlan) -> Any:
    length = pc.binary_length(texts)
    good = pc.less_equal(length, pa.scalar(min(plan.max_bytes, RECORD_BYTES), pa.int32()))
    good = _both(good, pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}")))
    good = _both(good, pc.invert(pc.match_substring_regex(texts, suspicious(plan))))
    good = pc.fill_null(good, False)
    good = _recheck(texts, good, pc.invert(pc.string_is_ascii(texts)), _is_utf8)
    return _recheck(texts, good, pc.greater(length, SHORT_BYTES), _is_within_limits)


def _recheck(texts: Any, good: Any, odd: Any, judge: Callable[[Any], Any]) -> Any:
    """`good`, with the judge's decision for the records in `odd`."""
    odd = pc.fill_null(pc.and_(good, odd), False)  # null records
    if odd.true_count == 0:
        return good
    return pc.replace_with_mask(good, odd, judge(texts.filter(odd)))


def _is_utf8(texts: Any) -> Any:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_can_decode(record) for record in texts.cast(pa.binary()).to_pylist()])
    return pa.repeat(pa.scalar(True), len(texts))


def _can_decode(record: bytes) -> bool:
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_within_limits(texts: Any) -> Any:
    """Jackson rejects numbers of more than 1,000 characters, and more than 1,000 levels."""
    levels = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    long = pc.match_substring_regex(texts, "[0-9]{300}")
    return pc.and_(pc.less_equal(levels, _DEEP), pc.invert(long))


def _parse_block(texts: Any, good: Any, plan: ParsePlan) -> tuple[Any, Any]:
    """A table of all records, with nulls for bad ones, or None. Records that break the block are
    found by the row number in Arrow's error; finally the block is parsed without them."""
    odd: list[int] = []
    begin = 0
    while good.true_count and len(odd) <= max(4, len(texts) * ODD_SHARE):
        parsed = _attempt(texts[begin:], good[begin:], plan)
        if parsed is None:
            return None, good
        if isinstance(parsed, int):
            begin += parsed + 1
            # After an object with trailing text, Arrow reports the next row.
            odd += [max(0, begin - 2), min(begin - 1, len(texts) - 1)]
        elif begin == 0:
            return (parsed, good) if len(parsed) == len(texts) else (None, good)
        else:
            begin = len(texts)
        if begin > len(texts):
            return None, good
        if begin == len(texts):
            begin, good = 0, _without(good, odd)
    return None, good


def _attempt(texts: Any, good: Any, plan: ParsePlan) -> Any:
    """The table, or the row that breaks it, or None if Arrow does not report one."""
    types = [_read_as(kind) for kind in plan.kinds]
    schema = pa.schema(list(zip(plan.names, types, strict=True)))
    wanted = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    block = pc.if_else(good, texts, "{}") if good.true_count < len(good) else texts
    ends = pa.array([0, len(block)], pa.int32())
    data = pc.binary_join(pa.ListArray.from_arrays(ends, block), "\n")[0].as_buffer()
    # One block, so that row numbers start at its beginning; one thread, as Spark runs many tasks.
    options = json.ReadOptions(use_threads=False, block_size=data.size + 1)
    try:
        return json.read_json(pa.BufferReader(data), options, wanted)
    except pa.ArrowInvalid as exc:
        named = _ROW.search(str(exc))
        return int(named[1]) if named else None


def _without(good: Any, odd: list[int]) -> Any:
    mask = good.to_numpy(zero_copy_only=False).copy()
    mask[odd] = False
    return pa.array(mask)


def _convert_column(values: Any, kind: str) -> tuple[Any, Any]:
    """The column in Spark's type, and a flag for values that are right; None if all are."""
    if kind in INTS and INTS[kind] < 64:
        limit = 2 ** (INTS[kind] - 1)
        tried = _cast(values, kind, pc.and_(pc.less(values, limit), pc.less_equal(-limit, values)))
    elif kind == "double":
        # Jackson reads -0 as an int, without sign; Arrow keeps the sign.
        is_signed_zero = pc.equal(pc.divide(1.0, values), float("-inf"))
        fits = pc.and_(pc.is_finite(values), pc.invert(is_signed_zero))
        tried = values, pc.fill_null(fits, True)  # null is null
    elif kind == "timestamp":
        # Only one timestamp format of Arrow has this length and suffix, which is cheap to check.
        # The regular expression is needed if some values are not timestamps.
        tried = _cast(values, kind, pc.or_(_has_zone(values, "Z"), _has_zone(values, "+00:00")))
        tried = tried or _cast(values, kind, pc.match_substring_regex(values, rf"^{_MOMENT}$"))
    elif kind == "date":
        tried = _cast(values, kind, pc.match_substring_regex(values, rf"^{_DAY}$"))
    else:
        tried = values, None
    if tried is None:  # well-formed but invalid, like 30 February: Spark parses the block
        nothing = pa.repeat(pa.scalar(False), len(values))
        return pa.nulls(len(values), _arrow_type(kind)), nothing
    return tried


def _has_zone(values: Any, zone: str) -> Any:
    """Whether it ends with the zone and has the length of zero to six fractional digits."""
    length = pc.subtract(pc.binary_length(values), len(zone))
    fits = pc.or_(pc.equal(length, 19), pc.and_(pc.less(20, length), pc.less(length, 27)))
    return pc.and_(fits, pc.ends_with(values, zone))


def _cast(values: Any, kind: str, fits: Any) -> tuple[Any, Any] | None:
    """Null for values that do not fit. None if the others cannot be converted."""
    fits = pc.fill_null(fits, True)
    if fits.true_count < len(fits):
        values = pc.if_else(fits, values, pa.scalar(None, values.type))
    try:
        return values.cast(_arrow_type(kind)), fits
    except pa.ArrowInvalid:
        return None


def _both(one: Any, other: Any) -> Any:
    return one if other is None else pc.and_(one, other)


def _read_as(kind: str) -> Any:
    """Timestamps as text: the formats of Arrow and Spark differ."""
    if kind in INTS:
        return pa.int64()
    return pa.string() if kind in ("timestamp", "date") else _arrow_type(kind)


def _arrow_type(kind: str) -> Any:
    return {
        "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
        "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(),
    }[kind]  # fmt: skip
