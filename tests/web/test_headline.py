"""The first sentence of the page, and the rates of a whole pipeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import config
from headrace.model.findings import Finding
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.status import PipelineStatus, QueryStatus, State
from headrace.web import graph as web_graph
from headrace.web import pipeline_views
from headrace.web.headline import Alert, headline
from headrace.web.live_tables import current_window
from headrace.web.pipeline_rates import QueryRates, pipeline_rates, sources_by_query

SEVERITY = {"running": 0, "catching-up": 2, "starting": 1, "needs-attention": 5, "stopped": -1}


def row(name: str, state: str = "running", restarts: int = 0, promise: str | None = None) -> Any:
    severity = max(SEVERITY[state], 2) if promise else SEVERITY[state]
    queries = [{"name": "q", "broken_promise": promise}]
    return {"name": name, "state": state, "severity": severity, "restarts_today": restarts,
            "queries": queries}  # fmt: skip


def test_without_a_problem_it_is_healthy() -> None:
    one = headline([row("a"), row("old", "stopped")], [])
    two = headline([row("a"), row("b")], [])

    assert (one["level"], one["text"]) == ("good", "Healthy: a is running and keeping up.")
    assert two["text"] == "Healthy: all 2 pipelines are running and keeping up."


@pytest.mark.parametrize(
    ("rows", "alerts", "level", "text"),
    [
        ([row("a")], ["critical", "warning"], "bad",
         "2 open alerts (1 critical); a is running and keeping up."),
        ([row("a")], ["info"], "busy", "1 open alert; a is running and keeping up."),
        ([row("a", promise="late")], [], "busy",
         "1 missed freshness target; a is running and keeping up."),
        ([row("a", "catching-up"), row("b")], [], "busy", "a is catching up."),
        ([row("a", "needs-attention"), row("b")], ["error"], "bad",
         "1 of 2 pipelines needs attention: a; 1 open alert (error)."),
        ([row("a", "starting")], [], "busy", "a is starting."),
        ([row("a", "stopped")], ["critical"], "bad",
         "No pipeline is running; 1 open alert (critical)."),
        ([row("a", "stopped")], [], "off", "No pipeline is running."),
        ([], [], "off", "Nothing is deployed."),
    ],
)  # fmt: skip
def test_an_alert_or_a_missed_target_is_never_healthy(
    rows: Any, alerts: list[str], level: str, text: str
) -> None:
    found = headline(rows, [Alert(severity) for severity in alerts])

    assert (found["level"], found["text"]) == (level, text)
    assert "Healthy" not in found["text"]


ACKNOWLEDGED, SILENCED = {"is_acknowledged": True}, {"is_silenced": True}


@pytest.mark.parametrize(
    ("alerts", "level", "text"),
    [
        ([Alert("critical", **ACKNOWLEDGED)], "busy", "1 open alert (critical), acknowledged"),
        ([Alert("info", **SILENCED)], "busy", "1 open alert, silenced"),
        ([Alert("critical", **ACKNOWLEDGED), Alert("warning", **ACKNOWLEDGED)], "busy",
         "2 open alerts (1 critical), all acknowledged"),
        ([Alert("critical", **ACKNOWLEDGED), Alert("error")], "bad",
         "2 open alerts (1 critical, 1 error), 1 acknowledged"),
        ([Alert("critical", **SILENCED), Alert("error", True, True), Alert("info")], "busy",
         "3 open alerts (1 critical, 1 error), 1 acknowledged, 1 silenced"),
    ],
)  # fmt: skip
def test_an_alert_that_a_person_handles_is_open_but_not_urgent(
    alerts: list[Alert], level: str, text: str
) -> None:
    found = headline([row("a")], alerts)

    assert (found["level"], found["text"]) == (level, f"{text}; a is running and keeping up.")
    assert found["alerts"] == len(alerts)
    assert found["acknowledged"] == sum(one.is_acknowledged for one in alerts)
    assert found["problems"] == sum(
        one.severity in ("critical", "error") and not one.is_handled for one in alerts
    )


@pytest.mark.parametrize(
    ("rows", "level", "text"),
    [
        ([row("a")], "busy", "Open alerts are unknown; a is running and keeping up."),
        ([row("a", "catching-up")], "busy", "a is catching up; open alerts are unknown."),
        ([row("a", "needs-attention")], "bad",
         "1 of 1 pipeline needs attention: a; open alerts are unknown."),
        ([row("a", "stopped")], "busy", "No pipeline is running; open alerts are unknown."),
    ],
)  # fmt: skip
def test_unknown_alerts_are_never_healthy(rows: Any, level: str, text: str) -> None:
    found = headline(rows, None)

    assert (found["level"], found["text"], found["alerts"]) == (level, text, None)


def test_restarts_are_counted() -> None:
    found = headline([row("a", restarts=2), row("b", restarts=1)], [])

    assert found["text"] == (
        "Healthy: all 2 pipelines are running and keeping up. 3 restarts in the last 24 h."
    )
    assert (found["restarts"], found["alerts"], found["broken_promises"]) == (3, 0, 0)


def query(name: str, *inputs: str, **sink: Any) -> Query:
    return Query(name, "p.py:1", inputs, sink or {"kind": "console"}, "append", {}, None, "none",
                 "")  # fmt: skip


def node(name: str, kind: str, *inputs: str) -> Node:
    return Node(name, kind, "p.py:1", inputs, {"kind": "kafka"} if kind == "source" else None)


DEFINED = Definition(
    "p", "dev", "aaaa", "p.py",
    (node("logs", "source"), node("orders", "source"), node("customers", "table"),
     node("parsed", "view", "logs", "customers")),
    (query("history", "parsed", kind="parquet", path="data/metrics"),
     query("beats", "parsed", kind="kafka", topic="clusterBeats"),
     query("raw", "logs", kind="parquet", path="elsewhere/raw"),
     query("joined", "parsed", "orders", kind="live"),
     query("counts", "history", kind="console")),
)  # fmt: skip


def test_sources_are_found_through_views_and_a_query_read_back_is_not_a_source() -> None:
    logs, both = frozenset({"logs"}), frozenset({"logs", "orders"})

    assert sources_by_query(DEFINED) == {
        "history": logs, "beats": logs, "raw": logs, "joined": both, "counts": frozenset()
    }  # fmt: skip
    assert sources_by_query(None) == {}


def test_a_pipeline_reads_each_source_once() -> None:
    """The sum over the queries would be 1,317."""
    rates = {"history": QueryRates(304.0, 1000.0), "beats": QueryRates(303.0, 5000.0),
             "raw": QueryRates(300.0, None), "joined": QueryRates(410.0, 2000.0)}  # fmt: skip

    found = pipeline_rates(rates, sources_by_query(DEFINED))

    assert found.input == 410
    assert found.by_source == {"logs": 304, "orders": 106}
    assert found.capacity == pytest.approx(410 / 0.304), "history is the busiest"


def test_a_query_that_reads_back_limits_the_capacity_but_adds_no_input() -> None:
    rates = {"history": QueryRates(100.0, 1000.0), "counts": QueryRates(50.0, 100.0)}

    found = pipeline_rates(rates, sources_by_query(DEFINED))

    assert (found.input, found.capacity) == (100, 200)


def test_without_input_the_capacity_is_unknown() -> None:
    assert pipeline_rates({"q": QueryRates(0.0, 500.0)}, {}).capacity is None
    assert pipeline_rates({}, {}).input == 0


def test_queries_with_unknown_sources_are_added() -> None:
    rates = {"a": QueryRates(10.0, 100.0), "b": QueryRates(20.0, 100.0)}

    assert pipeline_rates(rates, {}).input == 30


@pytest.mark.parametrize(
    ("query", "keeps_up"),
    [
        (QueryStatus("q", State.RUNNING), True),
        (QueryStatus("q", State.CATCHING_UP), False),
        (QueryStatus("q", State.RUNNING, broken_promise="41 s late"), False),
        (QueryStatus("q", State.DEGRADED, findings=(Finding("falling-behind", "."),)), False),
    ],
)
def test_only_a_query_that_does_not_keep_up_is_called_slow(
    query: QueryStatus, keeps_up: bool
) -> None:
    status = PipelineStatus("p", query.state, "", queries=(query,))

    assert pipeline_views._verdicts(status, {"q": []})["q"]["keeps_up"] is keeps_up


def test_sinks_in_the_graph_have_names_and_edges_have_rates(tmp_path: Path) -> None:
    sinks = {"metrics": {"kind": "parquet", "path": "data/metrics"},
             "heartbeats": {"kind": "kafka", "topic": "clusterBeats"}}  # fmt: skip
    (tmp_path / "headrace.toml").write_text('[project]\nname = "p"\n')
    settings = replace(config.load(tmp_path), sinks=sinks)
    status = PipelineStatus("p", State.RUNNING, "", queries=(
        QueryStatus("history", State.RUNNING, input_rate=304.0),
        QueryStatus("counts", State.RUNNING, input_rate=12.0),
    ))  # fmt: skip

    found = web_graph.graph(DEFINED, status, settings, {"history": 290.0})

    names = {one["id"]: one["name"] for one in found["nodes"] if one["kind"] == "sink"}
    assert names == {
        "history →": "metrics", "beats →": "heartbeats", "raw →": "elsewhere/raw",
        "joined →": "joined", "counts →": "console",
    }  # fmt: skip
    edges = {(start, end): rate for start, end, rate in found["edges"]}
    assert edges["logs", "parsed"] == 304
    assert edges["parsed", "history"] == 304
    assert edges["history", "counts"] == 12
    assert edges["history", "history →"] == 290
    assert edges["customers", "parsed"] is None
    assert edges["beats", "beats →"] is None


@pytest.mark.parametrize(
    ("xs", "now", "window"),
    [
        (["2026-11-18T02:40:00+00:00", "2026-11-18T02:41:00+00:00"], "02:41:30", 1),
        (["2026-11-18T02:41:00+00:00", "2026-11-18T02:40:00+00:00"], "02:41:30", 0),
        (["2026-11-18T02:40:00+00:00", "2026-11-18T02:41:00+00:00"], "02:42:00", None),
        (["2026-11-18T02:41:00+00:00"], "02:41:30", None),
        (["2026-11-18T02:40:00", "2026-11-18T02:41:00"], "02:41:30", 1),
        (["a", "b", None, 3, "noT"], "02:41:30", None),
    ],
)
def test_a_window_that_has_not_ended_is_current(
    xs: list[Any], now: str, window: int | None
) -> None:
    at = datetime.fromisoformat(f"2026-11-18T{now}+00:00").timestamp()

    assert current_window(xs, at) == (None if window is None else xs[window])
