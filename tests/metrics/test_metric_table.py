"""The table of metrics: names by convention, nothing unknown, nothing unbounded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.metrics import prometheus_text, table
from headrace.metrics.facts import Facts, PipelineFacts, QueryFacts
from headrace.metrics.metric import BASE_UNITS, Kind, Metric
from headrace.model.lag import QueryLag
from headrace.model.status import PipelineStatus, QueryStatus, State
from metrics import pages
from test_docs import DOCS

NOBODY = Facts(1.0, "1.0", "shop", "dev", False)


def page(facts: Facts) -> pages.Page:
    return pages.parse(prometheus_text.page(table.read_all(facts), "")[0].decode())


def flow(**changes: object) -> Facts:
    status = PipelineStatus("flow", **{"state": "stopped", "why": "", **changes})  # type: ignore[arg-type]
    return replace(NOBODY, pipelines=[PipelineFacts(status)])


@pytest.mark.parametrize("metric", table.METRICS, ids=lambda one: one.name)
def test_names_follow_the_conventions_of_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"headrace_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    bare = metric.name.removesuffix("_total")
    if metric.unit in BASE_UNITS:
        assert bare.endswith(f"_{metric.unit}")
    assert not re.search(r"_(ms|milliseconds|mb|kb|percent|count|sum|bucket)$", bare)
    assert metric.help.endswith(".")
    assert ("quantile" in metric.labels) == (metric.kind is Kind.SUMMARY)


def test_names_differ_in_every_system() -> None:
    assert len({one.name for one in table.METRICS}) == len(table.METRICS)
    assert len({one.dotted_name for one in table.METRICS}) == len(table.METRICS)


def test_every_metric_has_a_value_if_everything_is_known() -> None:
    found = {family.metric.name for family in table.read_all(pages.full_facts())}

    assert found == {one.name for one in table.METRICS}


def test_values_are_in_base_units() -> None:
    found = page(pages.full_facts(now=1000.0))

    of = {"pipeline": "full", "query": "kept"}
    assert pages.value(found, "headrace_query_freshness_seconds", **of, quantile="0.99") == 0.9
    assert pages.value(found, "headrace_query_last_batch_duration_seconds", **of) == 0.25
    assert pages.value(found, "headrace_query_lag_rows", **of) == 8
    assert pages.value(found, "headrace_query_time_to_data_loss_seconds", **of) == 95
    name = "headrace_query_batch_duration_seconds"
    assert pages.value(found, f"{name}_bucket", **of, le="0.25") == 2
    assert pages.value(found, f"{name}_bucket", **of, le="+Inf") == 3
    assert pages.value(found, f"{name}_count", **of) == 3
    assert pages.value(found, f"{name}_sum", **of) == 4.3


def test_what_is_unknown_is_absent_and_not_zero() -> None:
    found = page(flow())

    assert pages.value(found, "headrace_pipeline_up", pipeline="flow") == 0
    names = {name for name, _ in found}
    assert names == {
        "headrace_build_info", "headrace_supervisor_up", "headrace_pipeline_up",
        "headrace_pipeline_state",
    }  # fmt: skip


def test_a_pipeline_is_in_exactly_one_state() -> None:
    found = page(flow(state="degraded"))

    states = {
        dict(labels)["state"]: value
        for (name, labels), value in found.items()
        if name == "headrace_pipeline_state"
    }
    assert states.keys() == {str(state) for state in State}
    assert [state for state, value in states.items() if value] == ["degraded"]
    assert pages.value(found, "headrace_pipeline_up", pipeline="flow") == 1


def test_a_known_zero_is_shown() -> None:
    status = PipelineStatus("flow", "stopped", "")
    known = replace(NOBODY, pipelines=[PipelineFacts(status, (), 0, {})], alerts={})
    found = page(known)

    assert pages.value(found, "headrace_pipeline_restarts_total", pipeline="flow") == 0
    assert pages.value(found, "headrace_pipeline_failures_total", pipeline="flow", kind="data") == 0
    assert pages.value(found, "headrace_alerts_open", pipeline="", severity="critical") == 0


def test_a_broker_that_does_not_answer_leaves_no_old_lag() -> None:
    query = QueryStatus("kept", "running", lag_rows=5)
    lag = QueryLag("flow", "kept", 1.0, problem="no answer")
    status = PipelineStatus("flow", "running", "", queries=(query,))
    of = PipelineFacts(status, [QueryFacts("kept", query, lag=lag)])
    found = page(replace(NOBODY, pipelines=[of]))

    assert not {name for name, _ in found if "lag" in name or "loss" in name}


def test_a_flood_of_series_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SERIES_MAX", 20)

    assert sum(len(one.samples) for one in table.read_all(pages.full_facts())) == 20


def test_names_of_users_cannot_break_the_page() -> None:
    wild = 'a"b\\c\nd,e{f}'
    found = page(pages.full_facts(pipeline=wild))

    labels = {dict(labels).get("pipeline") for _, labels in found}
    assert 'a\\"b\\\\c\\nd,e{f}' in labels


@pytest.mark.parametrize(
    ("accept", "is_preferred"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
        ("application/openmetrics-text;q=0.2, text/plain", False),
        ("application/openmetrics-text;version=;;q=x", True),
    ],
)
def test_openmetrics_is_sent_to_clients_that_prefer_it(accept: str, is_preferred: bool) -> None:
    body, content_type = prometheus_text.page(table.read_all(pages.full_facts()), accept)

    assert body.endswith(b"# EOF\n") is is_preferred
    assert content_type.startswith("application/openmetrics-text") is is_preferred


def test_the_reference_lists_every_metric_as_it_is() -> None:
    rows = re.findall(
        r"^\| `(headrace_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$",
        (Path(DOCS) / "reference" / "metrics.md").read_text(),
        re.MULTILINE,
    )

    assert rows == [
        (one.name, str(one.kind), ", ".join(one.labels), one.help) for one in table.METRICS
    ]
