"""A degraded pipeline on the page, in a real Chromium: what is wrong, its likely cause, the fix."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import browsing
from cli.stage import Project, started
from headrace.driver import progress_counts
from headrace.json_file import write_json
from headrace.model.events import Event, EventKind
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.progress import from_spark
from headrace.state import api_keys
from headrace.state.api_keys import KeyKind, Role
from headrace.store import db
from web.serving import served

pytestmark = pytest.mark.e2e

WARNING = {
    "slug": "unbounded-state", "what": "The state of 'kept' grows without end.",
    "why": "There is no watermark.", "where": "pipelines/hello.py:4",
    "fix": "Use `withWatermark(<b>)`.",
}  # fmt: skip


def degraded(folder: Path) -> Project:
    """A live run: for ten minutes 1 % of the records are malformed, then nearly all are."""
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text('[project]\nname = "shop"\n')
    project = Project(folder)
    project.deployed()
    name, now = "logs.quarantine", time.time()
    events = [*started(os.getpid()), Event(now - 720, EventKind.QUERY_STARTED, name, {})]
    for number in range(72):
        bad = 1 if number < 60 else 97
        events.append(batch(name, number, now - 715 + number * 10, bad))
    project.ran(events=tuple(events), is_live=True)
    trigger = {"kind": "every", "seconds": 2.0}
    queries = tuple(
        Query(query, "pipelines/hello.py:4", ("logs",), {"kind": "parquet"}, "append",
              trigger, None, "exactly-once", "because")
        for query in ("kept", name)
    )  # fmt: skip
    node = Node("logs", "source", "headrace.toml:3", (), {"kind": "text", "path": "incoming"})
    body = Definition(
        "hello", "dev", "aaaa1111", "pipelines/hello.py", (node,), queries, (WARNING,)
    )
    write_json(project.places.definition("aaaa1111", "dev", "hello"), body.to_json())
    db.open_history(project.places.history).close()
    return project


def batch(query: str, number: int, at: float, bad: int) -> Event:
    observed = {"headrace_quarantine": {"rows": 100, "bad": bad}}
    progress: dict[str, Any] = {
        "batchId": number, "numInputRows": 100, "durationMs": {"triggerExecution": 200},
        "observedMetrics": observed,
    }  # fmt: skip
    data = {"progress": progress, **progress_counts.from_progress(from_spark(progress))}
    return Event(at, EventKind.PROGRESSED, query, data)


def test_a_degraded_pipeline_shows_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    project = degraded(tmp_path / "project")
    secret = api_keys.make(project.places, KeyKind.LOGIN, "tester", Role.OPERATE, time.time(), 600)
    with browsing.chromium() as browser, served(project) as url:
        seen = browsing.watched(browser)
        page = seen.page
        page.goto(f"{url}/?token={secret}")
        page.wait_for_selector("[data-pipeline=hello] .state")
        overview = page.inner_text("main")
        page.goto(f"{url}/pipelines/hello")
        page.wait_for_selector("[data-finding=many-quarantined]")
        problem = page.inner_text("[data-finding=many-quarantined]")
        command = page.inner_text("[data-finding=many-quarantined] code >> nth=-1")
        warning = page.inner_text("[data-finding=unbounded-state]")
        code = page.inner_text("[data-finding=unbounded-state] code >> nth=-1")
        state = page.inner_text("h1 + .state")
        seen.check()

    assert "Healthy" not in overview
    assert "degraded" in overview
    assert state == "degraded"
    assert "97 % of the records read by logs have been quarantined since" in problem
    assert "Likely cause: " in problem
    assert "What to do: " in problem
    assert "`" not in problem + warning
    assert (command, code) == ("headrace quarantine list", "withWatermark(<b>)")
    assert "The state of 'kept' grows without end." in warning
