"""Live tables without Spark: the merge against a model, the snapshots on disk, the refusals."""

from __future__ import annotations

import json
import logging
import math
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import config
from headrace.connectors import live_snapshots
from headrace.connectors.live_snapshots import LiveSnapshots, merge
from headrace.errors import ConnectorError

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string()), ("v", pa.float64())])
KEYS = st.one_of(st.none(), st.integers(0, 4))
ROW = st.tuples(KEYS, st.sampled_from([None, "", "a", "b"]), st.floats(allow_nan=False))


def table(rows: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def rows(found: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.to_pylist()]


@given(st.lists(st.lists(ROW, max_size=8), max_size=6), st.integers(1, 12))
def test_batches_merge_as_a_dict_that_remembers_the_last_update(
    batches: list[list[tuple[Any, ...]]], most: int
) -> None:
    found, model = table([]), dict[tuple[Any, ...], tuple[Any, ...]]()
    for batch in batches:
        found = merge(found, table(batch), ("k", "name"), most)
        for row in batch:
            model.pop(row[:2], None)
            model[row[:2]] = row
        for key in list(model)[: max(0, len(model) - most)]:
            del model[key]

        assert rows(found) == list(model.values())


@given(st.lists(st.lists(ROW, max_size=8), max_size=6), st.integers(1, 12))
def test_without_a_key_the_newest_rows_are_kept(
    batches: list[list[tuple[Any, ...]]], most: int
) -> None:
    found = table([])
    for batch in batches:
        found = merge(found, table(batch), (), most)

    assert rows(found) == [row for batch in batches for row in batch][-most:]


def test_not_a_number_is_one_key() -> None:
    one = table([(1, "a", math.nan)])

    assert merge(one, table([(2, "b", math.nan)]), ("v",), 9).column("k").to_pylist() == [2]


def test_a_new_column_is_null_in_old_rows_and_an_old_one_goes() -> None:
    old = table([(1, "a", 1.0)])
    new = pa.table({"more": pa.array(["x"]), "k": pa.array([2], pa.int64())})
    new = new.cast(pa.schema([pa.field("more", pa.string(), nullable=False), new.schema.field(1)]))

    found = merge(old, new, ("k",), 9)

    assert found.to_pylist() == [{"more": None, "k": 1}, {"more": "x", "k": 2}]


def test_a_wider_type_takes_both() -> None:
    old = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int64())})
    new = pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.array([0.5, 2.5])})

    assert rows(merge(old, new, ("k",), 9)) == [(1, 0.5), (2, 2.5)]


# ---- on disk


def book(folder: Path, most: int = 100, key: tuple[str, ...] = ("k",)) -> LiveSnapshots:
    return LiveSnapshots(folder, key, most, {"key": list(key), "chart": "line"})


def add(made: LiveSnapshots, batch: int, *given: tuple[Any, ...], **more: Any) -> None:
    made.add(batch, table(list(given)), at=7.0, is_whole=more.pop("is_whole", False), **more)


def current(folder: Path) -> list[tuple[Any, ...]]:
    path = live_snapshots.newest(folder)
    assert path is not None
    return rows(pq.read_table(path))


def test_the_newest_three_snapshots_are_kept_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".9.parquet.tmp").write_text("half")
    made = book(tmp_path)
    for batch in range(5):
        add(made, batch, (batch, "a", 1.0))

    assert sorted(p.name for p in tmp_path.iterdir()) == ["2.parquet", "3.parquet", "4.parquet"]
    assert [row[0] for row in current(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_batch_seen_again_gives_the_same_table(tmp_path: Path) -> None:
    add(book(tmp_path, most=2), 0, (1, "a", 1.0), (2, "a", 1.0))
    add(book(tmp_path, most=2), 1, (3, "b", 1.0))
    once = current(tmp_path)

    add(book(tmp_path, most=2), 1, (3, "b", 1.0))

    assert current(tmp_path) == once == [(2, "a", 1.0), (3, "b", 1.0)]


def test_batches_without_rows_write_nothing_and_the_table_goes_on(tmp_path: Path) -> None:
    add(book(tmp_path), 0, (1, "a", 1.0))
    add(book(tmp_path), 1)
    add(book(tmp_path), 2, (2, "a", 1.0))

    assert live_snapshots.numbers(tmp_path) == [0, 2]
    assert len(current(tmp_path)) == 2


def test_an_empty_first_batch_is_a_table_with_columns(tmp_path: Path) -> None:
    add(book(tmp_path), 0)

    path = live_snapshots.newest(tmp_path)
    assert path is not None
    assert pq.read_table(path).column_names == ["k", "name", "v"]


@pytest.mark.parametrize("given", [(), ((1, "new", 1.0),)])
def test_a_checkpoint_begun_anew_begins_the_table_anew(
    tmp_path: Path, given: tuple[tuple[Any, ...], ...]
) -> None:
    for batch in (8, 9, 10):
        add(book(tmp_path), batch, (batch, "old", 1.0))

    add(book(tmp_path), 0, *given)

    assert live_snapshots.numbers(tmp_path) == [0]
    assert current(tmp_path) == list(given)


def test_in_complete_mode_the_batch_is_the_table(tmp_path: Path) -> None:
    add(book(tmp_path), 0, (1, "a", 1.0), is_whole=True)
    add(book(tmp_path), 1, (2, "a", 1.0), is_whole=True)
    add(book(tmp_path), 2, is_whole=True)

    assert live_snapshots.numbers(tmp_path) == [0, 1, 2]
    assert current(tmp_path) == []


def test_types_that_do_not_go_together_begin_anew_and_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = pa.schema([("k", pa.string()), ("name", pa.string()), ("v", pa.float64())])
    add(book(tmp_path), 0, (1, "a", 1.0))

    book(tmp_path).add(1, table([("x", "b", 2.0)], other), at=7.0, is_whole=False)

    assert current(tmp_path) == [("x", "b", 2.0)]
    assert "starting with an empty table" in caplog.text


def test_a_damaged_snapshot_is_no_reason_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "0.parquet").write_bytes(b"torn")

    add(book(tmp_path), 1, (1, "a", 1.0))

    assert current(tmp_path) == [(1, "a", 1.0)]
    assert "damaged" in caplog.text


def test_what_was_cut_is_told_once_and_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = book(tmp_path, most=1)
    with caplog.at_level(logging.WARNING):
        add(made, 0, (1, "a", 1.0), is_cut=True)
        add(made, 1, (2, "a", 1.0), is_cut=True)
        add(made, 2, (3, "a", 1.0))

    path = live_snapshots.newest(tmp_path)
    assert path is not None
    said = json.loads(pq.read_schema(path).metadata[live_snapshots.METADATA])
    assert said == {"key": ["k"], "chart": "line", "batch": 2, "at": 7.0, "truncated": True}
    assert caplog.text.count("more than 1 rows") == 1


@pytest.mark.thorough
def test_a_reader_always_gets_a_whole_table(tmp_path: Path) -> None:
    made, stop = book(tmp_path), threading.Event()
    add(made, 0, (0, "a", 0.0))

    def write() -> None:
        for batch in range(1, 80):
            add(made, batch, *((k, "a", float(batch)) for k in range(50)))
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen: set[float] = set()
    while not stop.is_set():
        found = live_snapshots.read(tmp_path, lambda path: rows(pq.read_table(path)))
        assert found
        assert len({row[2] for row in found}) == 1  # all rows of one batch
        seen.add(found[0][2])
    thread.join()

    assert len(seen) > 3


def test_there_is_no_newest_before_the_first(tmp_path: Path) -> None:
    assert live_snapshots.newest(tmp_path / "nowhere") is None
    assert live_snapshots.read(tmp_path, lambda path: path) is None


# ---- the connector

COLUMNS = {"minute": "timestamp", "logins": "bigint", "tags": "array<string>", "x": "struct<a:int>"}


def test_its_folder_stands_in_its_fields(tmp_path: Path) -> None:
    settings = config.load(tmp_path)

    made = hr.live(key="minute", chart="bar", x="minute", y="logins")
    made = made.bind_to_query(settings, "metrics", "logins")

    folder = tmp_path.resolve() / "results/metrics/logins/v1"
    assert made.fields() == {
        "kind": "live",
        "key": ["minute"],
        "chart": "bar",
        "x": "minute",
        "y": ["logins"],
        "path": str(folder),
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key": "minut"}, "key refers to an unknown column, 'minut'; did you mean 'minute'?"),
        ({"key": "minute", "y": ["logins", "logouts"]}, "y refers to an unknown column, 'logouts'"),
        ({"key": "minute", "x": "minutes"}, "did you mean 'minute'?"),
        ({"key": "tags"}, "keys must be simple values"),
        ({"key": ["minute", "x"]}, "'x' has type struct<a:int>"),
    ],
)
def test_columns_that_will_not_do_are_named(given: dict[str, Any], words: str) -> None:
    assert words in str(hr.live(**given).sink_problem(COLUMNS))


@pytest.mark.parametrize("kind", ["interval", "interval year to month", "array<interval month>"])
def test_a_type_that_cannot_leave_spark_is_refused(kind: str) -> None:
    assert "unsupported type" in str(hr.live().sink_problem({"a": "int", "b": kind}))
    assert hr.live(key="a").sink_problem({"a": "interval day to second"}) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"chart": "barr"}, 'Write chart="bar".'),
        ({"chart": "line", "x": "a"}, "needs y"),
        ({"rows": 0}, "from 1 to"),
        ({"rows": True}, "from 1 to"),
        ({"key": ["a", "a"]}, "each only once"),
        ({"key": 7}, "Invalid key: 7"),
        ({"x": ["a", "b"], "y": "c"}, "one column"),
    ],
)
def test_a_table_that_cannot_be_is_refused_when_made(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        hr.live(**given)

    assert words in str(caught.value)
    assert caught.value.code == "bad-option"


def test_an_update_needs_a_key() -> None:
    assert "update" not in hr.live().capabilities.modes
    assert "update" in hr.live(key="a").capabilities.modes


@pytest.mark.parametrize(
    ("results", "is_fine"), [("s3a://bucket/r", False), ("file:///data/r", True), ("r", True)]
)
def test_only_a_folder_of_this_machine_will_do(tmp_path: Path, results: str, is_fine: bool) -> None:
    (tmp_path / "headrace.toml").write_text(f'[project]\nresults = "{results}"\n')
    made = hr.live().bind_to_query(config.load(tmp_path), "p", "q")
    frame: Any = object()

    if is_fine:
        assert made.prepare_frame(frame) is frame
        assert str(made.path).startswith("/")
    else:
        with pytest.raises(ConnectorError) as caught:
            made.prepare_frame(frame)
        assert caught.value.code == "results-not-local"
