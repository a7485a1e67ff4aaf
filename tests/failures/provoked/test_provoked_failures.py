"""Failures that are caused for real: each gets the entry, the words and the kind that it should.

What is judged is what the driver writes for the failure and what `headrace why` prints. Ten cases
run with every `make test`; all of them with `make chaos`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provoked.all_cases import CASES
from provoked.case import Case
from provoked.pipeline_stage import Stage


def check(case: Case, folder: Path, request: pytest.FixtureRequest) -> None:
    stage = Stage(folder, case.name)
    for fixture in case.needs:
        setattr(stage, fixture, request.getfixturevalue(fixture))

    ended = case.steps(stage)

    why = stage.why()
    error: Any = ended.error or {}
    told = f"{ended.ending} {ended.failure} {ended.kind}\n{why}"
    assert (ended.failure, ended.kind) == (case.slug, case.kind), told
    for said in case.said:
        assert said in why, told
    for part in ("what", "why", "fix"):
        assert " ".join(str(error.get(part) or "").split()) in " ".join(why.split()), told
    assert ended.fingerprint, told


@pytest.mark.spark
@pytest.mark.parametrize("case", [c for c in CASES if c.is_quick], ids=lambda case: case.name)
def test_a_frequent_failure_gets_its_words(
    case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    check(case, tmp_path, request)


@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_failure_gets_its_words(
    case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    check(case, tmp_path, request)
