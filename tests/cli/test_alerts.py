"""`alerts list`: from the store, with or without a supervisor."""

from __future__ import annotations

import contextlib
import time

from cli.stage import Project
from headrace.model.alerts import AlertRow, OpenAlert
from headrace.store import alerts, db


def opened(project: Project) -> None:
    now = time.time()
    with contextlib.closing(db.open_alerts(project.places.alerts)) as conn:
        alerts.open_once(conn, OpenAlert("stalled:other", "stalled", "other", "stuck"), now)
        row = AlertRow("id", 0, 0, ("7",), "Cluster [7]: hot", "critical", now - 300, now, count=75)
        alerts.take(conn, "hello", "kept", [row], now)
        cold = AlertRow("id", 1, 0, ("8",), "Cluster 8: hot", "critical", now, now)
        over = AlertRow("id", 1, 1, ("8",), "Cluster 8: cool", "critical", now, now, resolved=True)
        alerts.take(conn, "hello", "kept", [cold, over], now)


def test_before_the_first_alert_there_is_none(project: Project) -> None:
    assert project.headrace("alerts", "list").stdout == "No open alerts.\n"
    assert project.json("alerts", "list") == {"alerts": []}


def test_open_alerts_are_listed_newest_first(project: Project) -> None:
    opened(project)

    head, row, rule = project.headrace("alerts", "list").stdout.splitlines()

    assert head.split() == ["state", "severity", "title", "of", "opened", "updated", "count"]
    assert " ".join(row.split()) == (
        "open critical Cluster [7]: hot hello/kept 5 min ago 5 min ago 75"
    )
    assert rule.split()[:4] == ["open", "warning", "stuck", "other"]


def test_resolved_ones_come_with_all(project: Project) -> None:
    opened(project)

    lines = project.headrace("alerts", "list", "--all").stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["state", "resolved", "open", "open"]


def test_of_one_pipeline_or_query_as_json(project: Project) -> None:
    opened(project)
    project.deployed()

    for name in ("hello", "hello/kept"):
        (alert,) = project.json("alerts", "list", name)["alerts"]

        assert alert["key"] == "hello/kept/7"
        assert (alert["pipeline"], alert["query"], alert["rule"]) == ("hello", "kept", "row")
        assert (alert["count"], alert["severity"]) == (75, "critical")
        assert alert["resolved_at"] is None
        assert {"id", "title", "opened_at", "updated_at", "data", "reopened"} <= set(alert)


def test_an_unknown_name_names_the_near_miss(project: Project) -> None:
    body = project.json("alerts", "list", "helo", code=2)

    assert body["error"]["slug"] == "unknown-name"
    assert 'Did you mean "hello"?' in body["error"]["why"]
