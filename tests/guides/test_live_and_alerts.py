"""The guide to live tables and alerts: its table and its alerts are what its samples give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from guidebook import Guide

from headrace.connectors import live_snapshots
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db
from headrace.supervisor.alert_files import AlertFileReader
from headrace.supervisor.store_writer import StoreWriter

pytestmark = pytest.mark.spark


def test_the_table_and_the_alerts_are_as_the_guide_says(guide: Callable[..., Guide]) -> None:
    clusters = guide("live-and-alerts")
    clusters.feed(clusters.samples[0])
    clusters.drain()
    places = StatePaths(clusters.folder.resolve() / ".headrace")
    history = StoreWriter(places)
    AlertFileReader(places, history, lambda: 1.0).take_last(1.0)
    history.close()

    found = live_snapshots.read(Path("results/clusters/loads/v1"), pq.read_table)
    conn = db.open_readonly(places.alerts)
    listed = alerts.list_alerts(conn, "all")
    conn.close()

    assert found is not None
    rows = sorted(found.to_pylist(), key=lambda row: row["load"])
    assert [tuple(row.values()) for row in rows] == [
        ("south", 40.0), ("east", 62.0), ("north", 99.9),
    ]  # fmt: skip
    told = {(one.title, one.count, one.resolved_at is None, one.severity) for one in listed}
    assert told == {
        ("Cluster north: load 100 %", 2, True, "critical"),
        ("Cluster east: load 100 %", 1, False, "critical"),
    }
