"""A poison batch, from the first failure to the fix: three attempts, one page, and its end.

The same runs show that listeners of the user and Spark's own metrics work, and disturb nothing.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e import rig
from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
PIPELINE = "poison"
METRIC = f"{PIPELINE}.driver.spark.streaming.healthy."
CANARY = "cAnArY4hJ9"  # a secret in front of every metric that is sent


@dataclass
class Told:
    """What the story left behind."""

    project: rig.Project
    why: str = ""
    ends: list[dict[str, Any]] = field(default_factory=list)
    left: list[Any] = field(default_factory=list)
    pages: list[dict[str, Any]] = field(default_factory=list)
    pages_before_the_poison: int = 0
    graphite: list[str] = field(default_factory=list)

    def heard(self) -> list[dict[str, Any]]:
        path = self.project.folder / "heard.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


@contextmanager
def graphite(lines: list[str]) -> Iterator[int]:
    """A Carbon line receiver: one metric a line, over TCP."""

    class Receive(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                lines.append(line.decode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Receive) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def configure(project: rig.Project, pager: str, port: int) -> None:
    (project.folder / "carbon").write_text(CANARY)
    (project.folder / "key").write_text("0123456789abcdef0123456789abcdef")
    toml = project.folder / "headrace.toml"
    toml.write_text(
        toml.read_text()
        + f"""
[notify.pager]
kind = "pagerduty"
routing_key = "${{file:{project.folder}/key}}"
url = "{pager}"
severity = ["critical"]

[metrics.dropwizard]
"*.sink.graphite.prefix" = "${{file:{project.folder}/carbon}}"
"*.sink.graphite.host" = "127.0.0.1"
"*.sink.graphite.port" = {port}
"*.sink.graphite.period" = 1
"""
    )


def runs(project: rig.Project) -> list[Path]:
    return sorted((project.state / "runs").glob(f"{PIPELINE}-*"))


def committed(project: rig.Project, batch: int, *queries: str) -> bool:
    """By this run."""
    found = {query["name"]: query["batch"] for query in project.status(PIPELINE)["queries"]}
    return all(found.get(query) == batch for query in queries)


def poison_and_fix(told: Told) -> None:
    project = told.project
    project.headrace("up")
    rig.eventually("both queries commit", lambda: committed(project, 0, "fragile", "healthy"), 60)
    wanted = f"{CANARY}.{METRIC}inputRate-total "
    rig.eventually(
        "a metric of the query", lambda: any(wanted in line for line in told.graphite), 60
    )
    told.pages_before_the_poison = len(told.pages)
    project.give("poison")
    rig.eventually(
        "needs attention", lambda: project.status(PIPELINE)["state"] == "needs-attention", 120
    )
    told.why = project.headrace("why", PIPELINE)
    told.ends = [json.loads((run / "exit.json").read_text()) for run in runs(project)]
    told.left = project.marked()
    rig.eventually("the page", lambda: told.pages, 60)
    (project.folder / "incoming" / "poison").write_text("bread\n")  # the same file, corrected
    project.headrace("start", PIPELINE)
    rig.eventually("the end of the page", lambda: len(told.pages) > 1, 120)
    rig.eventually("the batch is committed", lambda: committed(project, 1, "fragile"), 120)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    project = rig.Project.copy("poison", tmp_path_factory.mktemp("poison") / "project")
    found = Told(project)

    def answer(received: Received) -> Reply:
        found.pages.append(received.json())
        return reply_as_service(received)

    project.give("good")
    with graphite(found.graphite) as port, Receiver(answer) as pager:
        configure(project, pager.url, port)
        try:
            poison_and_fix(found)
        finally:
            project.headrace("down", code=None)
    return found


def test_the_same_poison_batch_three_times_stops_and_says_why(told: Told) -> None:
    assert len(told.ends) == 3, "three attempts exactly"
    assert {e["query"] for e in told.ends} == {"fragile"}
    assert {e["batch"] for e in told.ends} == {1}
    assert len({e["fingerprint"] for e in told.ends}) == 1
    assert all(set(e["queries"]) == {"fragile", "healthy"} for e in told.ends), "all end together"
    assert told.left == [], "nothing runs on after the run has ended"
    assert "cannot price the order 'poison'" in told.why
    assert "pipelines/poison.py:" in told.why
    assert "headrace start poison" in told.why or "headrace up" in told.why


def test_a_poison_batch_pages_once_and_the_fix_ends_it(told: Told) -> None:
    assert told.pages_before_the_poison == 0
    assert [page["event_action"] for page in told.pages] == ["trigger", "resolve"]
    assert len({page["dedup_key"] for page in told.pages}) == 1
    payload = told.pages[0]["payload"]
    assert payload["severity"] == "critical"
    assert PIPELINE in payload["summary"]
    assert "cannot price the order" in json.dumps(told.pages[0])


def test_a_listener_hears_of_every_query_whatever_others_do(told: Told) -> None:
    """One of the others raises at every event, and another sleeps for ten minutes."""
    heard = told.heard()

    started = [one["query"] for one in heard if one["event"] == "started"]
    assert sorted(started) == ["fragile"] * 4 + ["healthy"] * 4, "four runs"
    progressed = {(one["query"], one["batch"]) for one in heard if one["event"] == "progress"}
    assert {("fragile", 0), ("healthy", 0), ("fragile", 1), ("healthy", 1)} <= progressed
    errors = [one["error"] for one in heard if one["event"] == "terminated" and one["error"]]
    assert len(errors) == 3
    assert all("cannot price the order" in error for error in errors)


def test_the_first_error_of_a_listener_is_logged_with_its_line_and_the_rest_counted(
    told: Told,
) -> None:
    lines = (told.project.folder / "pipelines" / "poison.py").read_text().splitlines()
    raised = next(n for n, line in enumerate(lines, 1) if "LookupError(" in line)
    log = (runs(told.project)[0] / "driver.log").read_text()

    first = "the listener Broken raised LookupError: no dashboard for "
    assert log.count(first) == 1
    assert f"(pipelines/poison.py:{raised}, in onQueryStarted)" in log
    assert "the listener Broken (pipelines/poison.py:" in log
    assert " errors and missed 0 events" in log
    assert "the listener Slow (pipelines/poison.py:" in log


def test_sparks_own_metrics_reach_jmx_and_graphite_without_a_secret_on_disk(told: Told) -> None:
    beans = [bean for one in told.heard() if one["event"] == "progress" for bean in one["beans"]]

    assert any(f"name={METRIC}processingRate-total" in bean for bean in beans)
    names = {line.split()[0] for line in told.graphite if len(line.split()) == 3}
    assert f"{CANARY}.{METRIC}latency" in names
    held = [path for path in told.project.state.rglob("*") if path.is_file()]
    assert [path for path in held if CANARY.encode() in path.read_bytes()] == []
    kept = (runs(told.project)[0] / "conf" / "settings.conf").read_text()
    assert f"graphite.prefix ${{file:{told.project.folder}/carbon}}" in kept
