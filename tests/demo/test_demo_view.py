"""What the demo shows: outputs, the chart, alerts, quarantine, and what to try next."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from headrace.demo import loss_count, run_totals, terminal_view
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.store.alerts import StoredAlert

MINUTE = 60_000_000


def status(run: str = "metrics-1", **queries: int) -> PipelineStatus:
    mine = tuple(
        QueryStatus(name, "running", rows_in=batches * 10, batches=batches, fresh_p50_ms=1234.0)
        for name, batches in queries.items()
    )
    return PipelineStatus("metrics", "running", "all is well", run, jvm_pid=4711, queries=mine)


def alert(number: int, *, resolved: bool) -> StoredAlert:
    return StoredAlert(
        id=number, key=f"metrics/overloaded/{number}", pipeline="metrics", query="overloaded",
        rule="stream", title=f"Cluster {number}: load 99.5", severity="critical", data={},
        opened_at=1000.0, updated_at=1001.0, resolved_at=1010.0 if resolved else None,
        updates=7, reopened=0,
    )  # fmt: skip


def shown(seen: terminal_view.ViewState, height: int = 60) -> str:
    console = Console(width=160, record=True, file=None, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(terminal_view.render(seen, height))
    return captured.get()


def whole() -> terminal_view.ViewState:
    seen = status(history=3, heartbeats=12)
    return terminal_view.ViewState(
        folder="headrace-demo",
        phase="90 s to go",
        status=seen,
        totals=run_totals.RunTotals().with_status(seen).totals(),
        rate=300,
        lines=12_345,
        malformed=9,
        files={"history": 3},
        logins=[(n * MINUTE, 10 + n) for n in range(20)],
        alerts=[alert(4, resolved=False), alert(5, resolved=True)],
        quarantine={"not JSON": 4, "wrong type": 5},
    )


def test_everything_that_was_seen_is_shown() -> None:
    text = shown(whole())

    expected = (
        *("running", "300 lines/s", "12,345 lines", "9 malformed", "90 s to go", "history"),
        *("heartbeats", "1.2 s", "logins per minute", "█", "Cluster 4: load 99.5"),
        *(
            "resolved 1970-01-01 00:16:50Z",
            "5 wrong type, 4 not JSON",
            "kill -9 4711",
            "headrace sql",
        ),
        *("headrace status", "edit pipelines/metrics.py"),
    )
    for words in expected:
        assert words in text, words


def test_before_anything_is_there_it_says_what_it_waits_for() -> None:
    text = shown(
        terminal_view.ViewState(
            folder="d", phase="waiting for the first results: Spark is starting"
        )
    )

    assert "Spark is starting" in text
    assert "kill -9 <jvm pid>" in text


def test_restarts_and_a_machine_too_slow_are_shown() -> None:
    restarted = replace(status(history=3), restarts=2)
    seen = replace(whole(), status=restarted, is_slowed=True, rate=75)

    assert "2 restarts" in shown(seen)
    assert "too slow: rate lowered to 75 lines/s" in shown(seen)
    assert "lowered to 75" in terminal_view.line(seen)


def test_a_low_terminal_gets_a_shorter_chart() -> None:
    assert shown(whole(), height=60).count("█ ") > shown(whole(), height=24).count("█ ")


def test_bars_are_of_eighths() -> None:
    assert terminal_view.bar(1.0, 4) == "████"
    assert terminal_view.bar(0.5, 4) == "██"
    assert terminal_view.bar(1 / 32, 4) == "▏"
    assert terminal_view.bar(0.0, 4) == ""


def test_the_line_for_logs_has_what_moves() -> None:
    assert "history 3 batches" in terminal_view.line(whole())
    assert "2 alerts" in terminal_view.line(whole())


def test_the_summary_names_what_is_wrong() -> None:
    wrong = loss_count.OutputCount(lost=2, doubled=1, examples=("lost: (1, 2)",))
    counted = loss_count.Count({"history": wrong}, 5, 4, 1, 1)

    text = "\n".join(terminal_view.summary(counted))

    assert "lost 2, duplicated 1" in text
    assert "history: lost 2" in text
    assert "lost: (1, 2)" in text


def test_rows_and_batches_are_summed_over_runs() -> None:
    heard = run_totals.RunTotals()
    for told in (status(history=1), status(history=3), status("metrics-2", history=2)):
        heard = heard.with_status(told)

    assert heard.totals()["history"] == run_totals.Total(50, None, 5, 1234.0)
    assert heard.has_committed(frozenset({"history"}))
    assert not heard.has_committed(frozenset({"history", "silent"}))
    assert not heard.has_committed(frozenset())


def test_a_machine_that_falls_behind_for_long_gets_half_the_rate() -> None:
    pace = run_totals.Pace(300, since=0.0)

    pace = run_totals.adjust_pace(pace, 30, 50.0, is_running=True)
    assert pace.rate == 300, "a trigger's worth of files is nothing"
    pace = run_totals.adjust_pace(pace, 70, 55.0, is_running=True)
    assert (pace.rate, pace.lowered) == (150, True)
    pace = run_totals.adjust_pace(pace, 80, 60.0, is_running=True)
    assert pace.rate == 150, "the change has to show first"
    pace = run_totals.adjust_pace(pace, 75, 110.0, is_running=True)
    assert pace.rate == 150, "it gets better"
    pace = run_totals.adjust_pace(pace, 90, 115.0, is_running=True)
    assert pace.rate == 75


def test_a_restart_is_no_slowness_and_there_is_a_least_rate() -> None:
    pace = run_totals.adjust_pace(run_totals.Pace(30, 0.0), 90, 100.0, is_running=False)

    assert run_totals.adjust_pace(pace, 95, 110.0, is_running=True).rate == 30
    assert run_totals.adjust_pace(pace, 95, 200.0, is_running=True).rate == run_totals.RATE_MIN
    assert run_totals.adjust_pace(run_totals.Pace(20, 0.0), 95, 200.0, is_running=True).rate == 20


def test_a_start_that_comes_to_no_end_is_slowness_too() -> None:
    pace = run_totals.adjust_pace(run_totals.Pace(300, 0.0), 110, 100.0, is_running=False)
    assert (pace.rate, pace.since) == (300, 100.0), "a start takes a while"

    pace = run_totals.adjust_pace(pace, 130, 120.0, is_running=False)
    assert pace.rate == 300, "just now"

    assert run_totals.adjust_pace(pace, 160, 150.0, is_running=False).rate == 150
