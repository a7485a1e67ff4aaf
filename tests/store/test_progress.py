"""Progress is taken in once, and roll-ups are what one would compute from all raw rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.progress import from_spark
from headrace.store import db, migrations, progress, retention
from headrace.store.rollups import MetricBucket

DAY = 86_400.0
T0 = 1_700_000_000.0 // 3600 * 3600  # a full hour


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[db.Store]:
    opened = db.open_history(tmp_path / "history.db")
    yield opened
    opened.close()


def spark(batch: int = 0, rows: int = 10, **more: Any) -> dict[str, Any]:
    """A progress object as Spark 4.2 writes it."""
    return {
        "id": "6d1df9dd-fc3e-4a65-b648-74a36a7ea07c",
        "runId": "c51f143a-4408-4548-ba4c-a17cdd222994",
        "name": "q",
        "timestamp": "2025-01-01T00:00:00.000Z",
        "batchId": batch,
        "batchDuration": 120,
        "numInputRows": rows,
        "inputRowsPerSecond": 5.5,
        "processedRowsPerSecond": 83.3,
        "durationMs": {"addBatch": 70, "walCommit": 20, "triggerExecution": 121},
        "eventTime": {"watermark": "2025-01-01T00:01:00.000Z"},
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 1},
            {"numRowsTotal": 4, "memoryUsedBytes": 500, "numRowsDroppedByWatermark": 2},
        ],
        "sources": [{"description": "FileStreamSource", "numInputRows": rows}],
        "sink": {"description": "FileSink", "numOutputRows": 7},
        **more,
    }


def add(conn: db.Store, at: float = T0, body: Any = None, run: str = "r", query: str = "q") -> bool:
    return progress.add(conn, "p", run, query, at, from_spark(spark() if body is None else body))


def test_the_numbers_of_a_batch_are_taken_from_sparks_progress(conn: db.Store) -> None:
    add(conn, T0, spark(batch=3))

    row = progress.newest(conn, "p", "q")[0]

    assert (row.batch, row.at, row.rows_in, row.rows_out) == (3, T0, 10, 7)
    assert (row.input_rate, row.processing_rate, row.batch_ms) == (5.5, 83.3, 121)
    assert row.phases == {"addBatch": 70, "walCommit": 20, "triggerExecution": 121}
    assert (row.state_rows, row.state_bytes, row.dropped_by_watermark) == (7, 1500, 3)
    assert row.watermark == 1735689660.0
    assert row.raw == spark(batch=3)


def test_the_same_batch_of_a_run_is_taken_in_once(conn: db.Store) -> None:
    added = [add(conn, T0), add(conn, T0 + 1), add(conn, T0, run="r2"), add(conn, T0, query="q2")]

    assert added == [True, False, True, True]
    minute = progress.read_buckets(conn, "p", "q", T0, T0 + 60, 60)[0]
    assert (minute.batches, minute.rows_in) == (2, 20)


def test_reading_an_events_file_again_changes_nothing(conn: db.Store) -> None:
    lines = [json.dumps(spark(batch=n, rows=n)) for n in range(50)]

    def ingest() -> list[Any]:
        with db.transaction(conn):
            for n, line in enumerate(lines):
                add(conn, T0 + 7 * n, json.loads(line))
        everything = "SELECT * FROM progress_minute UNION ALL SELECT * FROM progress_hour"
        return [tuple(row) for row in db.rows(conn, everything)]

    once, twice = ingest(), ingest()

    assert once == twice
    assert len(progress.newest(conn, "p", "q")) == 50


def test_the_newest_rows_are_in_order_and_limited(conn: db.Store) -> None:
    for n in range(5):
        add(conn, T0 + n, spark(batch=n))

    assert [r.batch for r in progress.newest(conn, "p", "q", limit=2)] == [3, 4]


@pytest.mark.parametrize("more", [{"batchId": None}, {"batchId": "x"}, {"batchId": True}])
def test_what_has_no_batch_is_not_taken_in(conn: db.Store, more: dict[str, Any]) -> None:
    assert not add(conn, T0, {**spark(), **more})
    assert progress.newest(conn, "p", "q") == []


@pytest.mark.parametrize(
    "more",
    [
        {"inputRowsPerSecond": math.nan, "processedRowsPerSecond": math.inf},
        {"numInputRows": 2**63, "sources": None},
        {"stateOperators": None, "durationMs": None, "eventTime": None, "sink": None},
        {"stateOperators": [None, 3, {"numRowsTotal": "many"}, {"numRowsTotal": 2**62}] * 3},
        {"durationMs": {"addBatch": "slow", "triggerExecution": None}, "batchDuration": 10**400},
        {"eventTime": {"watermark": "yesterday"}, "sink": {"numOutputRows": -1}},
        {"eventTime": [], "sources": {"a": 1}, "sink": 5},
    ],
)
def test_odd_numbers_never_fail_and_are_left_out(conn: db.Store, more: dict[str, Any]) -> None:
    assert add(conn, T0, {**spark(), **more})

    row = progress.newest(conn, "p", "q")[0]
    numbers = [row.input_rate, row.processing_rate, row.batch_ms, row.watermark]
    assert all(n is None or math.isfinite(n) for n in numbers)
    assert progress.read_buckets(conn, "p", "q", T0, T0 + 60, 60)[0].batches == 1


def test_an_unknown_number_of_rows_out_is_none_and_not_zero(conn: db.Store) -> None:
    add(conn, T0, spark(sink={"numOutputRows": -1}))

    assert progress.newest(conn, "p", "q")[0].rows_out is None
    assert progress.read_buckets(conn, "p", "q", T0, T0 + 60, 60)[0].rows_out is None


def test_a_watermark_of_1970_means_none(conn: db.Store) -> None:
    add(conn, T0, spark(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))

    assert progress.newest(conn, "p", "q")[0].watermark is None


def test_a_huge_progress_object_is_stored_without_its_largest_members(conn: db.Store) -> None:
    add(conn, T0, spark(sources=[{"endOffset": {str(n): n for n in range(50_000)}}]))

    raw = progress.newest(conn, "p", "q")[0].raw

    assert raw["trimmed"] == ["sources"]
    assert raw["batchId"] == 0


def test_the_step_decides_which_rows_are_read(conn: db.Store) -> None:
    for n in range(130):
        add(conn, T0 + 60 * n, spark(batch=n, rows=1))

    def rows(step_s: float) -> list[tuple[float, int]]:
        found = progress.read_buckets(conn, "p", "q", T0, T0 + 130 * 60, step_s)
        return [(b.start - T0, b.rows_in) for b in found]

    assert rows(3600) == [(0, 60), (3600, 60), (7200, 10)]
    assert rows(30)[:2] == [(0, 1), (60, 1)]
    assert rows(60) == [(60 * n, 1) for n in range(130)]
    assert sum(count for _, count in rows(300)) == 130
    assert len(rows(90)) == len(rows(120))  # rounded up to whole minutes


def test_a_range_has_its_beginning_and_not_its_end(conn: db.Store) -> None:
    for n in range(3):
        add(conn, T0 + 60 * n, spark(batch=n))

    found = progress.read_buckets(conn, "p", "q", T0 + 70, T0 + 120, 60)

    assert [b.start for b in found] == [T0 + 60]


def test_a_range_with_too_many_points_gives_the_latest(conn: db.Store) -> None:
    add(conn, T0, spark(batch=0))
    add(conn, T0 + 50_000, spark(batch=1))

    found = progress.read_buckets(conn, "p", "q", 0, T0 + 60_000, 5)

    assert [b.start for b in found] == [T0 + 50_000]


def test_rates_by_minute_and_query_say_whether_the_minute_is_complete(conn: db.Store) -> None:
    start = T0 // 60 * 60
    for query in ("one", "other"):
        body = {**spark(rows=600), "durationMs": {"triggerExecution": 100}}
        assert add(conn, start + 5, body, query=query)

    def rates(now: float) -> list[Any]:
        return [tuple(one)[1:] for one in progress.minute_rates(conn, start, now)]

    assert rates(start + 90) == [
        ("one", start, 10.0, 6_000.0, True),
        ("other", start, 10.0, 6_000.0, True),
    ]
    assert rates(start + 30) == [
        ("one", start, 20.0, 6_000.0, False),
        ("other", start, 20.0, 6_000.0, False),
    ], "half a minute has gone by"
    assert rates(start + 5) == [], "it has hardly begun"


def fresh(p50_ms: float, p99_ms: float, n: int = 10) -> dict[str, Any]:
    return {"basis": "arrival", "n": n, "p50_ms": p50_ms, "p99_ms": p99_ms, "newest_ms": 1}


def test_how_old_the_rows_of_a_batch_were_is_kept_and_added_up_by_rows(conn: db.Store) -> None:
    progress.add(conn, "p", "r", "q", T0, from_spark(spark(batch=0)), fresh(100, 900, n=30))
    progress.add(conn, "p", "r", "q", T0 + 1, from_spark(spark(batch=1)), fresh(500, 700, n=10))
    progress.add(
        conn, "p", "r", "q", T0 + 2, from_spark(spark(batch=2))
    )  # nothing is known of this one

    first, _, last = progress.newest(conn, "p", "q")
    assert (first.fresh_basis, first.fresh_n, first.fresh_newest_ms) == ("arrival", 30, 1)
    assert (first.fresh_p50_ms, first.fresh_p99_ms) == (100, 900)
    assert (last.fresh_basis, last.fresh_n, last.fresh_p50_ms) == (None, 0, None)
    for step_s in (10, 60, 3600):
        (bucket,) = progress.read_buckets(conn, "p", "q", T0, T0 + 60, step_s)
        assert (bucket.fresh_n, bucket.fresh_p50_ms, bucket.fresh_p99_ms_max) == (40, 200, 900)
        assert bucket.dropped == 9


@pytest.mark.parametrize(
    "odd", [None, [], "x", {}, {**fresh(1, 2), "n": 0}, {**fresh(1, 2), "p99_ms": math.nan}]
)
def test_odd_ages_are_left_out(conn: db.Store, odd: Any) -> None:
    assert progress.add(conn, "p", "r", "q", T0, from_spark(spark()), odd)

    assert progress.newest(conn, "p", "q")[0].fresh_n == 0
    assert progress.read_buckets(conn, "p", "q", T0, T0 + 60, 60)[0].fresh_p50_ms is None


ROWS = st.lists(
    st.tuples(
        st.integers(0, 8),  # batch
        st.sampled_from(["r1", "r2"]),
        st.floats(0, 3 * 3600, allow_nan=False),  # seconds after T0
        st.integers(0, 1000),  # rows in
        st.sampled_from([-1, 0, 5]),  # rows out
        st.one_of(st.none(), st.integers(0, 10_000)),  # ms
        st.one_of(st.none(), st.integers(1, 4000)),  # watermark, seconds after T0
        st.one_of(st.none(), st.integers(0, 99)),  # rows of state
        st.one_of(st.none(), st.tuples(st.integers(1, 99), st.integers(0, 9_999))),  # n, age in ms
    ),
    max_size=40,
)


@pytest.mark.thorough
@settings(max_examples=40)
@given(rows=ROWS, step_s=st.sampled_from([60, 300, 3600, 7200]))
def test_roll_ups_equal_a_recomputation_from_all_raw_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], step_s: int
) -> None:
    conn = db.open_history(tmp_path_factory.mktemp("h") / "history.db")
    taken: dict[tuple[str, int], Any] = {}
    with db.transaction(conn):
        for batch, run, offset, rows_in, rows_out, ms, mark, state, age in rows:
            body: dict[str, Any] = {"batchId": batch, "numInputRows": rows_in}
            body["sink"] = {"numOutputRows": rows_out}
            body["durationMs"] = {} if ms is None else {"triggerExecution": ms}
            moment = None if mark is None else T0 + mark
            if moment is not None:
                body["eventTime"] = {"watermark": _iso(moment)}
            body["stateOperators"] = [] if state is None else [{"numRowsTotal": state}]
            ages = None if age is None else fresh(age[1], age[1] + 1, n=age[0])
            is_new = progress.add(conn, "p", run, "q", T0 + offset, from_spark(body), ages)
            assert is_new == ((run, batch) not in taken)
            told = (T0 + offset, rows_in, rows_out, ms, moment, state, age)
            taken.setdefault((run, batch), told)

    found = progress.read_buckets(conn, "p", "q", T0 - step_s, T0 + 4 * 3600, step_s)
    conn.close()

    assert [_as_tuple(b) for b in found] == _recomputed(list(taken.values()), step_s)


def _iso(moment: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


def _as_tuple(b: MetricBucket) -> tuple[Any, ...]:
    amounts = (b.batches, b.rows_in, b.rows_in_min, b.rows_in_max, b.rows_out)
    ages = (b.fresh_n, b.fresh_p50_ms_by_n, b.fresh_p99_ms_max)
    return (b.start, *amounts, b.batch_ms, b.batch_ms_max, b.state_rows_max, b.watermark, *ages)


def _recomputed(raw: list[Any], step_s: int) -> list[tuple[Any, ...]]:
    result = []
    for start in sorted({at // step_s * step_s for at, *_ in raw}):
        inside = [row for row in raw if start <= row[0] < start + step_s]
        rows_in = [row[1] for row in inside]
        rows_out = [row[2] for row in inside if row[2] >= 0]
        ms = [row[3] for row in inside if row[3] is not None]
        marks = [(row[0], row[4]) for row in inside if row[4] is not None]
        state = [row[5] for row in inside if row[5] is not None]
        ages = [row[6] for row in inside if row[6] is not None]
        result.append(
            (
                start,
                len(inside),
                sum(rows_in),
                min(rows_in),
                max(rows_in),
                sum(rows_out) if rows_out else None,
                sum(ms) if ms else None,
                max(ms) if ms else None,
                max(state) if state else None,
                max(marks)[1] if marks else None,
                sum(n for n, _ in ages),
                sum(n * age for n, age in ages) if ages else None,
                max(age + 1 for _, age in ages) if ages else None,
            )
        )
    return result


def test_pruning_raw_rows_keeps_the_roll_ups_and_reading_again_does_not_count_twice(
    conn: db.Store,
) -> None:
    for n in range(20):
        add(conn, T0 + n, spark(batch=n))
    before = progress.read_buckets(conn, "p", "q", T0, T0 + 60, 60)

    gone = retention.prune(conn, T0 + 4 * DAY)
    again = [add(conn, T0 + n, spark(batch=n)) for n in range(20)]
    new = add(conn, T0 + 20, spark(batch=20))

    assert gone["progress"] == 20
    assert again == [False] * 20
    assert new
    assert (
        progress.read_buckets(conn, "p", "q", T0, T0 + 60, 60)[0].batches == before[0].batches + 1
    )


def test_a_history_from_before_freshness_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "history.db", migrations.HISTORY
    monkeypatch.setattr(migrations, "HISTORY", replace(now, steps=now.steps[:1]))
    old = db.open_history(path)
    old.execute(
        "INSERT INTO progress (pipeline, run, query, batch, at, rows_in, phases,"
        " dropped_by_watermark, raw) VALUES ('p', 'r', 'q', 1, ?, 5, '{}', 0, '')",
        (T0,),
    )
    old.commit()
    old.close()
    monkeypatch.setattr(migrations, "HISTORY", now)

    conn = db.open_history(path)
    progress.add(conn, "p", "r", "q", T0 + 1, from_spark(spark(batch=2)), fresh(100, 900))

    before, after = progress.newest(conn, "p", "q")
    assert (before.rows_in, before.fresh_n, before.fresh_p50_ms) == (5, 0, None)
    assert (after.batch, after.fresh_p50_ms) == (2, 100)
    conn.close()
