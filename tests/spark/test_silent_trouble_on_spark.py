"""A field that is renamed, a column that goes null, lookups that drop rows: staged on real queries.

One pipeline for all of it. The clock of its events is ours, so that minutes pass between batches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building import built
from pyspark.sql import SparkSession

from headrace.driver import pipeline
from headrace.driver.events import EventsFile
from headrace.driver.quality_counts import BatchCounts
from headrace.driver.running_queries import Queries
from headrace.health.conditions import table
from headrace.health.run_view import fold_all
from headrace.model.events import Event, EventKind
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits

pytestmark = pytest.mark.spark

ROWS = 120
CODE = """
@hr.source
def incoming():
    return hr.text("incoming")

@hr.source
def stations():
    return hr.csv("stations", schema="id int, height double", options={"header": "true"})

@hr.source
def devices():
    return hr.json("devices", schema="id bigint, room string")

@hr.table
def customers():
    return hr.parquet("customers")

@hr.table
def blocked():
    return hr.parquet("blocked")

@hr.view
def logs(incoming):
    return hr.parse_json(incoming, "id bigint, temp double, note string", quarantine=False)

@hr.stream(to=hr.parquet("data/kept"))
def kept(logs, customers):
    return logs.join(customers, "id")

@hr.stream(to=hr.parquet("data/stopped"))
def stopped(devices, blocked):
    return devices.join(blocked, "id", "left_semi")

@hr.stream(to=hr.parquet("data/heights"))
def heights(stations):
    return stations
"""


class Staged:
    """The pipeline, running, and what its events say."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder, self.now, self.fed = folder, 1_794_940_440.0, 0  # 2026-11-17 18:34:00Z
        for name in ("incoming", "stations", "devices"):
            (folder / name).mkdir()
        spark.range(1000).selectExpr("id", "'x' as name").write.parquet(str(folder / "customers"))
        spark.range(0).write.parquet(str(folder / "blocked"))
        events = EventsFile(folder / "events.jsonl", clock=lambda: self.now)
        self.queries = Queries(spark=None, events=events)
        self.queries.counts = BatchCounts(self.queries.record_ages, rest=0)
        self.queries.attach(spark)
        for planned in built(spark, folder, CODE).planned:
            pipeline.start(spark, planned, None, self.queries)

    def feed(self, into: str, lines: list[str]) -> None:
        self.fed += 1
        half = self.folder / ".half"
        half.write_text("\n".join(lines) + "\n")
        half.rename(self.folder / into / f"{self.fed}.txt")

    def pass_on(self, minutes: float) -> None:
        """All that is there is answered and told; then time goes by."""
        for one in self.queries.all():
            one.query.processAllAvailable()
        wanted = {one.name: one.last_committed_batch() for one in self.queries.all()}
        deadline = time.monotonic() + 120
        while any(n is not None and self._told(name) < n for name, n in wanted.items()):
            assert time.monotonic() < deadline, "Spark's listener lost a batch"
            time.sleep(0.05)
        self.now += minutes * 60

    def _told(self, name: str) -> int:
        told = [e for e in self.events() if e.kind is EventKind.PROGRESSED and e.query == name]
        return told[-1].data["progress"]["batchId"] if told else -1

    def events(self) -> list[Event]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [Event.from_line(line) for line in lines]

    def findings(self) -> dict[tuple[str, str], Finding]:
        found = table.by_query(fold_all(self.events()), HealthLimits())
        return {(query, one.slug): one for query, all_ in found.items() for one in all_}


@pytest.fixture
def staged(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> Iterator[Staged]:
    monkeypatch.chdir(tmp_path)
    one = Staged(spark, tmp_path)
    yield one
    for watched in one.queries.all():
        watched.query.stop()


def reading(number: int, **fields: Any) -> str:
    return json.dumps({"id": number, **fields})


def test_nothing_fails_and_each_trouble_is_found(staged: Staged) -> None:
    for _ in range(2):
        staged.feed("incoming", [reading(n, temp=n / 2, said="private words") for n in range(ROWS)])
        staged.feed("stations", ["id,height", *(f"{n},{n}.5" for n in range(ROWS))])
        staged.pass_on(3)
    assert staged.findings() == {}

    later = range(5_000, 5_000 + ROWS)
    staged.now = 1_794_941_640.0  # 18:54
    staged.feed("incoming", [reading(n, temperature=n / 2, said="private words") for n in later])
    staged.feed("stations", ["id,height", *(f"{n},unknown" for n in later)])
    staged.feed("devices", [reading(n, room="a") for n in range(3)])
    staged.pass_on(1)

    found = staged.findings()
    assert set(found) == {
        ("kept", "field-null"),
        ("kept", "lookup-unmatched"),
        ("stopped", "lookup-empty"),
        ("heights", "field-null"),
    }
    renamed = found["kept", "field-null"]
    assert renamed.what == (
        "`temp` is null in all rows since 2026-11-17 18:54:00Z; 100 % of records have "
        "an unknown field `temperature`."
    )
    assert str(renamed.fix).startswith(
        "Add `temperature` to the schema in hr.parse_json (orders.py:25), or ask the producer of "
        "incoming to send `temp` again. Rows that were already written keep their nulls"
    )
    assert (
        found["heights", "field-null"].what
        == "`height` is null in all rows since 2026-11-17 18:54:00Z."
    )
    assert found["kept", "lookup-unmatched"].what == (
        f"The join with customers has dropped all rows since 2026-11-17 18:54:00Z "
        f"({ROWS} of {ROWS} rows, compared with 0 % before)."
    )
    assert found["stopped", "lookup-empty"].what.startswith("The lookup table blocked is empty")
    assert "private words" not in (staged.folder / "events.jsonl").read_text()
