"""Both engines of `parse_json` over the same records: the same rows, and the same ones bad."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.transforms.parse import parse_json

pytestmark = pytest.mark.spark

SCHEMA = (
    "i int, big bigint, small smallint, tiny tinyint, d double, b boolean, s string, "
    "at timestamp, day date, `a b` string"
)
NEEDED = "i int NOT NULL, s string, at timestamp"
NAMES = ("i", "big", "small", "tiny", "d", "b", "s", "at", "day", "a b")

NUMBERS = """
    0 -0 -0.0 0.0 1 -1 1.0 1.5 1e3 1E-3 -1.5e2 127 128 -129 32767 32768 2147483647 2147483648
    -2147483648 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775809 1e308
    1e309 -1e400 1e-400 5e-324 01 1. .5 +1 - 1e NaN -NaN Infinity -Infinity Inf 0x1 1_000
    123456789012345678 0.1234567890123456789 99999999999999999999.5
""".split()  # noqa: SIM905 - to be read
MOMENTS = [
    *"""
    2026-01-01T10:00:00Z 2026-01-01T10:00:00.1Z 2026-01-01T10:00:00.123456Z 2026-01-01 today 1
    2026-01-01T10:00:00.1234567Z 2026-01-01_10:00:00Z 2026-01-01T10:00:00 2026-01-01T10:00Z
    2026-01-01T10:00:00+02:00 2026-02-29T00:00:00Z 2024-02-29T00:00:00Z 2026-01-01T24:00:00Z
    2026-13-01T00:00:00Z 0000-01-01T00:00:00Z 0001-01-01T00:00:00Z 1582-10-10 0000-01-01
    1582-10-10T01:02:03Z 9999-12-31T23:59:59.999999Z 10000-01-01T00:00:00Z 2026-01-01T10:00:60Z
    2026-1-1 2026-01-01T10:00:00z 2026-01-01T10:00:00.Z 2026-02-30 1883-11-18T12:00:00Z
    2026-02-30T01:00:00Z -2026-01-01T10:00:00Z 2026-01-01T10:00:00+00:00 2026-01-01T10:00+00:00
    2026-01-01T10:00:00.5+00:00 2026-01-01T10:00:00.123456+00:00 2026-01-01T10:00:00.1234567+00:00
    2026-02-30T01:00:00+00:00 2026-01-01T10:00:00.+00:00 2026-01-01T10:00:00-00:00
    1582-10-10T01:02:03+00:00 2026-01-01T10:00:00Z+00:00 2026-01-01T10:00:00+00:00+00:00
    """.split(),  # noqa: SIM905
    *("2026-01-01 10:00:00Z", " 2026-01-01", "2026-01-01T10:00:00Z ", ""),
]
VALUES = st.one_of(
    st.sampled_from(NUMBERS),
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["true", "false", "null", "True", "nul", "{}", "[]", '{"x":1}', "[1,{}]", ""]),
    st.sampled_from(MOMENTS).map(json.dumps),
    st.text(max_size=8).map(json.dumps),
    st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [r'"\ud83d\ude80"', r'"\ud83d"', r'"\udc00"', r'"\u0000"', r'"\/\b\f\n\r\t\"\\"', r'"\x"',
         '"a\tb"', '"a\nb"', '"a\x00b"', "'x'", '"{"', '"}"', '"} {"', '"x', "[" * 40 + "]" * 40]
    ),
)  # fmt: skip
SPACES = st.sampled_from(["", "", "", " ", "\n", "\t\r\n", "\x0b", "\x00"])
NICE = {
    "i": st.integers(-(2**31), 2**31 - 1).map(str),
    "big": st.integers(-(2**63), 2**63 - 1).map(str),
    "small": st.integers(-(2**15), 2**15 - 1).map(str),
    "tiny": st.integers(-128, 127).map(str),
    "d": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "b": st.sampled_from(["true", "false"]),
    "at": st.datetimes().map(lambda at: json.dumps(at.isoformat() + "Z")),
    "day": st.dates().map(lambda day: json.dumps(day.isoformat())),
}


@st.composite
def nice_objects(draw: Any) -> bytes:
    """As most records are: what Arrow is there for."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    text = st.text(max_size=8).map(lambda one: json.dumps(one, ensure_ascii=False))
    values = [draw(st.one_of(NICE.get(name, text), st.just("null"))) for name in names]
    body = ",".join(f'"{n}":{v}' for n, v in zip(names, values, strict=True))
    return f"{{{body}}}".encode(errors="surrogatepass")


@st.composite
def odd_objects(draw: Any) -> bytes:
    keys = st.sampled_from([*NAMES, "I", "S", "u", "", r"\u0069", r"s\n", "i "])
    space = draw(SPACES)
    pairs = draw(st.lists(st.tuples(keys, VALUES), max_size=5))
    body = f"{space},".join(f'"{key}"{space}:{space}{value}' for key, value in pairs)
    return f"{space}{{{body}{space}}}{space}".encode(errors="surrogatepass")


@st.composite
def damaged(draw: Any) -> bytes:
    one, other = draw(nice_objects()), draw(odd_objects())
    cut, at = draw(st.integers(0, len(one))), draw(st.integers(0, len(one)))
    junk = draw(st.sampled_from([b"\xff", b"\xc3", b"\x00", b"\xed\xa0\x80", b"}", b"{", b'"']))
    return draw(
        st.sampled_from(
            [one[:cut], one[cut:], one + other, one + b" " + other, one + b"\n" + other,
             b"[" + one + b"]", one[:at] + junk + one[at:], b"\xef\xbb\xbf" + one, one + b",",
             one[:-1] + b"," + other[1:], one[:-1] + b",", other[1:]]
        )
    )  # fmt: skip


RECORDS = st.one_of(
    nice_objects(), nice_objects(), nice_objects(), nice_objects(), odd_objects(), damaged(),
    st.sampled_from([b"", b" ", b"null", b"{}", b"[]", b"1", b'"x"', b"{} {}", b"{}{}", b"{"]),
    st.binary(max_size=6), st.none(),
)  # fmt: skip
LONG = [
    b'{"i":1,"u":' + b"1" * 1001 + b"}",
    b'{"i":1,"u":' + b"1" * 900 + b"}",
    b'{"i":1,"u":' + b"[" * 1200 + b"]" * 1200 + b"}",
    b'{"i":1,"u":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"s":"' + b"x" * 50_000 + b'"}',
    b'{"d":0.' + b"1" * 1200 + b"}",
    b'{"' + b"n" * 60_000 + b'":1}',
    b'{"d":1e' + b"0" * 1200 + b"1}",
]
ACROSS = [b'{"i":1,', b'"s":"x"}', b'{"i":2}{"i":3}', b'{"s":"x}', b'{"i":4}', b'{"u":{}', b"{}"]


KNOWN = [
    *LONG,
    *ACROSS,
    *(f'{{"{name}":{one}}}'.encode() for one in NUMBERS for name in ("d", "i", "big", "s", "u")),
    *(f'{{"{name}":"{one}"}}'.encode() for one in MOMENTS for name in ("at", "day", "s")),
]
BLOCKS = (1, 25)  # alone, where nothing else breaks its block, and beside others


@pytest.fixture(scope="module")
def records() -> list[bytes | None]:
    """Those known to be odd, and thousands that nobody has thought of."""
    found: list[bytes | None] = []

    @settings(max_examples=3000, phases=[Phase.generate], database=None, deadline=None)
    @given(record=RECORDS)
    def collect(record: bytes | None) -> None:
        found.append(record)

    collect()
    random.Random(1).shuffle(found)
    return [*KNOWN, *found]


@pytest.mark.parametrize("schema", [SCHEMA, NEEDED])
def test_both_engines_give_the_same(spark: Any, records: list[bytes | None], schema: str) -> None:
    by_spark = opened(spark, records, schema, "spark")
    for block in BLOCKS:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(block))
        try:
            by_arrow = opened(spark, records, schema, "arrow")
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

        assert differing(records, by_arrow, by_spark) == {}
    assert len(records) * 0.1 < len(by_spark) < len(records) * 0.9, "all of one kind prove little"


def differing(
    records: list[bytes | None], one: dict[int, Any], other: dict[int, Any]
) -> dict[bytes | None, tuple[Any, Any]]:
    return {
        record: (one.get(n, "bad"), other.get(n, "bad"))
        for n, record in enumerate(records)
        if one.get(n) != other.get(n)
    }


def opened(
    spark: Any, records: list[bytes | None], schema: str, engine: str
) -> dict[int, tuple[Any, ...]]:
    """What is good, by its number."""
    numbered = [(n, None if one is None else bytearray(one)) for n, one in enumerate(records)]
    df = spark.createDataFrame(numbered, "n int, value binary").coalesce(1)
    rows = parse_json(df, schema, quarantine=False, keep="n", engine=engine)
    # Moments by their number: Python has none before the year 1.
    moments = [f"unix_micros({n}) AS {n}" for n, kind in rows.dtypes if kind == "timestamp"]
    days = [f"unix_date({n}) AS {n}" for n, kind in rows.dtypes if kind == "date"]
    others = [f"`{n}`" for n, kind in rows.dtypes if kind not in ("timestamp", "date")]
    found = rows.selectExpr(*others, *moments, *days).collect()
    assert len({row.n for row in found}) == len(found)
    return {row.n: tuple(_exact(value) for value in row) for row in found}


def _exact(value: Any) -> Any:
    """-0.0 is equal to 0.0, and NaN to nothing."""
    if isinstance(value, float):
        return (value, math.copysign(1, value)) if value == value else "NaN"
    return value
