"""Real failures, made with Spark 4.2 and kept as text (`samples/`): each lands on its entry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.failures.classifier import Classification, FailureText, classify

SAMPLES = Path(__file__).parent / "samples"

# sample: (slug, kind, where)
EXPECTED = {
    "aggregate_changed": ("state-schema-changed", "human", None),
    "append_without_watermark": ("definition-not-supported", "human", "/project/script.py:90"),
    "bad_cast": ("bad-record", "data", None),
    "chained": ("user-code", "data", "/project/pipelines/orders.py:8"),
    "checkpoint_bytes_changed": ("checkpoint-damaged", "human", None),
    "disk_full_batch": ("disk-full", "retry", "/project/pipelines/orders.py:47"),
    "disk_full_checkpoint": ("disk-full", "retry", "/project/script.py:177"),
    "disk_full_sink": ("disk-full", "retry", None),
    "divide_by_zero": ("bad-record", "data", None),
    "duplicate_name": ("duplicate-query-name", "human", "/project/script.py:155"),
    "empty_offsets": ("checkpoint-log-torn", "human", None),
    "exception_in_an_arrow_udf": ("python-function-failed", "data", "pipelines/orders.py:8"),
    "file_list_truncated": ("checkpoint-log-torn", "human", None),
    "garbage_offsets": ("checkpoint-log-torn", "human", None),
    "inner_cast": ("bad-record", "data", "/project/pipelines/orders.py:30"),
    "jvm_gone": ("jvm-died", "retry", "/project/script.py:21"),
    "jvm_killed": ("jvm-died", "retry", "/project/script.py:21"),
    "key_changed": ("state-schema-changed", "human", None),
    "key_error": ("user-code", "data", "/project/pipelines/orders.py:8"),
    "memory": ("out-of-memory", "retry-then-human", "/project/pipelines/orders.py:44"),
    "metadata_deleted": ("checkpoint-metadata-lost", "human", "/project/script.py:90"),
    "missing_column": ("definition-not-supported", "human", "/project/script.py:154"),
    "missing_file": ("input-file-gone", "data", "/project/pipelines/orders.py:11"),
    "no_checkpoint": ("definition-not-supported", "human", "/project/script.py:153"),
    "no_schema": ("definition-not-supported", "human", "/project/script.py:152"),
    "no_space": ("disk-full", "retry", "/project/pipelines/orders.py:27"),
    "no_such_format": ("library-missing", "human", "/project/script.py:151"),
    "operator_added": ("stateful-operators-changed", "human", None),
    "output_mode": ("definition-not-supported", "human", "/project/script.py:90"),
    "output_path_changed": ("sink-log-lost", "human", None),
    "refused": ("network-in-your-code", "retry", "/project/pipelines/orders.py:23"),
    "second_writer": ("two-writers", "human", None),
    "second_writer_of_files": ("two-writers", "human", None),
    "sink_log_deleted": ("sink-log-lost", "human", None),
    "source_added": ("sources-changed", "human", None),
    "source_file_vanished_batch": ("input-file-gone", "data", "/project/script.py:143"),
    "source_kind_changed": ("source-kind-changed", "human", None),
    "state_file_deleted": ("state-file-lost", "retry-then-human", None),
    "state_file_truncated": ("state-file-lost", "retry-then-human", "pipelines/orders.py:5"),
    "stateful_to_stateless": ("stateful-operators-changed", "human", None),
    "stateless_to_stateful": ("state-and-offsets-disagree", "human", None),
    "time_mode_changed": ("state-setting-changed", "human", None),
    "udf": ("python-function-failed", "data", "/project/script.py:92"),
    "udf_in_batch": ("python-function-failed", "data", "/project/pipelines/orders.py:34"),
    "vanished_file": ("input-file-gone", "data", "/project/pipelines/orders.py:20"),
    "worker_crashed": ("worker-lost", "retry-then-human", None),
}


def load(name: str) -> FailureText:
    body = json.loads((SAMPLES / f"{name}.json").read_text())
    return FailureText(body["error_class"], tuple(map(tuple, body["causes"])), body["trace"])


def told_by(verdict: Classification) -> str:
    return f"{verdict.what}\n{verdict.why}\n{verdict.fix}"


def test_every_sample_is_expected_to_be_something() -> None:
    assert {path.stem for path in SAMPLES.glob("*.json")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_failure_lands_on_its_entry(name: str) -> None:
    verdict = classify(load(name))

    assert (verdict.slug, verdict.kind, verdict.where) == EXPECTED[name]


# A file sink's error in a task may reach the driver with no class at all, or as a trace alone.
@pytest.mark.parametrize("name", EXPECTED)
def test_without_the_event_s_error_class_the_answer_is_the_same(name: str) -> None:
    failure = load(name)

    verdict = classify(FailureText(None, failure.causes, failure.trace))

    assert verdict.slug == EXPECTED[name][0]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_trace_alone_gives_the_same_answer(name: str) -> None:
    verdict = classify(FailureText(None, (), load(name).trace))

    assert verdict.slug == EXPECTED[name][0]


@pytest.mark.parametrize("name", EXPECTED)
def test_words_have_no_gaps_and_no_stack_frames(name: str) -> None:
    words = told_by(classify(load(name)))

    assert "\tat " not in words
    assert "{" not in words.replace('{"', "")
    assert "[:" not in words
    assert "Streaming Query ===" not in words


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("source_added", "from 1 to 2"),
        ("missing_file", "file:/project/nothing-here."),
        ("missing_column", "column `prise`"),
        ("key_error", "KeyError: 'price'"),
        ("chained", "RuntimeError: could not price batch 0"),
        ("udf", "ZeroDivisionError"),
        ("duplicate_name", "twice"),
        ("bad_cast", "The value 'a1'"),
        ("no_such_format", "data source kafka"),
        ("sink_log_deleted", "/project/data/sink_log_deleted/_spark_metadata"),
        ("key_changed", "StructField(value,IntegerType,true)"),
        ("garbage_offsets", "/project/checkpoints/garbage_offsets/offsets/0"),
        ("state_file_deleted", "/state/0/1/1.delta"),
        ("metadata_deleted", "/project/checkpoints/metadata_deleted"),
        ("disk_full_sink", "/project/small/out"),
    ],
)
def test_the_words_name_what_the_text_names(name: str, said: str) -> None:
    assert said in told_by(classify(load(name)))
