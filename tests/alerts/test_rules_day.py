"""Whole days on a simulated clock: a healthy one raises no alert, and 20 troubles raise 20."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.rule_bench import RuleBench
from alerts.rule_world import Trouble, World
from headrace.alerts.rules import rule_settings
from headrace.config import load

SETTINGS = """
[rules.lag]
rows = 100_000
[rules.no-data]
after = "10 minutes"
queries = ["kept"]
[rules.slow-input]
when = "avg(input_rate, 10 minutes) < 20"
queries = ["kept"]
[rules.hot]
sql = "SELECT city FROM cities WHERE cpu > 90"
"""
TROUBLES = (
    Trouble(1, "crashes", "restarting:shop", 5),
    Trouble(2, "flapping", "restarting:shop", 30),
    Trouble(3.5, "poison", "needs-attention:shop", 20),
    Trouble(4.5, "no-retries", "restarts-off:shop", 20),
    Trouble(5.5, "stuck", "stalled:shop:joined", 8),
    Trouble(6.5, "silent", "stalled:shop:kept", 10),
    Trouble(7.5, "held", "stalled:shop:joined", 30),
    Trouble(8.5, "old", "freshness:shop:kept", 30),
    Trouble(9.5, "lag", "lag:shop:kept", 20),
    Trouble(10.5, "behind", "falling-behind:shop:kept", 5),
    Trouble(11.5, "slow", "slow-batch:shop:joined", 30),
    Trouble(12.5, "loss", "data-loss:shop:kept", 20),
    Trouble(13.5, "late", "late-rows:shop:joined", 20),
    Trouble(14.5, "bad", "many-quarantined:shop:kept.quarantine", 20),
    Trouble(15.5, "renamed", "field-null:shop:kept", 20),
    Trouble(16.5, "future", "event-time-in-future:shop:joined", 20),
    Trouble(17.5, "grows", "state-grows:shop:joined", 90),
    Trouble(20, "heap", "driver-memory:shop", 20),
    Trouble(21, "disk", "disk-filling:::/srv", 20),
    Trouble(22, "sql", "hot", 20),
    Trouble(22.7, "no-data", "no-data:shop:kept", 30),
    Trouble(22.7, "no-data", "slow-input:shop:kept", 30),
)


def bench(tmp_path: Path) -> RuleBench:
    (tmp_path / "headrace.toml").write_text(SETTINGS)
    return RuleBench(rule_settings.build(load(tmp_path)))


@pytest.mark.thorough
def test_a_healthy_day_raises_no_alert(tmp_path: Path) -> None:
    world = World(1, bench(tmp_path))

    assert world.run(24.0) == []
    assert len(world.past) == 4, "it was restarted now and then"


@pytest.mark.thorough
def test_a_day_of_troubles_raises_exactly_their_alerts(tmp_path: Path) -> None:
    world = World(3, bench(tmp_path), TROUBLES)

    said = world.run(24.5)

    opened = [one[1:] for one in said if one.startswith("+")]
    resolved = [one[1:] for one in said if one.startswith("-")]
    assert len(TROUBLES) > 20
    assert sorted(opened) == sorted(trouble.alert for trouble in TROUBLES)
    assert sorted(resolved) == sorted(opened)
    assert world.bench.open == {}
