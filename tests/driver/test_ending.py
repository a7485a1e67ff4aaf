"""What exit.json will say, from errors as they are met. Queries that fail are in tests/spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import json_file, secrets
from headrace.driver import exit_report
from headrace.errors import DefinitionError, Problems, SetupError
from headrace.model.runs import Exit


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-20260101T000000-abcd"
    folder.mkdir()
    return folder


def caused_by(cause: BaseException, what: str = "'prices' cannot be read.") -> DefinitionError:
    try:
        raise DefinitionError(what, where="pipelines/orders.py:3", slug="x") from cause
    except DefinitionError as exc:
        return exc


def test_a_mistake_of_the_user_s_is_refused_and_not_tried_again(run_dir: Path) -> None:
    exit_ = exit_report.from_error(caused_by(ValueError("no such column")), run_dir)

    assert (exit_.ending, exit_.code, exit_.kind) == ("refused", 2, None)
    assert exit_.error is not None
    assert exit_.error["where"] == "pipelines/orders.py:3"


def test_a_database_that_was_down_while_a_table_was_read_is_tried_again(run_dir: Path) -> None:
    exit_ = exit_report.from_error(caused_by(ConnectionRefusedError("connection refused")), run_dir)

    assert (exit_.ending, exit_.kind) == ("refused", "retry")


def test_a_passing_fault_beside_a_mistake_does_not_hide_the_mistake(run_dir: Path) -> None:
    both = Problems([caused_by(ConnectionRefusedError("refused")), caused_by(ValueError("no"))])

    exit_ = exit_report.from_error(both, run_dir)

    assert exit_.kind is None
    assert len(exit_.problems) == 2


def test_a_jvm_that_does_not_start_is_tried_a_few_times(run_dir: Path) -> None:
    try:
        raise SetupError("Spark's JVM did not start.", slug="jvm-did-not-start") from RuntimeError(
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
        )
    except SetupError as exc:
        exit_ = exit_report.from_error(exc, run_dir)

    assert exit_.kind == "retry-then-human"
    assert exit_.code == 3


def test_the_worst_of_several_problems_gives_the_code(run_dir: Path) -> None:
    exit_ = exit_report.from_error(Problems([DefinitionError("a"), SetupError("b")]), run_dir)

    assert exit_.code == 3


def test_a_secret_is_taken_out_by_its_value(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TEST_SECRET", "hunter2-and-more")
    secrets.resolve("${env:MY_TEST_SECRET}")

    exits = [
        exit_report.from_exception(ValueError("cannot log in with hunter2-and-more"), run_dir),
        exit_report.from_error(DefinitionError("hunter2-and-more is refused"), run_dir),
    ]

    assert "hunter2" not in str([e.to_json() for e in exits])
    assert "hunter2" not in (run_dir / exit_report.TRACE_NAME).read_text()


def test_a_fix_names_the_pipeline(run_dir: Path) -> None:
    exit_ = exit_report.from_exception(RuntimeError("never seen before"), run_dir)

    assert exit_.error is not None
    assert "headrace logs orders" in str(exit_.error["fix"])


def test_an_exit_with_any_text_can_be_written(tmp_path: Path) -> None:
    exit_ = Exit("failed", code=1, at=0.0, error={"what": "file \udcff\n\0 ü"})

    json_file.write_json(tmp_path / "exit.json", exit_.to_json())

    assert Exit.from_json(json_file.read_json(tmp_path / "exit.json") or {}) == exit_


def test_a_full_heap_is_told_apart_from_a_killed_jvm(run_dir: Path) -> None:
    log = run_dir / "driver.log"
    log.write_text("Terminating due to java.lang.OutOfMemoryError: Java heap space\n")
    assert exit_report.from_dead_jvm(3, run_dir).failure == "out-of-memory"

    log.write_text("")
    assert exit_report.from_dead_jvm(-9, run_dir).failure == "jvm-died"


@pytest.mark.parametrize(("code", "failure"), [(None, None), (-9, "jvm-died")])
def test_only_a_jvm_that_has_ended_replaces_the_exit(
    run_dir: Path, code: int | None, failure: str | None
) -> None:
    process = SimpleNamespace(poll=lambda: code)
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process))
    )

    exit_ = exit_report.if_jvm_died(spark, run_dir)

    assert (exit_.failure if exit_ else None) == failure
    assert exit_report.if_jvm_died(None, run_dir) is None
