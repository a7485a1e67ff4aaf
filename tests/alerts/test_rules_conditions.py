"""Every rule: the facts under which it opens and is resolved, and noise at which it stays quiet."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from alerts.rule_bench import PROJECT, T0, WELL, RuleBench, lag, pipeline, query
from headrace.alerts.rules import rule_settings, table, user_rules
from headrace.alerts.rules.expressions import parse
from headrace.config import load
from headrace.model.findings import Finding
from headrace.model.rules import (
    About,
    Disk,
    Facts,
    FailedRun,
    PipelineFacts,
    ProjectFacts,
    Rule,
    RunFacts,
    SqlResult,
    Stuck,
)

FAILED = FailedRun("orders-1", "the broker is down", T0 - 5, fix="Start the broker.")
GB = 1e9
Make = Callable[[random.Random], Facts]


@dataclass(frozen=True)
class Case:
    """`bad` holds long enough to open `key`; `good` is noisy, and opens nothing. `dice` varies."""

    rule: str
    key: str
    bad: Make
    good: Make
    limits: str = ""  # settings of the rule, as TOML
    said: str = ""  # in the title
    words: tuple[str, ...] = ()  # in the other texts


def down(**run: object) -> PipelineFacts:
    made = replace(RunFacts(failed=FAILED), **run)
    return pipeline(run=made, is_live=False, state="waiting")


def finding(slug: str) -> Case:
    """Good: the same query with another finding."""
    found = Finding(slug, f"Something about {slug}.", "A cause.", "A fix.", since=T0)
    other = Finding("something-else", "Another thing.")
    return Case(
        slug,
        f"{slug}:orders:totals",
        lambda _: pipeline(query(findings=(found,)), outputs={"totals": ("totals → data",)}),
        lambda _: pipeline(query(findings=(other,))),
        said=f"totals: Something about {slug}",
        words=("A cause.", "A fix.", "totals → data"),
    )


SILENT = Finding("source-unanswered", "The source has not answered since noon.", since=T0 - 60)
HELD = Finding("watermark-held", "The watermark is stuck since noon.", since=T0)
STUCK = Stuck("totals", "totals has not finished a batch for 5 min", 300.0, 600.0)

CASES = [
    Case(
        "run-failed", "run-failed:orders::orders-1",
        lambda _: down(is_retrying=True, failures=1),
        lambda _: pipeline(query()),
        "enabled = true", "orders failed: the broker is down", ("Start the broker.",),
    ),
    Case(
        "restarting", "restarting:orders",
        lambda _: down(is_retrying=True, failures=3),
        lambda dice: (
            down(is_retrying=True, failures=2) if dice.random() < 0.3 else pipeline(query())
        ),
        said="orders keeps restarting: the broker is down",
        words=("3 failures in a row", "Start the broker."),
    ),
    Case(
        "restarting", "restarting:orders",
        lambda _: down(is_retrying=True, failures=1, relapses_per_hour=5),
        lambda _: down(is_retrying=True, failures=1, relapses_per_hour=4),
        words=("it worked and failed 5 times within an hour",),
    ),
    Case(
        "needs-attention", "needs-attention:orders",
        lambda _: down(attention="the same failure 3 times"),
        lambda _: down(is_retrying=True, failures=1),
        said="orders needs attention: the same failure 3 times",
        words=("Does not restart the pipeline.", "headrace start orders", "headrace why orders"),
    ),
    Case(
        "restarts-off", "restarts-off:orders",
        lambda _: down(attention="no retries left", is_limit_used_up=True),
        lambda _: down(is_retrying=True, failures=1),
        said="orders is not restarted: no retries left",
    ),
    Case(
        "stalled", "stalled:orders:totals",
        lambda _: pipeline(query(), run=replace(WELL, stuck=(STUCK,))),
        lambda _: pipeline(query()),
        said="totals has not finished a batch for 5 min", words=("A batch is stuck.",),
    ),
    Case(
        "stalled", "stalled:orders:totals",
        lambda _: pipeline(query(findings=(SILENT,))),
        lambda dice: pipeline(query(findings=(replace(SILENT, since=T0 + 1e9),))),
        said="its source does not answer: The source has not answered since noon",
    ),
    Case(
        "stalled", "stalled:orders:totals",
        lambda _: pipeline(query(findings=(HELD,))),
        lambda _: pipeline(query()),
        said="an idle input holds it back: The watermark is stuck since noon",
    ),
    Case(
        "freshness", "freshness:orders:totals",
        lambda _: pipeline(query(broken_promise="p99 is 9 s; target 5 s")),
        lambda dice: pipeline(query(broken_promise="late" if dice.random() < 0.5 else None)),
        said="totals misses its freshness target: p99 is 9 s; target 5 s",
    ),
    Case(
        "lag", "lag:orders:totals",
        lambda _: pipeline(query(), lags={"totals": lag(700.0, records=5_000)}),
        lambda dice: pipeline(query(), lags={"totals": lag(dice.uniform(0, 590), records=900)}),
        'seconds = "10 minutes"\nrows = 1000', "totals is 5,000 rows and 12 min behind",
    ),
    Case(
        "lag", "lag:orders:totals",
        lambda _: pipeline(query(numbers={"lag_files": 11.0, "lag_bytes": 3e9})),
        lambda dice: pipeline(query(numbers={"lag_files": 9.0, "lag_bytes": 1e9})),
        'files = 10\nbytes = "2 GB"', "3 GB and 11 files behind",
    ),
    Case(
        "slow-batch", "slow-batch:orders:totals",
        lambda dice: pipeline(query(trigger_s=10.0, batch_ms=(*[12_000.0] * 5,))),
        lambda dice: pipeline(
            query(trigger_s=10.0, batch_ms=tuple(dice.gauss(6_000, 2_000) for _ in range(20)))
        ),
        said="Batches of totals take 12 s, longer than the trigger interval of 10 s",
    ),
    Case(
        "data-loss", "data-loss:orders:totals",
        lambda _: pipeline(is_live=False, state="waiting", lags={"totals": lag(600_000.0)}),
        lambda dice: pipeline(query(), lags={"totals": lag(dice.uniform(0, 500_000))}),
        said="totals loses data in 80 min", words=("retention.ms",),
    ),
    Case(
        "no-data", "no-data:orders:totals",
        lambda _: pipeline(query(rows_at=T0 - 700)),
        lambda dice: pipeline(query(rows_at=T0 + 10**7)),
        'after = "10 minutes"', "totals has read no rows for",
        words=("The source has no data.",),
    ),
    *map(
        finding,
        (
            "falling-behind", "late-rows", "many-quarantined", "field-null", "input-vanished",
            "event-time-in-future", "watermark-in-future", "state-grows", "input-rewritten",
            "lookup-empty", "lookup-unmatched",
        ),
    ),
    Case(
        "disk-filling", "disk-filling:::/srv",
        lambda _: replace(PROJECT, disks=(Disk("/srv", int(2 * GB), int(100 * GB)),),
                          own_bytes=10**9, own_parts={"history.db": 10**9}),
        lambda dice: replace(
            PROJECT, disks=(Disk("/srv", int(dice.uniform(11, 60) * GB), int(1000 * GB)),)
        ),
        said="The disk of /srv is filling: 2 GB of 100 GB are free",
        words=("1 GB (history.db 1 GB)",),
    ),
    Case(
        "disk-filling", "disk-filling:::/srv",
        lambda _: replace(PROJECT, disks=(Disk("/srv", int(50 * GB), int(100 * GB), 7200.0),)),
        lambda dice: replace(PROJECT, disks=(Disk("/srv", int(50 * GB), int(100 * GB), 1e6),)),
        said="at the rate of the last hour it is full in 2 h",
    ),
    Case(
        "driver-memory", "driver-memory:orders",
        lambda _: pipeline(query(), numbers={"heap_share": 0.93}),
        lambda dice: pipeline(query(), numbers={"heap_share": dice.uniform(0.1, 0.89)}),
        said="its Java heap is 93 % full after garbage collection",
        words=("spark.driver.memory",),
    ),
    Case(
        "driver-memory", "driver-memory:orders",
        lambda _: pipeline(query(), numbers={"heap_share": 0.5, "memory_share": 0.95}),
        lambda dice: pipeline(query(), numbers={"memory_share": 0.5}),
        said="it uses 95 % of the memory of this machine",
    ),
]  # fmt: skip


def rules_with(case: Case, tmp_path) -> dict[str, Rule]:
    text = f"[rules.{case.rule}]\n{case.limits}\n" if case.limits else ""
    (tmp_path / "headrace.toml").write_text(text)
    return rule_settings.build(load(tmp_path))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.said[:20]}")
def test_the_rule_opens_one_alert_and_resolves_it(case: Case, tmp_path) -> None:
    mine, dice = RuleBench(rules_with(case, tmp_path)), random.Random(1)
    well: Facts = replace(PROJECT, disks=(Disk("/srv", 10**12, 10**12),))
    if isinstance(case.bad(dice), PipelineFacts):
        calm = query(rows_at=T0 + 1e6, numbers={"lag_files": 1.0, "lag_bytes": 1.0})
        shares = {"heap_share": 0.3, "memory_share": 0.2}
        well = pipeline(calm, lags={"totals": lag(1.0)}, numbers=shares)

    mine.stay(well, 60)
    mine.stay(case.bad(dice), 900)
    opened = list(mine.log)
    mine.stay(well, 900)

    assert opened == [f"+{case.key}"]
    assert mine.log == [f"+{case.key}", f"-{case.key}"]
    alert = mine.alerts[case.key]
    assert case.said in alert.title
    texts = " ".join(alert.data.values())
    assert [word for word in case.words if word not in texts] == []
    assert {"Headrace", "What to do", "More"} <= alert.data.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.said[:20]}")
def test_the_rule_is_quiet_while_a_healthy_pipeline_is_noisy(case: Case, tmp_path) -> None:
    mine, dice = RuleBench(rules_with(case, tmp_path)), random.Random(2)

    for _ in range(400):
        mine.see(case.good(dice))

    assert [one for one in mine.log if one.startswith(f"+{case.rule}:")] == []


def test_every_rule_of_the_table_has_a_case() -> None:
    assert table.RULES.keys() - {case.rule for case in CASES} == set()


def test_rules_without_a_limit_do_nothing() -> None:
    mine = RuleBench()

    facts = pipeline(query(rows_at=T0 - 1e6), lags={"totals": lag(9e4, records=10**9)})

    assert mine.stay(facts, 3600) == []


def test_data_loss_is_critical_when_it_is_near_and_when_records_are_gone() -> None:
    mine = RuleBench()
    mine.stay(pipeline(query(), lags={"totals": lag(600_000.0)}), 120)

    mine.stay(pipeline(query(), lags={"totals": lag(604_000.0)}), 120)
    lost = RuleBench()
    lost.stay(pipeline(query(), lags={"totals": lag(1.0, low=150)}), 120)

    assert mine.log == ["+data-loss:orders:totals", "^data-loss:orders:totals"]
    assert mine.open == {"data-loss:orders:totals": "critical"}
    assert "50 unread records were deleted" in lost.alerts["data-loss:orders:totals"].title


def test_a_lag_that_is_unknown_neither_opens_nor_resolves() -> None:
    mine = RuleBench()
    unknown = pipeline(query(is_lag_unknown=True), lags={"totals": lag(1.0, problem="no broker")})
    mine.stay(pipeline(query(), lags={"totals": lag(600_000.0)}), 120)

    mine.stay(unknown, 3600)

    assert mine.log == ["+data-loss:orders:totals"]


def test_a_falling_query_names_the_time_when_data_is_deleted() -> None:
    found = Finding("falling-behind", "Falling behind since noon: …", since=T0)
    mine = RuleBench()

    mine.stay(pipeline(query(findings=(found,)), lags={"totals": lag(3600.0)}), 120)

    words = mine.alerts["falling-behind:orders:totals"].data
    assert words["Forecast"].startswith(
        "If it does not catch up, unread records are deleted from 20"
    )


def test_each_failure_is_an_alert_of_its_own_and_ends_with_recovery() -> None:
    mine = RuleBench({"run-failed": replace(table.RULES["run-failed"], enabled=True)})
    second = replace(FAILED, run="orders-2")

    mine.see(down(is_retrying=True, failures=1))
    mine.see(pipeline(query(), run=RunFacts(failed=FAILED, failures=1)))
    mine.see(down(is_retrying=True, failures=2, failed=second))
    mine.see(pipeline(query(), run=RunFacts(failed=second, has_worked=True)))

    first, again = "run-failed:orders::orders-1", "run-failed:orders::orders-2"
    assert mine.log == [f"+{first}", f"+{again}", f"-{first}", f"-{again}"]


# ---- rules of users


def own(when: str, **settings: object) -> Rule:
    rule = Rule("mine", "Mine.", About.QUERY, "warning",
                user_rules.of_condition("mine", when, parse(when)))  # fmt: skip
    return replace(rule, **settings)


def test_a_condition_of_a_user_opens_for_the_query_that_meets_it() -> None:
    mine = RuleBench({"mine": own("lag_seconds > 5 minutes and lag_rows > 10", for_s=60.0)})
    behind = pipeline(query(), query("others"), lags={"totals": lag(400.0, records=20)})

    mine.stay(behind, 120)
    mine.stay(replace(behind, lags={"totals": lag(200.0, records=20)}), 60)

    assert mine.log == ["+mine:orders:totals", "-mine:orders:totals"]
    title = mine.alerts["mine:orders:totals"].title
    assert title == "totals: lag_seconds is 7 min, lag_rows is 20 rows (mine)"


def test_a_condition_about_an_unknown_number_is_unknown() -> None:
    mine = RuleBench({"mine": own("lag_seconds > 5 minutes")})

    assert mine.stay(pipeline(query(is_lag_unknown=True)), 600) == []


def test_a_rule_with_sql_holds_while_the_sql_returns_rows() -> None:
    rule = Rule("hot", "Hot.", About.PROJECT, "warning", user_rules.of_sql("hot"), needs_run=False)
    mine = RuleBench({"hot": rule})

    def rows(count: int, **more: object) -> ProjectFacts:
        at = mine.now
        found = SqlResult("hot", at, rows=count, first="city=Bern" if count else "", since=T0)
        return replace(PROJECT, sql={"hot": replace(found, **more)})

    assert mine.see(PROJECT) == []  # not evaluated yet
    assert mine.see(rows(0)) == []
    assert mine.see(rows(3)) == ["+hot"]
    assert mine.see(rows(0, problem="no such table")) == []
    assert mine.see(rows(3, at=mine.now - 500)) == []  # the relay is down
    assert mine.see(rows(0)) == ["-hot"]
    assert mine.alerts["hot"].title.startswith("hot: the SQL returns 3 rows; the first: city=Bern")
