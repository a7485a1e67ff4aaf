"""What Arrow reads of a block of records, and what it leaves to Spark: no JVM here."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.transforms import arrow_json
from headrace.transforms.arrow_json import ParsePlan

PLAN = ParsePlan(
    ("i", "tiny", "d", "b", "s", "at", "day"),
    ("int", "tinyint", "double", "boolean", "string", "timestamp", "date"),
    (False,) * 7,
    10_000_000,
)
FULL = {
    "i": 2147483647, "tiny": -128, "d": 1.5, "b": True, "s": "Grüße 🚀",
    "at": "2026-01-01T10:00:00.123Z", "day": "2024-02-29",
}  # fmt: skip
NICE = json.dumps(FULL, ensure_ascii=False).encode()


def taken(*records: bytes | None, plan: ParsePlan = PLAN, kind: Any = None) -> list[bool]:
    return arrow_json.read(pa.array(records, kind or pa.binary()), plan)[0].to_pylist()


def test_a_record_of_every_type_is_read() -> None:
    done, fields = arrow_json.read(pa.array([NICE]), PLAN)

    assert done.to_pylist() == [True]
    at = datetime(2026, 1, 1, 10, 0, 0, 123000, UTC)
    expected = [2147483647, -128, 1.5, True, "Grüße 🚀", at, date(2024, 2, 29)]
    assert [one[0].as_py() for one in fields] == expected


@pytest.mark.parametrize(
    "record",
    [
        b"{}", b'{"i":null,"s":null}', b'{"u":{"deep":[1,{"x":"y"}]},"i":1}', b'{ "i" : 1 }',
        rb'{"s":"a \"quoted\" \\ \/ \n one"}', b'{"s":"{x} and {y}"}', b'{"d":1}', b'{"d":1e3}',
        b'{"at":"2026-01-01 10:00:00Z"}', b'{"u":"NaN"}', b'{"at":"2026-01-01T10:00:00+00:00"}',
        b'{"at":"2026-01-01T10:00:00.123456+00:00"}',
    ],
)  # fmt: skip
def test_what_is_plain_is_read(record: bytes) -> None:
    assert taken(NICE, record, NICE) == [True, True, True]


@pytest.mark.parametrize(
    "record",
    [
        None, b"", b" ", b"null", b"[]", b'"x"', b"1", b"[{}]", b" {}", b"{} ", b"\xef\xbb\xbf{}",
        b"{}{}", b"{} {}", b'{"i":1}\n{"i":2}', b'{}"x"{}', b'{"s":"a\nb"}', b'{"s":"\x00"}',
        b'{"i":1', b'{"i":1,', b'"i":1}', b'{"s":"x}', b'{"u":{}', b'{"i":1,}',
        b'{"i":"1"}', b'{"i":1.0}', b'{"i":1e3}', b'{"i":2147483648}', b'{"tiny":128}',
        b'{"i":99999999999999999999}', b'{"i":true}', b'{"i":{}}', b'{"d":"1"}', b'{"d":1e309}',
        b'{"d":-0}', b'{"d":-0.0}', b'{"d":NaN}', b'{"u":NaN}', b'{"u":[1,-Infinity]}',
        b'{"b":1}', b'{"b":"true"}', b'{"s":1}', b'{"s":true}', b'{"s":["x"]}', b'{"s":1,"u":"x"}',
        rb'{"s":"\u00fc"}', rb'{"\u0069":1}', b'{"s":"\xff"}', b'{"u":"\xed\xa0\x80"}',
        b'{"i":1,"i":2}', b'{"u":tru}', b'{"u":01}', b"{'i':1}", b'{"i":1} // x',
        b'{"at":"2026-01-01T10:00:00"}', b'{"at":"2026-01-01T10:00:00+01:00"}', b'{"at":1}',
        b'{"at":"2026-01-01"}', b'{"at":"2026-01-01T10:00:00.1234567Z"}', b'{"at":""}',
        b'{"at":"2026-01-01T10:00+00:00"}', b'{"at":"2026-01-01T10:00:00.1234567+00:00"}',
        b'{"at":"2026-13-01T10:00:00Z"}', b'{"day":"2026-1-1"}', b'{"day":"2026-01-01T00:00:00Z"}',
        b'{"u":' + b"1" * 1001 + b"}", b'{"u":' + b"[" * 600 + b"]" * 600 + b"}",
        b'{"s":"' + b"x" * 20_000 + b'"}',
    ],
)  # fmt: skip
def test_what_may_differ_is_left_and_its_neighbours_are_read(record: bytes | None) -> None:
    """Apart from those right beside it, where Arrow is not clear about the row it means."""
    found = taken(NICE, NICE, NICE, record, NICE, NICE)
    assert (found[:2], found[3], found[5:]) == ([True, True], False, [True])


@pytest.mark.parametrize("record", [b'{"day":"2026-02-30"}', b'{"i":1}}'])
def test_what_arrow_cannot_place_leaves_its_block(record: bytes) -> None:
    assert taken(NICE, record) == [False, False]


def test_records_that_would_make_one_together_are_left() -> None:
    assert taken(b'{"i":1,', b'"s":"x"}', b'{"i":2}{"i":3}') == [False, False, False]


def test_fields_that_have_to_be_there() -> None:
    plan = ParsePlan(("i", "s"), ("int", "string"), (True, False), 10_000)
    assert taken(b'{"i":1}', b'{"s":"x"}', b'{"i":null}', plan=plan) == [True, False, False]


def test_a_longer_record_than_allowed_is_left() -> None:
    plan = ParsePlan(("s",), ("string",), (False,), 12)
    assert taken(b'{"s":"1234"}', b'{"s":"12345"}', plan=plan) == [True, False]


def test_a_block_of_many_odd_records_is_left_as_a_whole() -> None:
    twice = b'{"i":1,"i":2}'
    few, many = [NICE] * 98 + [twice] * 2, [NICE] * 90 + [twice] * 10
    assert taken(*few) == [True] * 97 + [False] * 3
    assert taken(*many) == [False] * 100


def test_every_way_that_spark_hands_text_over() -> None:
    texts = [b"no", NICE, None, NICE]
    for kind in (pa.binary(), pa.large_binary()):
        assert taken(*texts, kind=kind) == [False, True, False, True]
    words = [None if one is None else one.decode() for one in texts]
    for kind in (pa.string(), pa.large_string()):
        assert taken(*words, kind=kind) == [False, True, False, True]  # type: ignore[arg-type]
    part = pa.array(texts, pa.binary())[1:]
    assert arrow_json.read(part, PLAN)[0].to_pylist() == [True, False, True]


def test_an_empty_block() -> None:
    done, fields = arrow_json.read(pa.array([], pa.binary()), PLAN)
    assert (len(done), [len(one) for one in fields]) == (0, [0] * 7)


def test_what_a_worker_gives_back() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([7, 8]), pa.array([b'{"i":1}', b"no"])], ["kept", "value"]
    )
    plan = ParsePlan(("i",), ("int",), (False,), 100)

    (found,) = arrow_json.worker(plan, ("raw", "done", "f"))(iter([batch]))
    (judged,) = arrow_json.worker(plan, ("raw", "done"))(iter([batch]))

    assert found.to_pylist() == [
        {"kept": 7, "raw": None, "done": True, "f": 1},
        {"kept": 8, "raw": b"no", "done": False, "f": None},
    ]
    assert judged.schema.names == ["kept", "raw", "done"]


def test_a_name_that_means_something_in_an_expression() -> None:
    plan = ParsePlan(("a.b*", "(c"), ("int", "string"), (False, False), 1000)
    assert taken(b'{"a.b*":1,"(c":"x"}', b'{"a.b*":"1"}', plan=plan) == [True, False]
