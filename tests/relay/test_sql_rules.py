"""Rules with SQL in the relay: real child processes, real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.model.rules import SqlResult
from headrace.project.workspace import open_workspace
from headrace.relay.sql_rules import SqlRules
from headrace.state import sql_rules

pytestmark = pytest.mark.e2e

SETTINGS = """
[rules.rows]
sql = "SELECT 'Bern' AS city, 7 AS count UNION ALL SELECT 'Basel', 8"
every = "1 minute"
[rules.none]
sql = "SELECT 1 WHERE 1 = 0"
[rules.wrong]
sql = "SELECT * FROM nowhere"
[rules.off]
sql = "SELECT 1"
enabled = false
"""


def test_each_rule_is_evaluated_when_it_is_due_and_its_result_is_written(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text(SETTINGS)
    work = open_workspace(tmp_path, "dev")
    now = [1000.0]
    mine = SqlRules(lambda: now[0], lambda: now[0])
    try:
        problems = [one for _ in range(2) for one in mine.tick(work)]  # two queries a round
        first = sql_rules.read(work.places)
        now[0] += 35
        mine.tick(work)
        mine.tick(work)
        second = sql_rules.read(work.places)
    finally:
        mine.close()

    assert first.keys() == {"rows", "none", "wrong"}
    assert (first["rows"].rows, first["rows"].first) == (2, "city=Bern, count=7")
    assert (first["rows"].since, first["rows"].every_s) == (1000.0, 60.0)
    assert (first["none"].rows, first["none"].problem) == (0, None)
    assert "nowhere" in (first["wrong"].problem or "")
    assert any(one.startswith("rule wrong: ") for one in problems)
    assert second["rows"].at == 1000.0, "not due yet"
    assert second["none"].at == 1035.0


def test_a_relay_that_was_restarted_knows_since_when_a_rule_holds(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('[rules.rows]\nsql = "SELECT 1 AS one"\n')
    work = open_workspace(tmp_path, "dev")
    sql_rules.write(work.places, [SqlResult("rows", 1000.0, rows=1, first="one=1", since=900.0)])
    mine = SqlRules(lambda: 2000.0, lambda: 2000.0)
    try:
        mine.tick(work)
    finally:
        mine.close()

    found = sql_rules.read(work.places)["rows"]

    assert (found.at, found.since) == (2000.0, 900.0)
