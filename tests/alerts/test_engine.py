"""The engine: when an alert opens and when it is resolved. Histories on a simulated clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from alerts.rule_bench import WELL, RuleBench, pipeline, query
from headrace.alerts import engine
from headrace.alerts.rules import table
from headrace.model.findings import Finding
from headrace.model.rules import (
    About,
    FailedRun,
    Hit,
    PipelineFacts,
    Rule,
    RunFacts,
    Stuck,
    Unknown,
)

KEY = "hot:orders"


def evaluate(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """Holds while the number `hot` is above 1, or more severe above 9; unknown without it."""
    value = facts.numbers.get("hot")
    if value is None:
        yield Unknown()
    elif value > 1:
        yield Hit(f"hot: {value:g}", severity="critical" if value > 9 else None)


def bench(**settings: Any) -> RuleBench:
    rule = Rule("hot", "It is hot.", About.PIPELINE, "warning", evaluate)
    return RuleBench({"hot": replace(rule, **settings)})


def hot(value: float | None) -> PipelineFacts:
    return pipeline(numbers={} if value is None else {"hot": value})


def test_a_condition_opens_one_alert_and_resolves_it_once() -> None:
    mine = bench()

    mine.stay(hot(0), 60)
    mine.stay(hot(5), 600)
    mine.stay(hot(0), 600)

    assert mine.log == [f"+{KEY}", f"-{KEY}"]
    assert mine.alerts[KEY].severity == "warning"


def test_a_condition_opens_only_after_it_has_held_for_the_whole_time() -> None:
    mine = bench(for_s=60.0)

    assert mine.stay(hot(5), 60) == []
    assert mine.see(hot(5)) == [f"+{KEY}"]


def test_a_condition_that_ends_before_the_time_starts_over() -> None:
    mine = bench(for_s=60.0)

    for _ in range(20):
        mine.stay(hot(5), 50)
        mine.see(hot(0))

    assert mine.log == []


def test_an_alert_stays_open_until_the_condition_is_over_for_a_while() -> None:
    mine = bench(keep_firing_for_s=300.0)
    mine.see(hot(5))

    assert mine.stay(hot(0), 295) == []
    assert mine.see(hot(0)) == [f"-{KEY}"]


def test_a_condition_that_flaps_is_one_alert() -> None:
    mine = bench(for_s=10.0, keep_firing_for_s=300.0)

    for _ in range(100):
        mine.stay(hot(5), 30)
        mine.stay(hot(0), 60)
    mine.stay(hot(0), 600)

    assert mine.log == [f"+{KEY}", f"-{KEY}"]


def test_an_unknown_fact_neither_opens_nor_resolves() -> None:
    mine = bench()

    assert mine.stay(hot(None), 3600) == []
    mine.see(hot(5))
    assert mine.stay(hot(None), 3600) == []
    assert mine.see(hot(0)) == [f"-{KEY}"]


def test_a_pending_condition_survives_a_moment_in_which_it_is_unknown() -> None:
    mine = bench(for_s=60.0)

    mine.stay(hot(5), 30)
    mine.stay(hot(None), 10)

    assert mine.stay(hot(5), 30) == [f"+{KEY}"]


def test_a_restarted_supervisor_does_not_open_an_alert_again() -> None:
    mine = bench(for_s=60.0)
    mine.stay(hot(5), 70)

    mine.restart()

    assert mine.stay(hot(None), 60) == []
    assert mine.stay(hot(5), 600) == []
    assert mine.open == {KEY: "warning"}


def test_a_restarted_supervisor_resolves_what_is_over() -> None:
    mine = bench(keep_firing_for_s=60.0)
    mine.see(hot(5))

    mine.restart()

    assert mine.stay(hot(0), 60) == []
    assert mine.see(hot(0)) == [f"-{KEY}"]


def test_an_alert_that_becomes_more_severe_is_sent_again_once() -> None:
    mine = bench()

    mine.see(hot(5))
    mine.stay(hot(10), 60)
    mine.stay(hot(5), 60)

    assert mine.log == [f"+{KEY}", f"^{KEY}"]
    assert mine.open == {KEY: "critical"}


def test_a_severity_from_the_settings_wins_over_that_of_the_condition() -> None:
    mine = bench(severity="info", is_severity_set=True)

    mine.see(hot(10))

    assert mine.open == {KEY: "info"}


def test_a_rule_that_is_switched_off_resolves_its_alert_at_once() -> None:
    mine = bench(keep_firing_for_s=300.0)
    mine.see(hot(5))

    mine.rules = {"hot": replace(mine.rules["hot"], enabled=False)}

    assert mine.see(hot(5)) == [f"-{KEY}"]
    assert mine.stay(hot(5), 60) == []


def test_a_rule_that_was_removed_resolves_its_alert() -> None:
    mine = bench()
    mine.see(hot(5))

    mine.rules = {}

    assert mine.see(hot(5)) == [f"-{KEY}"]


def test_a_rule_can_be_limited_to_pipelines_and_queries() -> None:
    others = bench(pipelines=("pay*",))
    mine = bench(pipelines=("ord*",))

    assert others.stay(hot(5), 60) == []
    assert mine.see(hot(5)) == [f"+{KEY}"]


def test_a_pipeline_that_a_person_stops_has_no_alerts() -> None:
    mine = bench(keep_firing_for_s=300.0)
    mine.see(hot(5))

    assert mine.see(replace(hot(5), is_over=True)) == [f"-{KEY}"]
    assert mine.stay(replace(hot(5), is_over=True), 600) == []


def test_keys_can_be_taken_apart() -> None:
    assert engine.split("lag:orders:totals") == ("lag", "orders", "totals", "")
    assert engine.split("disk-filling:::/srv/a:b") == ("disk-filling", "", "", "/srv/a:b")
    assert engine.by_pipeline({"store:history.db": "warning", "lag:a:q": "error"}) == {
        "a": {"lag:a:q": "error"}
    }


def test_alerts_of_pipelines_that_no_longer_exist_are_over() -> None:
    open_ = dict.fromkeys(("lag:old:q", "lag:new:q", "disk-filling:::/", "store:x"), "error")

    assert engine.over(open_, ["new"]) == ["lag:old:q"]


# ---- inhibition

FAILED = FailedRun("orders-1", "the broker is down", 0.0)
RETRYING = RunFacts(is_retrying=True, failed=FAILED, failures=3, failures_per_hour=3)
BEHIND = query(broken_promise="p99 is 9 s; target 5 s")
SILENT = Finding("source-unanswered", "The source has not answered.", since=0.0)


def down(run: RunFacts) -> PipelineFacts:
    return pipeline(run=run, is_live=False, state="waiting")


def test_a_pipeline_that_is_down_mutes_the_rules_about_its_queries() -> None:
    mine = RuleBench()

    mine.stay(pipeline(BEHIND), 60)  # not yet open
    mine.stay(down(RETRYING), 3600)

    assert mine.log == ["+restarting:orders"]


def test_an_alert_that_is_open_when_its_pipeline_goes_down_stays_open() -> None:
    mine = RuleBench()
    mine.stay(pipeline(BEHIND), 200)

    mine.stay(down(RETRYING), 3600)
    mine.stay(pipeline(query()), 600)

    key = "freshness:orders:totals"
    assert mine.log == [f"+{key}", "+restarting:orders", "-restarting:orders", f"-{key}"]


def test_an_alert_about_a_person_replaces_the_one_about_restarts() -> None:
    mine = RuleBench()
    mine.see(down(RETRYING))

    said = mine.see(down(replace(RETRYING, is_retrying=False, attention="bad data")))

    assert said == ["+needs-attention:orders", "-restarting:orders"]
    assert mine.alerts["needs-attention:orders"].severity == "critical"


def test_a_stalled_query_has_no_other_alert_but_other_queries_do() -> None:
    mine = RuleBench()
    stalled = replace(BEHIND, status=replace(BEHIND.status, findings=(SILENT,)))
    other = query("others", broken_promise="p99 is 9 s; target 5 s")

    mine.stay(pipeline(stalled, other), 3600)

    assert mine.log == ["+stalled:orders:totals", "+freshness:orders:others"]


def test_a_stuck_batch_is_over_when_the_pipeline_works_again_not_when_it_starts() -> None:
    mine = RuleBench()
    stuck = Stuck("totals", "totals has not finished a batch for 5 min", 300.0, 600.0)

    mine.see(pipeline(query(), run=replace(WELL, stuck=(stuck,)), state="stalled"))
    mine.see(down(RunFacts(is_retrying=True, failures=1, failed=FAILED)))
    mine.stay(pipeline(query(), run=RunFacts(has_worked=True)), 50)
    assert mine.log == ["+stalled:orders:totals"]
    mine.see(pipeline(query()))

    assert mine.log == ["+stalled:orders:totals", "-stalled:orders:totals"]


def test_every_rule_has_a_name_a_severity_and_a_help_text() -> None:
    for name, rule in table.RULES.items():
        assert rule.name == name
        assert rule.help.endswith(".")
        assert rule.severity in ("info", "warning", "error", "critical")
        assert name not in table.FIXED
