"""[rules.NAME] in headrace.toml: what changes a rule, what adds one, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alerts.rule_bench import T0, lag, pipeline, query
from headrace.alerts import channels
from headrace.alerts.rules import expressions, metrics, rule_settings, table
from headrace.alerts.rules.windows import Samples
from headrace.cli import rules_reference
from headrace.config import load
from headrace.errors import ConfigError, Error, each_of
from headrace.model.rules import About, Rule, Windows

REPO = Path(__file__).parents[2]


def build(tmp_path: Path, text: str) -> dict[str, Rule]:
    (tmp_path / "headrace.toml").write_text(text)
    return rule_settings.build(load(tmp_path))


def refused(tmp_path: Path, text: str) -> list[Error]:
    with pytest.raises(Error) as caught:
        build(tmp_path, text)
    return list(each_of(caught.value))


def test_without_settings_the_rules_are_those_of_the_table(tmp_path: Path) -> None:
    assert build(tmp_path, "") == dict(table.RULES)


def test_a_table_changes_a_rule(tmp_path: Path) -> None:
    text = """
[rules.lag]
rows = 1000
seconds = "10 minutes"
bytes = "2 GB"
for = "5 minutes"
keep_firing_for = 60
severity = "error"
pipelines = ["orders-*"]
[rules.disk-filling]
free_share = "10 %"
[rules.falling-behind]
enabled = false
"""
    rules = build(tmp_path, text)

    lag_ = rules["lag"]
    assert lag_.settings() == {"rows": 1000.0, "seconds": 600.0, "bytes": 2e9}
    assert (lag_.for_s, lag_.keep_firing_for_s, lag_.severity) == (300.0, 60.0, "error")
    assert (lag_.pipelines, lag_.is_severity_set) == (("orders-*",), True)
    assert rules["disk-filling"].settings()["free_share"] == 0.1
    assert rules["disk-filling"].settings()["free_bytes"] == 10e9
    assert not rules["falling-behind"].enabled


def test_every_failure_switches_a_rule_on_and_is_no_channel(tmp_path: Path) -> None:
    text = (
        '[notify]\nevery_failure = true\n[notify.team]\nkind = "slack"\nurl = "${env:SLACK_URL}"\n'
    )
    rules = build(tmp_path, text)
    settings = load(tmp_path)

    assert rules["run-failed"].enabled
    assert not table.RULES["run-failed"].enabled
    assert [channel.name for channel in channels.channels(settings)] == ["team"]


@pytest.mark.parametrize(
    "wrong", ["every_failur = true", "every_failure = 5", "[notify.every_failure]"]
)
def test_another_value_in_notify_is_refused(tmp_path: Path, wrong: str) -> None:
    (error,) = refused(tmp_path, f"[notify]\n{wrong}\n")

    assert "every_failur" in error.what
    assert error.where == "headrace.toml:2"
    assert error.fix


@pytest.mark.parametrize(
    ("text", "line", "what", "fix"),
    [
        ("[rules.falling-behnd]\nenabled = false", 1, "no rule of Headrace", "'falling-behind'"),
        ('[rules.own]\nfor = "1 minute"', 1, "neither when nor sql", "Add a condition"),
        ('[rules.own]\nwhen = "lag_rows > 1"\nsql = "SELECT 1"', 1, "both when and sql", ""),
        ("[rules.store]\nenabled = false", 1, "the name cannot be used", "another name"),
        ('[rules."a:b"]\nwhen = "lag_rows > 1"', 1, "the name cannot be used", "another name"),
        ('[rules.own]\nwhen = "lag_row > 5"', 2, "Unknown metric 'lag_row'", "'lag_rows'"),
        ('[rules.own]\nwhen = "avg(input_rat, 1 hour) > 5"', 2, "'input_rat'", "'input_rate'"),
        ('[rules.own]\nwhen = "lag_seconds > 5 minuts"', 2, "unit 'minuts'", "'minutes'"),
        ('[rules.own]\nwhen = "lag_seconds > 2 GB"', 2, "lag_seconds is in seconds", "own unit"),
        ('[rules.own]\nwhen = "lag_seconds >"', 2, "Invalid condition", "when = "),
        ('[rules.own]\nwhen = "lag_rows > 1 or"', 2, "Invalid condition", "when = "),
        ('[rules.own]\nwhen = "5 > 3"', 2, "Invalid condition", "when = "),
        ('[rules.own]\nwhen = "lag_rows > lag_seconds"', 2, "Invalid condition", "when = "),
        ('[rules.own]\nwhen = "avg(lag_rows, 2 days) > 1"', 2, "Invalid condition", "when = "),
        ('[rules.own]\nwhen = "__import__(1) > 1"', 2, "Invalid condition", "when = "),
        ('[rules.own]\nwhen = "lag_rows > 1 and disk_free_share < 5 %"', 2, "Invalid", "two rules"),
        ('[rules.lag]\nsecond = "1 h"', 2, "unknown setting 'second'", "'seconds'"),
        ('[rules.lag]\nrows = "many"', 2, "Invalid number: 'many'", ""),
        ('[rules.lag]\nbytes = "2 minutes"', 2, "Invalid size: '2 minutes'", ""),
        ("[rules.lag]\nfor = true", 2, "Invalid duration: True", "10 seconds"),
        ('[rules.lag]\nseverity = "critcal"', 2, "Unknown severity 'critcal'", "'critical'"),
        ('[rules.lag]\npipelines = "orders"', 2, "Invalid value: 'orders'", ""),
        ("[rules.lag]\nenabled = 1", 2, "Invalid value: 1", ""),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_the_near_miss(
    tmp_path: Path, text: str, line: int, what: str, fix: str
) -> None:
    (error,) = refused(tmp_path, text)

    assert what in error.what
    assert error.where == f"headrace.toml:{line}"
    assert fix in (error.fix or "")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = '[rules.lag]\nrows = "x"\nfor = "y"\n[rules.own]\nwhen = "z > 1"\n'

    assert len(refused(tmp_path, text)) == 3


def test_unknown_pipelines_and_rules_of_channels_are_refused(tmp_path: Path) -> None:
    text = """
[rules.lag]
pipelines = ["ordrs"]
[rules.mine]
when = "lag_rows > 1"
pipelines = ["orders", "pay*"]
[notify.team]
kind = "slack"
rules = ["stalld", "mine", "row", "store"]
"""
    (tmp_path / "headrace.toml").write_text(text)

    with pytest.raises(Error) as caught:
        rule_settings.check_names(load(tmp_path), ["orders", "payments"])

    found = {(e.what, e.where, e.fix) for e in each_of(caught.value)}
    assert found == {
        ("[rules.lag]: unknown pipeline 'ordrs'.", "headrace.toml:3", "Did you mean 'orders'?"),
        ("[notify.team]: unknown rule 'stalld'.", "headrace.toml:9", "Did you mean 'stalled'?"),
    }


# ---- conditions


def holds(text: str, **facts: Any) -> bool | None:
    return expressions.parse(text).holds(pipeline(**facts), query(input_rate=100.0, rows_in=5))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input_rate > 99", True),
        ("99 < input_rate", True),
        ("input_rate >= 100 rows/s", True),
        ("input_rate = 100 and rows_in != 5", False),
        ("input_rate < 1 or rows_in <= 5 rows and input_rate > 1", True),
        ("(input_rate < 1 or rows_in <= 5) and input_rate > 1_000", False),
        ("INPUT_RATE > 1".lower(), True),
        ("fresh_p99_ms > 1", None),
        ("fresh_p99_ms > 1 and rows_in > 5", False),
        ("fresh_p99_ms > 1 or rows_in > 4", True),
        ("fresh_p99_ms > 1 or rows_in > 5", None),
    ],
)
def test_a_condition(text: str, expected: bool | None) -> None:
    assert holds(text) is expected


def test_numbers_are_converted_to_the_unit_of_the_metric() -> None:
    facts = pipeline(lags={"totals": lag(301.0)}, numbers={"heap_share": 0.5, "heap_bytes": 2e9})
    fresh = query(fresh_p99_ms=5001.0)

    for text in ("lag_seconds > 5 minutes", "heap_share > 49 %", "heap_bytes > 1.9 GB"):
        assert expressions.parse(text).holds(facts, None if "heap" in text else fresh), text
    assert expressions.parse("fresh_p99_ms > 5 seconds").holds(facts, fresh)
    assert not expressions.parse("fresh_p99_ms > 6 seconds").holds(facts, fresh)


def test_a_rule_is_about_the_smallest_thing_that_it_names() -> None:
    assert expressions.about(expressions.parse("heap_share > 1 and lag_rows > 1")) is About.QUERY
    assert expressions.about(expressions.parse("heap_share > 1")) is About.PIPELINE
    assert expressions.about(expressions.parse("disk_free_share < 1 %")) is About.PROJECT


def test_a_condition_that_nests_too_deeply_or_is_too_long_is_refused() -> None:
    for text in ("(" * 50 + "lag_rows > 1" + ")" * 50, "lag_rows > 1 and " * 200 + "lag_rows > 1"):
        with pytest.raises(ConfigError, match="Invalid condition"):
            expressions.parse(text)


# ---- averages

AVERAGE = "avg(input_rate, 10 minutes) > 50"


def windows(samples: Samples, now: float) -> Windows:
    found = samples.windows("orders", now)
    assert found is not None
    return found


def test_an_average_is_known_once_the_window_has_passed() -> None:
    samples = Samples()
    samples.need([("input_rate", 600.0)])
    condition = expressions.parse(AVERAGE)
    seen = []
    for second in range(0, 1800, 5):
        rate = 0.0 if second < 900 else 100.0
        samples.add(("orders", "totals", "input_rate", 600.0), T0 + second, rate)
        facts = pipeline(windows=windows(samples, T0 + second))
        seen.append((second, condition.holds(facts, query())))

    assert {holds for second, holds in seen if second < 500} == {None}
    assert {holds for second, holds in seen if 600 <= second < 1150} == {False}
    assert {holds for second, holds in seen if second > 1250} == {True}


def test_after_a_gap_an_average_is_unknown_again() -> None:
    samples = Samples()
    samples.need([("input_rate", 60.0)])
    for second in (*range(0, 100, 5), 500):
        samples.add(("orders", "totals", "input_rate", 60.0), T0 + second, 1.0)

    assert windows(samples, T0 + 500).read("input_rate", "totals", "avg", 60.0) is None


def test_the_number_of_points_is_bounded() -> None:
    samples = Samples()
    samples.need([("input_rate", 86_400.0)])
    key = ("orders", "totals", "input_rate", 86_400.0)
    for second in range(0, 3 * 86_400, 5):
        samples.add(key, T0 + second, float(second))

    assert len(samples._points[key]) <= 242
    read = windows(samples, T0 + 3 * 86_400).read("input_rate", "totals", "min", 86_400.0)
    assert read == pytest.approx(2 * 86_400, rel=0.01)


# ---- the reference


def test_the_reference_lists_every_rule_and_metric_as_it_is() -> None:
    page = (REPO / "docs" / "reference" / "rules.md").read_text()

    assert page == rules_reference.with_tables(page), (
        "python -m headrace.cli.rules_reference docs/reference/rules.md"
    )
    names = [*table.RULES, *table.FIXED, *metrics.METRICS]
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_examples_of_the_reference_are_valid(tmp_path: Path) -> None:
    page = (REPO / "docs" / "reference" / "rules.md").read_text()
    examples = [part.partition("```")[0] for part in page.split("```toml\n")[1:]]

    assert len(examples) >= 3
    for example in examples:
        build(tmp_path, example)
