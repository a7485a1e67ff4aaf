"""What a person sees of a pipeline at a glance."""

from __future__ import annotations

from headrace.health import summary
from headrace.model.findings import Finding
from headrace.model.status import PipelineStatus, QueryStatus, State


def degraded(slug: str) -> PipelineStatus:
    query = QueryStatus(
        "q",
        State.DEGRADED,
        lag_rows=5000,
        input_rate=10.0,
        findings=(Finding(slug, "Something is wrong."),),
    )
    return PipelineStatus("p", State.DEGRADED, "q: Something is wrong", queries=(query,))


def test_what_falls_behind_is_not_said_to_keep_up() -> None:
    assert summary.pace(degraded("falling-behind"), 10.0) == "5,000 rows behind in q"
    assert summary.pace(degraded("field-null"), 10.0) == "keeping up with 10 rows/s"


def test_a_degraded_pipeline_is_shown_above_one_that_catches_up() -> None:
    catching_up = PipelineStatus("p", State.CATCHING_UP, "")

    assert summary.severity(degraded("field-null")) > summary.severity(catching_up)
