"""The trigger of a query that nobody wrote: it follows the queries that it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import config
from headrace.define.graph import GraphNode
from headrace.define.triggers import AvailableNow, Every, Trigger
from headrace.driver.frames import QUARANTINE_EVERY_S, quarantine_query

VIEW = GraphNode("records", "view", "orders.py:3", inputs=("lines",))


@pytest.mark.parametrize(
    ("triggers", "follows"),
    [
        ([AvailableNow(), AvailableNow()], AvailableNow()),
        ([AvailableNow(), Every(1.0)], Every(QUARANTINE_EVERY_S)),
        ([None], Every(QUARANTINE_EVERY_S)),
    ],
)
def test_a_quarantine_ends_only_if_all_its_readers_do(
    triggers: list[Trigger | None], follows: Trigger, tmp_path: Path
) -> None:
    readers = [GraphNode("q", "query", "orders.py:9", trigger=one) for one in triggers]
    node = quarantine_query(VIEW, readers, 1, "orders", config.load(tmp_path, "dev"))
    assert node.trigger == follows


def test_an_interval_in_the_settings_wins(tmp_path: Path) -> None:
    toml = '[pipelines.orders.queries."records.quarantine"]\nevery = "30 seconds"\n'
    (tmp_path / "headrace.toml").write_text(toml)
    settings = config.load(tmp_path, "dev").for_pipeline("orders")
    readers = [GraphNode("q", "query", "orders.py:9", trigger=AvailableNow())]
    assert quarantine_query(VIEW, readers, 1, "orders", settings).trigger == Every(30.0)
