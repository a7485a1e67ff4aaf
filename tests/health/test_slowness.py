"""Why a query is slow: one verdict a story, and the gain that its own numbers give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.health.slowness import Batch, verdict
from headrace.model.progress import from_spark


def batches(
    count: int = 20,
    *,
    rows: int = 50_000,
    every_s: float = 1.0,
    raw: dict[str, Any] | None = None,
    **phases: float,
) -> list[Batch]:
    durations = {**phases, "triggerExecution": sum(phases.values())}
    body = {"numInputRows": rows, "durationMs": durations, **(raw or {})}
    return [(1000 + every_s * n, from_spark(body)) for n in range(count)]


def test_one_that_rests_most_of_the_time_is_not_slow() -> None:
    told = verdict(batches(every_s=10, addBatch=900, walCommit=50), cores=4)

    assert told.slug == "not-slow"
    assert "10%" in told.what or "9%" in told.what


def test_a_few_batches_say_nothing() -> None:
    assert verdict(batches(4, addBatch=900), cores=4).slug == "too-new"
    assert verdict(batches(rows=0, addBatch=900), cores=4).slug == "too-new"


def test_tiny_batches_pay_the_fixed_cost_each_time() -> None:
    told = verdict(
        batches(rows=20, addBatch=300, walCommit=200, commitOffsets=200, queryPlanning=200),
        cores=4,
    )

    assert told.slug == "tiny-batches"
    assert told.gain == pytest.approx(600 / 900 / 2)
    assert "20 rows" in told.what


def test_state_that_is_committed_for_long() -> None:
    operator = {"commitTimeMs": 4000, "numShufflePartitions": 8, "numRowsTotal": 1_000_000}
    told = verdict(batches(addBatch=950, raw={"stateOperators": [operator]}), cores=4)

    assert told.slug == "state-commit"
    assert "1,000,000 rows in 8 partitions" in told.what
    assert told.gain == pytest.approx(500 / 950 / 2)


def test_a_topic_with_fewer_partitions_than_cores() -> None:
    source = {"endOffset": {"t": {"0": 5}}}
    told = verdict(batches(addBatch=950, walCommit=10, raw={"sources": [source]}), cores=4)

    assert told.slug == "few-partitions"
    assert "3 of 4 cores" in told.what
    assert told.gain == pytest.approx(950 / 960 * 0.75)


def test_one_part_that_takes_most_of_it() -> None:
    told = verdict(batches(addBatch=200, latestOffset=700), cores=4)

    assert told.slug == "phase"
    assert "looking for new input" in told.what
    assert told.gain == pytest.approx(7 / 9)


def test_work_is_work() -> None:
    told = verdict(batches(addBatch=950, walCommit=20), cores=4)

    assert told.slug == "work"
    assert told.gain is None


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.lists(JUNK, max_size=3),
    st.lists(JUNK, max_size=3),
    st.floats(1, 1e6),
    st.integers(1, 10**6),
)
def test_nothing_that_spark_could_say_makes_it_fail(
    operators: list[Any], sources: list[Any], took: float, rows: int
) -> None:
    durations = {"addBatch": took / 2, "triggerExecution": took}
    raw = {"stateOperators": operators, "sources": sources, "durationMs": durations}

    told = verdict(batches(8, rows=rows, raw=raw), cores=2)

    assert told.what
    assert told.gain is None or 0 <= told.gain <= 1
