"""Names of runs."""

from __future__ import annotations

import pytest

from headrace.model.runs import parse_run_name, pipeline_of, run_name


@pytest.mark.parametrize("pipeline", ["orders", "orders-eu", "a-20250101T000000-ab", "a.b_c"])
def test_a_run_s_name_says_its_pipeline_and_sorts_by_time(pipeline: str) -> None:
    early, late = run_name(pipeline, 1e9, "ffff"), run_name(pipeline, 1e9 + 1, "0000")

    assert early == f"{pipeline}-20010909T014640-ffff"
    assert early < late
    assert parse_run_name(early) == (pipeline, "20010909T014640")
    assert pipeline_of(early) == pipeline


@pytest.mark.parametrize("name", ["", "notes", "orders-1", "-20250101T000000-ab", "a-2025-ab"])
def test_what_is_no_run_s_name_is_no_pipeline_s_run(name: str) -> None:
    assert parse_run_name(name) is None
    assert pipeline_of(name) == name
