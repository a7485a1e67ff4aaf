"""How an end is told, and which exit code it becomes. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.model.runs import Ending, Exit
from headrace.project import run_end_text


def ended(ending: str, code: int = 1, **facts: Any) -> Exit:
    return Exit(ending, code, 0.0, **facts)


@pytest.mark.parametrize("ending", list(Ending))
def test_every_ending_has_words(ending: Ending) -> None:
    words = run_end_text.headline("hello", ended(ending))

    assert words.startswith("hello ")
    assert words != f"hello {ending.value}" or ending is Ending.FAILED


@pytest.mark.parametrize(
    ("exit_", "attention", "script", "code"),
    [
        (ended("finished", 0), False, False, 0),
        (ended("drained", 0), False, False, 0),
        (ended("cut"), False, False, 1),
        (ended("refused", 2), True, False, 2),
        (ended("refused", 3), True, False, 3),
        (ended("failed", query="kept"), True, False, 4),
        (ended("failed", query="kept"), True, True, 4),
        (ended("failed"), True, True, 1),
        (ended("fenced", 7), True, False, 4),
        (None, True, False, 4),
    ],
)
def test_the_exit_code_of_run_says_how_it_ended(
    exit_: Exit | None, attention: bool, script: bool, code: int
) -> None:
    assert run_end_text.code_of(exit_, needs_attention=attention, script=script) == code


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ({"batch": 7, "how": "clean"}, "kept: stopped cleanly after batch 7"),
        ({"batch": None, "how": "clean"}, "kept: stopped cleanly before its first batch"),
        ({"batch": None, "how": "cut"}, "kept: CUT in its first batch"),
        ({"batch": 7, "how": "failed"}, "kept: failed; its last committed batch is 7"),
        ({"batch": 7, "how": "novel"}, "kept: ended (novel) at batch 7"),
    ],
)
def test_a_query_is_told_with_its_batch(fact: dict[str, Any], words: str) -> None:
    [line] = run_end_text.query_lines(ended("drained", queries={"kept": fact}))

    assert line.startswith(words)


def test_a_stop_that_had_to_cut_is_no_success() -> None:
    codes = [run_end_text.stop_code(e) for e in (ended("drained", 0), ended("cut"), None)]

    assert codes == [0, 1, 1]


@pytest.mark.parametrize("ending", [Ending.DRAINED, Ending.CUT])
def test_a_stop_before_the_first_query_speaks_of_no_batch(ending: Ending) -> None:
    assert "before any of its queries" in run_end_text.headline("hello", ended(ending))
    killed = ended(ending, error={"what": "The driver was asked to stop."})
    assert "before any" not in run_end_text.headline("hello", killed), (
        "nobody knows what it had begun"
    )
