"""A failing query ends its whole run; the same poison three times asks for a person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e import rig

pytestmark = pytest.mark.e2e
PIPELINE = "poison"


def runs(project: rig.Project) -> list[Path]:
    return sorted((project.state / "runs").glob(f"{PIPELINE}-*"))


def test_the_same_poison_batch_three_times_stops_and_says_why(tmp_path: Path) -> None:
    project = rig.Project.copy("poison", tmp_path / "project")
    incoming = project.folder / "incoming"
    incoming.mkdir()
    (incoming / "good").write_text("bread\n")
    try:
        project.headrace("up")
        rig.eventually(
            "both queries commit",
            lambda: all(q["batch"] == 0 for q in project.status(PIPELINE)["queries"] or [{}]),
            60,
        )
        (incoming / ".poison").write_text("poison\n")
        (incoming / ".poison").rename(incoming / "poison")
        project.headrace("wait", PIPELINE, "--until", "stopped", "--timeout", "120s", code=None)
        rig.eventually(
            "needs attention",
            lambda: project.status(PIPELINE)["state"] == "needs-attention",
            120,
        )
        why = project.headrace("why", PIPELINE)
        ends = [json.loads((run / "exit.json").read_text()) for run in runs(project)]
        left = project.marked()
    finally:
        project.headrace("down", code=None)

    assert len(ends) == 3, "three attempts exactly"
    assert {e["query"] for e in ends} == {"fragile"}
    assert {e["batch"] for e in ends} == {1}
    assert len({e["fingerprint"] for e in ends}) == 1
    assert all(set(e["queries"]) == {"fragile", "healthy"} for e in ends), "all end together"
    assert left == [], "nothing runs on after the run has ended"
    assert "cannot price the order 'poison'" in why
    assert "pipelines/poison.py:" in why
    assert "headrace start poison" in why or "headrace up" in why
