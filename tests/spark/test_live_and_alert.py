"""The live and the alert sink with a real session: state, replays, and what is taken of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import config
from headrace.connectors import alert as alert_sink
from headrace.connectors import live_snapshots
from headrace.errors import ConnectorError
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db
from headrace.supervisor.alert_files import AlertFileReader
from headrace.supervisor.store_writer import StoreWriter

pytestmark = pytest.mark.spark

SCHEMA = "k string, load double, at timestamp"


class Stage:
    """A folder of JSON files, a sink, and a query between them that can be run again."""

    def __init__(self, spark: Any, folder: Path, made: Any, mode: str, build: Any = None) -> None:
        self.spark, self.folder, self.mode = spark, folder, mode
        (folder / "in").mkdir()
        self.sink = made.bind_to_query(config.load(folder), "p", "q")
        self.build = build or (lambda frame: frame)
        self.fed = 0

    def feed(self, *rows: tuple[str, float]) -> None:
        self.fed += 1
        at = f"2026-01-01T10:{self.fed:02d}:00Z"
        lines = [json.dumps({"k": k, "load": load, "at": at}) for k, load in rows]
        (self.folder / "in" / f"{self.fed}.json").write_text("\n".join(lines))

    def run(self) -> None:
        frame = self.build(hr.json(self.folder / "in", schema=SCHEMA).read(self.spark))
        frame = self.sink.prepare_frame(frame)
        assert self.sink.sink_problem(dict(frame.dtypes)) is None
        keep = str(self.folder / "checkpoint")
        writer = self.sink.attach(frame.writeStream, query="q", mode=self.mode, checkpoint=keep)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert query.exception() is None

    def forget_last_commit(self) -> None:
        """As a driver that was killed after the sink had written and before the commit."""
        commits = self.folder / "checkpoint/commits"
        last = max(int(p.name) for p in commits.iterdir() if p.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    @property
    def table(self) -> list[tuple[Any, ...]]:
        path = live_snapshots.newest(Path(self.sink.path))
        assert path is not None
        return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def counted(frame: Any) -> Any:
    return frame.groupBy("k").count()


def test_a_live_table_is_the_same_after_a_batch_is_seen_again(spark: Any, tmp_path: Path) -> None:
    stage = Stage(spark, tmp_path, hr.live(key="k"), "update", counted)
    for rows in ([("a", 1.0), ("b", 1.0)], [("a", 1.0)], [("c", 1.0)]):
        stage.feed(*rows)
        stage.run()
    once = stage.table
    files = live_snapshots.numbers(Path(stage.sink.path))

    stage.forget_last_commit()
    stage.run()

    assert stage.table == once
    assert sorted(once) == [("a", 2), ("b", 1), ("c", 1)]
    assert once[-1] == ("c", 1)
    assert live_snapshots.numbers(Path(stage.sink.path)) == files == [0, 1, 2]


def test_a_small_live_table_takes_no_state_away_from_its_query(spark: Any, tmp_path: Path) -> None:
    """All rows of a batch are taken from Spark, also those that the table has no room for."""
    unique = Stage(spark, tmp_path, hr.live(rows=2), "append", lambda f: f.dropDuplicates(["k"]))
    keys = [(f"k{n}", 1.0) for n in range(40)]
    for _ in range(3):
        unique.feed(*keys)
        unique.run()
    unique.feed(*keys, ("new", 1.0))
    unique.run()

    assert [row[0] for row in unique.table][-1] == "new"
    said = pq.read_schema(str(live_snapshots.newest(Path(unique.sink.path)))).metadata
    assert json.loads(said[live_snapshots.METADATA])["truncated"] is True
    assert len(unique.table) == 2
    # 40 rows once, then only the new one: had state been lost, old keys would have come again.
    assert live_snapshots.numbers(Path(unique.sink.path)) == [0, 3]


def test_a_complete_result_keeps_its_order_and_its_first_rows(spark: Any, tmp_path: Path) -> None:
    def ranked(frame: Any) -> Any:
        return counted(frame).orderBy("count", "k", ascending=[False, True])

    stage = Stage(spark, tmp_path, hr.live(rows=2), "complete", ranked)
    stage.feed(("a", 1.0), ("b", 1.0), ("b", 1.0), ("c", 1.0), ("c", 1.0), ("c", 1.0))
    stage.run()

    assert stage.table == [("c", 3), ("b", 2)]


# ---- alerts


@pytest.fixture
def history(tmp_path: Path) -> Iterator[StoreWriter]:
    made = StoreWriter(StatePaths(tmp_path.resolve() / ".headrace"))
    yield made
    made.close()


def taken(folder: Path, history: StoreWriter) -> list[tuple[str, int, bool, int]]:
    places = StatePaths(folder.resolve() / ".headrace")
    AlertFileReader(places, history, lambda: 5000.0).take(lambda *_: None, 5000.0)
    conn = db.open_readonly(places.alerts)
    found = alerts.list_alerts(conn, "all")
    conn.close()
    return sorted((a.key, a.count, a.resolved_at is None, a.reopened) for a in found)


HOT = hr.alert(key="k", title="{k}: load {load}", severity="critical", clear="load < 90", at="at")


def test_a_batch_of_alert_rows_seen_again_opens_nothing_twice(
    spark: Any, tmp_path: Path, history: StoreWriter
) -> None:
    stage = Stage(spark, tmp_path, HOT, "append")
    stage.feed(("a", 99.0), ("a", 99.5), ("b", 99.0))
    stage.run()
    stage.feed(("a", 10.0), ("b", 99.0))
    stage.run()
    once = taken(tmp_path, history)

    stage.forget_last_commit()
    stage.run()

    assert taken(tmp_path, history) == once
    assert once == [("p/q/a", 2, False, 0), ("p/q/b", 2, True, 0)]
    assert not list(Path(stage.sink.path).iterdir())


def test_a_batch_seen_again_before_it_was_taken_is_one_too(
    spark: Any, tmp_path: Path, history: StoreWriter
) -> None:
    stage = Stage(spark, tmp_path, HOT, "append")
    stage.feed(("a", 99.0))
    stage.run()
    stage.forget_last_commit()
    stage.run()

    assert taken(tmp_path, history) == [("p/q/a", 1, True, 0)]


def test_rows_are_ordered_by_their_own_time(
    spark: Any, tmp_path: Path, history: StoreWriter
) -> None:
    stage = Stage(spark, tmp_path, HOT, "append")
    late = '{"k":"a","load":99.0,"at":"2026-01-01T11:00:00Z"}'
    early = '{"k":"a","load":1.0,"at":"2026-01-01T10:00:00Z"}'
    (tmp_path / "in" / "1.json").write_text(f"{late}\n{early}\n")
    stage.run()

    assert taken(tmp_path, history) == [("p/q/a", 1, True, 0)]


def test_too_many_rows_are_told_as_an_alert_of_their_own(
    spark: Any, tmp_path: Path, history: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_sink, "ALERT_ROWS_MAX", 3)
    stage = Stage(spark, tmp_path, replace(HOT, at=None), "append")
    stage.feed(*((f"k{n}", 99.0) for n in range(10)))
    stage.run()

    found = [key for key, *_ in taken(tmp_path, history)]
    assert found == ["p/q/k7", "p/q/k8", "p/q/k9", "p/q:rows-left-out"]


def test_resolved_is_the_querys_own_column_or_never(spark: Any) -> None:
    plain = hr.alert(key="k", title="t")
    clear = hr.alert(key="k", title="t", clear="n > 1")

    def shaped(sink: Any, sql: str) -> list[bool]:
        return [row.resolved for row in sink.prepare_frame(spark.sql(sql)).collect()]

    assert shaped(plain, "SELECT 1 AS k") == [False]
    rows = "SELECT * FROM VALUES (1, true), (2, null), (3, false) AS t (k, resolved)"
    assert shaped(plain, rows) == [True, False, False]
    assert shaped(clear, "SELECT * FROM VALUES (1, 2), (2, null) AS t (k, n)") == [True, False]
    with pytest.raises(ConnectorError, match="must be boolean"):
        shaped(plain, "SELECT 1 AS k, 'yes' AS resolved")
