"""Same failure, same fingerprint; another column, exception or line, another one."""

from __future__ import annotations

import string
import time
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.failures.classifier import FailureText, classify

NAMES = st.from_regex(r"[a-z]{3,8}(_[a-z0-9]{1,3})?", fullmatch=True)
WORDS = st.text(string.ascii_letters + string.digits + " .-", min_size=1, max_size=20)
TMP = st.text(string.ascii_lowercase + string.digits + "_", min_size=8, max_size=8)
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1))  # noqa: DTZ001
RUNS = st.fixed_dictionaries(
    {
        "batch": st.integers(0, 10**9),
        "id": st.uuids(),
        "part": st.uuids(),
        "tmp": TMP,
        "at": TIMES,
        "tid": st.integers(0, 10**6),
        "object": st.integers(1, 10**5),
        "address": st.integers(2**20, 2**47),
        "offset": st.integers(0, 10**15),
    }
)


def unknown(run: dict[str, object], column: str = "price", name: str = "OddException") -> str:
    at = run["at"]
    assert isinstance(at, datetime)
    message = (
        f"Lost column {column} of batch {run['batch']} in query {run['id']} (TID {run['tid']}) at "
        f"{at.replace(tzinfo=UTC).isoformat()} reading "
        f"/tmp/{run['tmp']}/part-00001-{run['part']}-c000.json "
        f"via o{run['object']}.call, object at {run['address']:#x}, offset {run['offset']}"
    )
    return classify(FailureText(None, ((f"com.example.{name}", message),))).fingerprint


def raised(last_line: str, line: int = 8, code: str = "price(row)", file: str = "orders.py") -> str:
    trace = (
        "Traceback (most recent call last):\n"
        f'  File "/project/pipelines/{file}", line {line}, in save\n'
        f"    {code}\n"
        f"{last_line}\n"
    )
    return classify(FailureText(None, (), trace)).fingerprint


@given(RUNS, RUNS)
def test_what_changes_from_run_to_run_does_not_count(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert unknown(one) == unknown(other)


@given(RUNS, NAMES, NAMES)
def test_another_column_is_another_failure(run: dict[str, object], one: str, other: str) -> None:
    assert (unknown(run, column=one) == unknown(run, column=other)) == (one == other)


@given(NAMES, NAMES)
def test_another_missing_key_is_another_failure(one: str, other: str) -> None:
    assert (raised(f"KeyError: '{one}'") == raised(f"KeyError: '{other}'")) == (one == other)


def test_columns_that_differ_by_a_number_are_two() -> None:
    assert raised("KeyError: 'load10'") != raised("KeyError: 'load11'")


def test_another_exception_is_another_failure() -> None:
    run = {"batch": 1, "id": uuid.UUID(int=1), "part": uuid.UUID(int=2), "tmp": "a" * 8}
    rest = {"at": datetime(2026, 1, 1), "tid": 1, "object": 1, "address": 2**30, "offset": 0}  # noqa: DTZ001

    assert unknown({**run, **rest}) != unknown({**run, **rest}, name="OtherException")


def test_another_line_of_code_is_another_failure() -> None:
    assert raised("KeyError: 'a'", code="price(row)") != raised("KeyError: 'a'", code="tax(row)")


def test_another_file_is_another_failure() -> None:
    assert raised("KeyError: 'a'") != raised("KeyError: 'a'", file="refunds.py")


def test_an_edit_above_the_line_is_no_change() -> None:
    assert raised("KeyError: 'a'", line=8) == raised("KeyError: 'a'", line=11)


@given(WORDS, WORDS)
def test_which_of_two_bad_values_came_first_does_not_count(one: str, other: str) -> None:
    def cast(value: str) -> str:
        message = f"[CAST_INVALID_INPUT] The value '{value}' of the type \"STRING\" cannot be cast."
        cause = ("org.apache.spark.SparkNumberFormatException", message)
        return classify(FailureText("CAST_INVALID_INPUT", (cause,))).fingerprint

    assert cast(one) == cast(other)


@given(WORDS, WORDS)
def test_which_text_was_no_number_does_not_count(one: str, other: str) -> None:
    literal = "ValueError: invalid literal for int() with base 10: "

    assert raised(f"{literal}'{one}'") == raised(f"{literal}'{other}'")


@pytest.mark.parametrize("version", ["3f9ac1", "0b77de"])
def test_the_version_in_the_path_does_not_count(version: str) -> None:
    def at(folder: str) -> str:
        trace = (
            "Traceback (most recent call last):\n"
            f'  File "/srv/.headrace/versions/{folder}/files/orders.py", line 3, in save\n'
            "    row['price']\nKeyError: 'price'\n"
        )
        return classify(FailureText(None, (), trace)).fingerprint

    assert at(version) == at("aaaaaa")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=1000))
@example("A.", "", "")
def test_any_text_gets_an_answer(name: str, message: str, trace: str) -> None:
    verdict = classify(FailureText(None, ((name, message),), trace))

    assert verdict.what
    assert verdict.kind in {"retry", "retry-then-human", "human", "data", "unknown"}


def test_a_huge_text_is_answered_quickly_and_its_end_counts() -> None:
    frames = "\tat a.b.C.d(C.scala:1)\n" * 100_000

    end = "Caused by: java.io.IOException: No space left on device\n"

    verdict = classify(FailureText(None, (), f"a.b.XException: odd\n{frames}{end}"))

    assert verdict.slug == "disk-full"


@pytest.mark.thorough
@pytest.mark.parametrize("unit", ["a.", "aB", "psycopg ", "[A_B] ", "/a", "Caused by: a.B: ", "'"])
def test_no_text_takes_long_to_read(unit: str) -> None:
    started = time.process_time()

    classify(FailureText(None, (("a.B", unit * 20_000),), unit * 20_000))

    assert time.process_time() - started < 5
