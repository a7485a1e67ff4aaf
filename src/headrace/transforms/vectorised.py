"""A block of JSON records read at once by Arrow; runs in Spark's Python workers.

Called through `parse`. Arrow and Spark differ in many small things, so a record is taken only if
both are sure to give the same; any other stays as it is, for Spark to parse. So a guard may be too
strict, which costs time, and never too lax. Invariant: no answer without the count: records begin
with `{` and end with `}`, so one that is not exactly one object breaks the block or adds a row.
Standard library and Arrow only: this module travels to the workers by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

INTS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
KINDS = (*INTS, "double", "boolean", "string", "timestamp", "date")
NAME = re.compile(r'[^"\\\x00-\x1f\x7f-\U0010ffff]+')  # a key that JSON writes in one way only
RECORD_BYTES = 20_000  # of a longer one Jackson's own limits may matter
SHORT_BYTES = 900  # in a shorter one they cannot
ODD_SHARE = 0.02  # of a block: each costs a look, and beyond this Spark is as quick
_DEEP = 500
_DAY = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_MOMENT = _DAY + r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|\+00:00)"
_ROW = re.compile(r" in row ([0-9]+)$")


@dataclass(frozen=True)
class Plan:
    """What to read: names, types and which of them have to be there, field by field."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    required: tuple[bool, ...]
    max_bytes: int


def worker(plan: Plan, added: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For `mapInArrow`. The last column is the record; after those before it come the record where
    it is left to Spark, whether it was read, and its fields if `added` has names for them."""

    def opened(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            *kept, raw = batch.columns
            done, fields = read(raw, plan)
            left = pc.if_else(done, pa.scalar(None, raw.type), raw)
            names = [*batch.schema.names[:-1], *added]
            columns = [*kept, left, done, *fields]
            yield pa.RecordBatch.from_arrays(columns[: len(names)], names)

    return opened


def read(raw: Any, plan: Plan) -> tuple[Any, list[Any]]:
    """Which records of the array were read, and their fields."""
    texts = _texts(raw)
    table, done = _parsed(texts, _plausible(texts, plan), plan)
    if table is None:
        return _nothing(raw, plan)
    fields = []
    for name, kind, is_required in zip(plan.names, plan.kinds, plan.required, strict=True):
        found, fits = _converted(table.column(name).combine_chunks(), kind)
        done = _both(done, fits)
        if is_required:
            done = _both(done, found.is_valid())
        fields.append(found)
    return done, fields


def _nothing(raw: Any, plan: Plan) -> tuple[Any, list[Any]]:
    import pyarrow as pa

    fields = [pa.nulls(len(raw), _made_of(kind)) for kind in plan.kinds]
    return pa.repeat(pa.scalar(False), len(raw)), fields


def suspicious(plan: Plan) -> str:
    """A regular expression (RE2) that finds what Arrow and Spark may see differently, and most of
    what would break a block. It may also find things inside of texts: those are left to Spark."""
    parts = [
        r"\}\s*[{\[]",  # a second value
        r"[:,\[]\s*-?(?:NaN|Inf)",  # Arrow takes these for numbers, also where nobody looks
        r"\\u",  # half a pair of them is a character to some
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


def _texts(raw: Any) -> Any:
    """The same bytes called text: whether they are is for `_plausible` to find out."""
    import pyarrow as pa

    if pa.types.is_large_string(raw.type) or pa.types.is_large_binary(raw.type):
        raw = raw.cast(pa.binary())
    valid, offsets, data = raw.buffers()
    return pa.StringArray.from_buffers(len(raw), offsets, data, valid, -1, raw.offset)


def _plausible(texts: Any, plan: Plan) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    length = pc.binary_length(texts)
    good = pc.less_equal(length, pa.scalar(min(plan.max_bytes, RECORD_BYTES), pa.int32()))
    good = _both(good, pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}")))
    good = _both(good, pc.invert(pc.match_substring_regex(texts, suspicious(plan))))
    good = pc.fill_null(good, False)
    good = _judged(texts, good, pc.invert(pc.string_is_ascii(texts)), _is_utf8)
    return _judged(texts, good, pc.greater(length, SHORT_BYTES), _is_within_limits)


def _judged(texts: Any, good: Any, odd: Any, judge: Callable[[Any], Any]) -> Any:
    """`good` without those of `odd` that the judge does not like; only those are looked at."""
    import pyarrow.compute as pc

    odd = pc.fill_null(pc.and_(good, odd), False)  # of a record that is null
    if odd.true_count == 0:
        return good
    return pc.replace_with_mask(good, odd, judge(texts.filter(odd)))


def _is_utf8(texts: Any) -> Any:
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_can_decode(one) for one in texts.cast(pa.binary()).to_pylist()])
    return pa.repeat(pa.scalar(True), len(texts))


def _can_decode(record: bytes) -> bool:
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_within_limits(texts: Any) -> Any:
    """Jackson refuses numbers of more than 1,000 characters and more than 1,000 levels."""
    import pyarrow.compute as pc

    levels = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    long = pc.match_substring_regex(texts, "[0-9]{300}")
    return pc.and_(pc.less_equal(levels, _DEEP), pc.invert(long))


def _parsed(texts: Any, good: Any, plan: Plan) -> tuple[Any, Any]:
    """A table of all records, null where they are not good, or None. One that breaks the block is
    found by the row that Arrow names, and the rest is tried; at last all of them without those."""
    odd: list[int] = []
    begin = 0
    while good.true_count and len(odd) <= max(4, len(texts) * ODD_SHARE):
        found = _attempt(texts[begin:], good[begin:], plan)
        if found is None:
            return None, good
        if isinstance(found, int):
            begin += found + 1
            # Behind a whole object and something more Arrow speaks of the next row already.
            odd += [max(0, begin - 2), min(begin - 1, len(texts) - 1)]
        elif begin == 0:
            return (found, good) if len(found) == len(texts) else (None, good)
        else:
            begin = len(texts)
        if begin > len(texts):
            return None, good
        if begin == len(texts):
            begin, good = 0, _without(good, odd)
    return None, good


def _attempt(texts: Any, good: Any, plan: Plan) -> Any:
    """The table, or the row that breaks it, or None where Arrow does not name one."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    types = [_read_as(kind) for kind in plan.kinds]
    schema = pa.schema(list(zip(plan.names, types, strict=True)))
    wanted = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    block = pc.if_else(good, texts, "{}") if good.true_count < len(good) else texts
    ends = pa.array([0, len(block)], pa.int32())
    data = pc.binary_join(pa.ListArray.from_arrays(ends, block), "\n")[0].as_buffer()
    # One block and one thread: rows are counted from its beginning, and Spark has tasks enough.
    options = json.ReadOptions(use_threads=False, block_size=data.size + 1)
    try:
        return json.read_json(pa.BufferReader(data), options, wanted)
    except pa.ArrowInvalid as exc:
        named = _ROW.search(str(exc))
        return int(named[1]) if named else None


def _without(good: Any, odd: list[int]) -> Any:
    import pyarrow as pa

    mask = good.to_numpy(zero_copy_only=False).copy()
    mask[odd] = False
    return pa.array(mask)


def _converted(found: Any, kind: str) -> tuple[Any, Any]:
    """A column as Spark has it, and where that is sure to be right; None: everywhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind in INTS and INTS[kind] < 64:
        limit = 2 ** (INTS[kind] - 1)
        tried = _cast(found, kind, pc.and_(pc.less(found, limit), pc.less_equal(-limit, found)))
    elif kind == "double":
        # Jackson reads -0 as an int, which has no sign; Arrow keeps it.
        is_signed_zero = pc.equal(pc.divide(1.0, found), float("-inf"))
        fits = pc.and_(pc.is_finite(found), pc.invert(is_signed_zero))
        tried = found, pc.fill_null(fits, True)  # null is null
    elif kind == "timestamp":
        # Of what Arrow reads as a moment, only one shape has such a length and end. That is cheaper
        # to see than the shape, which tells the others apart where Arrow cannot read all of them.
        tried = _cast(found, kind, pc.or_(_has_zone(found, "Z"), _has_zone(found, "+00:00")))
        tried = tried or _cast(found, kind, pc.match_substring_regex(found, rf"^{_MOMENT}$"))
    elif kind == "date":
        tried = _cast(found, kind, pc.match_substring_regex(found, rf"^{_DAY}$"))
    else:
        tried = found, None
    if tried is None:  # it looks right and is not, like 30 February: all of the block is left
        nothing = pa.repeat(pa.scalar(False), len(found))
        return pa.nulls(len(found), _made_of(kind)), nothing
    return tried


def _has_zone(found: Any, zone: str) -> Any:
    """Whether a moment ends so and is as long as one with whole seconds, or one to six digits."""
    import pyarrow.compute as pc

    length = pc.subtract(pc.binary_length(found), len(zone))
    fits = pc.or_(pc.equal(length, 19), pc.and_(pc.less(20, length), pc.less(length, 27)))
    return pc.and_(fits, pc.ends_with(found, zone))


def _cast(found: Any, kind: str, fits: Any) -> tuple[Any, Any] | None:
    """Nulls where it does not fit. None: what should fit cannot be converted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.fill_null(fits, True)
    if fits.true_count < len(fits):
        found = pc.if_else(fits, found, pa.scalar(None, found.type))
    try:
        return found.cast(_made_of(kind)), fits
    except pa.ArrowInvalid:
        return None


def _both(one: Any, other: Any) -> Any:
    import pyarrow.compute as pc

    return one if other is None else pc.and_(one, other)


def _read_as(kind: str) -> Any:
    """Moments as text: Arrow reads more shapes of them than Spark does, and others less."""
    import pyarrow as pa

    if kind in INTS:
        return pa.int64()
    return pa.string() if kind in ("timestamp", "date") else _made_of(kind)


def _made_of(kind: str) -> Any:
    import pyarrow as pa

    return {
        "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
        "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(),
    }[kind]  # fmt: skip
