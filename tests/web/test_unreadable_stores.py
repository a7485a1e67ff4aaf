"""What the page shows if a store is damaged or missing: never better than it is. No server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Project
from headrace import config
from headrace.errors import StoreError
from headrace.project.sql_workers import QueryWorkers
from headrace.web import pipeline_views
from headrace.web.overview import OverviewBuilder
from headrace.web.visit import Site, Visit
from web.conftest import with_history


def overview(project: Project) -> Any:
    settings = config.load(project.folder)
    with closing(QueryWorkers(settings)) as workers:
        return OverviewBuilder(Site(settings), workers).overview()


def damage(store: Path) -> None:
    for log in store.parent.glob(f"{store.name}-*"):  # all of it may be in there yet
        log.unlink()
    store.write_bytes(b"this is no database" * 500)


@pytest.mark.parametrize("is_supervised", [True, False])
def test_alerts_that_cannot_be_read_are_not_no_alerts(
    project: Project, is_supervised: bool
) -> None:
    with_history(project)
    if is_supervised:
        project.supervised()
    damage(project.places.alerts)

    found = overview(project)

    assert found["notice"].startswith("The list of alerts cannot be read: alerts.db is damaged.")
    assert "headrace down && headrace up" in found["notice"]
    assert ("The supervisor is not running" in found["notice"]) is not is_supervised
    assert found["headline"]["level"] in ("busy", "bad")
    assert "pen alerts are unknown" in found["headline"]["text"]
    assert "Healthy" not in found["headline"]["text"]
    assert (found["headline"]["alerts"], found["pipelines"][0]["alerts"]) == (None, None)
    assert found["alerts"] == []


def test_a_project_without_alerts_yet_has_none(project: Project) -> None:
    with_history(project)
    project.supervised()
    project.places.alerts.unlink()

    found = overview(project)

    assert found["notice"] is None
    assert (found["headline"]["alerts"], found["pipelines"][0]["alerts"]) == (0, 0)
    assert "unknown" not in found["headline"]["text"]


def test_both_damaged_stores_are_in_the_notice(project: Project) -> None:
    with_history(project)
    damage(project.places.history)
    damage(project.places.alerts)

    found = overview(project)["notice"]

    assert "history.db is damaged." in found
    assert "alerts.db is damaged." in found


def test_the_history_without_a_store_is_empty_and_of_a_damaged_one_an_error(
    project: Project,
) -> None:
    with_history(project)
    visit = Visit(Site(config.load(project.folder)), path={"pipeline": "hello"})
    whole = pipeline_views.history(visit)
    for path in project.places.state.glob("history.db*"):
        path.unlink()

    empty = pipeline_views.history(visit)

    assert (list(whole["queries"]), bool(whole["marks"])) == (["kept"], True)
    assert (empty["queries"], empty["marks"]) == ({}, [])
    assert empty.keys() == whole.keys()
    assert empty["phases"] == whole["phases"]
    assert set(whole["phases"]) < set(whole["queries"]["kept"])
    assert pipeline_views.audit(visit) == {"audit": []}
    damage(project.places.history)
    with pytest.raises(StoreError):
        pipeline_views.history(visit)
