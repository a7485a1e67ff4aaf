"""The dashboard, the rules and the page, checked by Grafana's schema and Prometheus's own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from headrace.metrics import packaged_files, prometheus_text, table
from headrace.metrics.metric import Kind
from metrics import pages

BOARD = json.loads(packaged_files.read(packaged_files.DASHBOARD))
RULES = packaged_files.read(packaged_files.RULES)


def promtool(*arguments: str, text: bytes = b"") -> tuple[int, str]:
    program = shutil.which("promtool")
    assert program, "promtool is missing: run scripts/system-parts"
    done = subprocess.run([program, *arguments], input=text, capture_output=True, timeout=120)
    return done.returncode, (done.stdout + done.stderr).decode()


def lost(given: Any, back: Any, place: str = "") -> list[str]:
    """What the schema did not know: it reads each field by name and type."""
    if isinstance(given, dict) and isinstance(back, dict):
        found = [f"{place}/{key}" for key in given.keys() - back.keys()]
        return found + [
            one
            for key in given.keys() & back.keys()
            for one in lost(given[key], back[key], f"{place}/{key}")
        ]
    if isinstance(given, list) and isinstance(back, list) and len(given) == len(back):
        return [
            one
            for n, pair in enumerate(zip(given, back, strict=True))
            for one in lost(*pair, f"{place}/{n}")
        ]
    return [] if given == back else [f"{place}: {given!r} became {back!r}"]


def through_the_schema(board: dict[str, Any]) -> dict[str, Any]:
    register_default_plugins()
    back: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    return back


def test_grafanas_schema_knows_every_field_of_the_dashboard() -> None:
    assert lost(BOARD, through_the_schema(BOARD)) == []


def test_the_check_against_the_schema_can_fail() -> None:
    board = json.loads(json.dumps(BOARD))
    board["panels"][1]["fieldConfig"]["defaults"]["unitt"] = "s"

    assert lost(board, through_the_schema(board)) == ["/panels/1/fieldConfig/defaults/unitt"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = BOARD["panels"]

    assert len({one["id"] for one in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_above, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_every_panel_says_what_it_shows_and_asks_the_chosen_data_source() -> None:
    for panel in BOARD["panels"]:
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
    assert BOARD["templating"]["list"][0]["type"] == "datasource"


@pytest.mark.parametrize("text", [json.dumps(BOARD), RULES], ids=["dashboard", "rules"])
def test_only_existing_metrics_are_used(text: str) -> None:
    known = {one.name for one in table.METRICS}
    for one in table.METRICS:
        if one.kind is Kind.HISTOGRAM:
            known |= {f"{one.name}_{part}" for part in ("bucket", "sum", "count")}

    assert set(re.findall(r"\bheadrace_\w+", text)) - known == set()


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_promtool_finds_no_problem_in_the_page(accept: str) -> None:
    """It reads the text format only; OpenMetrics is read by the real Prometheus of another test."""
    body, _ = prometheus_text.page(table.read_all(pages.full_facts()), accept)
    if accept:
        assert body.endswith(b"# EOF\n")
        return
    assert promtool("check", "metrics", text=body) == (0, "")


def test_promtool_finds_a_problem_if_there_is_one() -> None:
    code, said = promtool("check", "metrics", text=b"# TYPE x_total gauge\nx_total 1\n")

    assert code != 0
    assert "x_total" in said


def test_promtool_finds_no_problem_in_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(RULES)

    code, said = promtool("check", "rules", "--lint-fatal", str(tmp_path / "rules.yml"))

    assert code == 0, said


def test_rules_fire_and_stay_quiet_as_they_should(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(RULES)
    shutil.copy(Path(__file__).with_name("rules_test.yml"), tmp_path)

    code, said = promtool("test", "rules", str(tmp_path / "rules_test.yml"))

    assert code == 0, said


def test_every_rule_is_tested() -> None:
    tested = Path(__file__).with_name("rules_test.yml").read_text()
    names = set(re.findall(r"- alert: (\w+)", RULES))

    assert set(re.findall(r"alertname: (\w+)", tested)) == names
