"""Every section of docs/guides/trouble.md is staged by tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "guides" / "trouble.md"

STAGE = "e2e/test_silent.py::test_eight_kinds_of_silent_trouble_are_seen_explained_and_mended"
# section of the page -> tests that bring it about and read what is said
STAGED = {
    "No output": [
        STAGE,
        "spark/test_silent_trouble_on_spark.py::test_nothing_fails_and_each_trouble_is_found",
        "brokers/test_pipelines.py::test_kills_of_broker_and_jvm_lose_and_double_nothing",
    ],
    "Too few rows": [
        STAGE,
        "spark/test_watch.py::test_a_file_that_vanished_before_it_was_read_stops_the_run_and_is_not_lost",
        "spark/test_watch.py::test_by_choice_a_run_goes_on_without_a_vanished_file_and_counts_it",
    ],
    "Nulls": [STAGE],
    "Slow": [STAGE],
    "Growing": [STAGE],
    "Late": [STAGE],
    "Duplicated": [
        "guides/test_guides.py::test_a_batch_that_comes_again_changes_nothing",
        "brokers/test_origin.py::test_a_batch_that_was_sent_twice_is_read_once",
    ],
    "Not starting": [
        "e2e/test_bad_input.py::test_a_sink_that_does_not_fit_its_checkpoint_is_refused_and_the_fix_loses_nothing",
        "e2e/test_bad_input.py::test_a_lost_metadata_file_is_refused_and_the_told_command_repairs_it",
    ],
}


def sections() -> list[str]:
    return re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)


def test_every_section_is_staged() -> None:
    assert sections() == list(STAGED)
    assert [name for name, tests in STAGED.items() if not tests] == []


@pytest.mark.parametrize("test", sorted({one for tests in STAGED.values() for one in tests}))
def test_what_stages_a_section_exists(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((TESTS / path).read_text())

    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_findings_that_the_page_names_are_in_the_reference() -> None:
    reference = (PAGE.parents[1] / "reference" / "findings.md").read_text()
    known = set(re.findall(r"^### ([a-z-]+)$", reference, re.MULTILINE))

    assert [slug for slug in sorted(known) if f"`{slug}`" not in PAGE.read_text()] == []
