"""The guides of hr.parse_json and hr.absent: what they show is what comes out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from guidebook import Guide

pytestmark = pytest.mark.spark


def test_the_record_that_fits_is_written_and_the_others_are_kept(
    guide: Callable[..., Guide],
) -> None:
    logs = guide("bad-records")
    logs.feed(logs.samples[0], suffix="txt")
    logs.drain()

    assert logs.written("data/logs", "user", "load", "tags", "host") == [("ada", 1.5, 2, "h1")]
    kept = logs.written("quarantine/logs/records", "reason", "detail")
    assert sorted(kept, key=str) == [
        ("malformed", None),
        ("missing-field", "user is missing"),
        ("wrong-type", "load is not of type double"),
    ]


def test_the_guide_of_silence_can_be_built(guide: Callable[..., Guide]) -> None:
    [planned] = guide("silence").build().planned

    assert planned.query.sink["kind"] == "alert"
    assert planned.frame.columns == ["pump", "last_seen", "resolved"]
