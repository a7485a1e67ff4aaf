"""A real Prometheus scrapes a real supervisor and its relay; the drivers only lack Spark.

Its rules fire, and every query of the dashboard has data. Counters survive kills of each process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.metrics import packaged_files, prometheus_text, table
from headrace.metrics.exporters import Address
from headrace.model.requests import Action
from headrace.relay.prometheus_server import Access, PrometheusServer
from metrics import pages
from supervisor.conftest import Project, until

pytestmark = pytest.mark.e2e

RICH = {
    "beat": {"heap_used": 50, "heap_max": 100, "memory": 5_000, "cpu_s": 1.5, "disk_free": 10**12},
    "batch": {
        "fresh": {"basis": "event", "n": 2, "p50_ms": 5, "p99_ms": 9, "newest_ms": 4,
                  "ages": [[5, 50], [9, 50]]},
        "counts": {"quarantine.in": 2.0, "quarantine.bad": 1.0},
    },
    "spark": {
        "durationMs": {"triggerExecution": 40}, "sink": {"numOutputRows": 2},
        "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 700,
                            "numRowsDroppedByWatermark": 1}],
    },
}  # fmt: skip


@pytest.fixture
def port(project: Project) -> int:
    found = pages.free_port()
    (project.path / "headrace.toml").write_text(
        f'[metrics.prometheus]\nlisten = "127.0.0.1:{found}"\n[project]\nname = "shop"\n'
    )
    return found


@pytest.fixture
def prometheus(tmp_path: Path, port: int) -> Iterator[str]:
    """Its address. It scrapes the project, and a page on which every metric has a value."""
    facts = table.read_all(pages.full_facts())
    full = PrometheusServer(
        Address("127.0.0.1", pages.free_port()),
        Access(),
        lambda accept: prometheus_text.page(facts, accept),
    )
    folder = tmp_path / "prometheus"
    folder.mkdir()
    # Without the waiting times: they are tested with `promtool test rules`.
    rules = [
        line
        for line in packaged_files.read(packaged_files.RULES).splitlines()
        if not line.strip().startswith("for:")
    ]
    (folder / "rules.yml").write_text("\n".join(rules) + "\n")
    targets = json.dumps([f"127.0.0.1:{port}", f"127.0.0.1:{full.port}"])
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: headrace, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    own = pages.free_port()
    program = shutil.which("prometheus")
    assert program, "Prometheus is missing: run scripts/system-parts"
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            [
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{own}",
            ],
            stdout=log,
            stderr=log,
        )
    yield f"http://127.0.0.1:{own}"
    child.terminate()
    child.wait(30)
    full.close()


def ask(prometheus: str, path: str, **parameters: str) -> Any:
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310 - loopback
            return json.load(reply)["data"]
    except urllib.error.HTTPError as exc:
        raise AssertionError(f"{parameters}: {exc.read().decode()}") from exc
    except OSError:
        return None  # not started yet


def firing(prometheus: str) -> set[tuple[str, str]]:
    found = ask(prometheus, "alerts") or {"alerts": []}
    return {
        (one["labels"]["alertname"], one["labels"].get("pipeline", ""))
        for one in found["alerts"]
        if one["state"] == "firing"
    }


def batches(port: int) -> float:
    try:
        page = pages.read(port)
    except OSError:
        return -1.0
    return pages.value(page, "headrace_query_batches_total", pipeline="orders", query="q") or 0.0


def relay_of(project: Project) -> psutil.Process | None:
    supervisor = psutil.Process(project.children[-1].pid)
    found = [one for one in supervisor.children() if "headrace.relay.main" in one.cmdline()]
    return found[0] if found else None


def test_rules_fire_and_every_panel_has_data(project: Project, port: int, prometheus: str) -> None:
    project.behave(orders=RICH, bad={"mode": "refuse"}, gone={})
    project.supervise()
    for name in ("orders", "bad", "gone"):
        project.deploy(name)
    project.one_driver("gone")
    project.ask(Action.STOP, "gone")

    wanted = {
        ("HeadracePipelineStopped", "gone"),
        ("HeadracePipelineNeedsAttention", "bad"),
        ("HeadraceRowsQuarantined", "orders"),
        ("HeadraceFinding", "full"),
    }
    until(lambda: wanted <= firing(prometheus), what=f"{wanted}; firing: {firing(prometheus)}")

    assert ("HeadraceDown", "") not in firing(prometheus)
    assert not {one for one in firing(prometheus) if one[0] == "HeadracePipelineDown"}
    for title, query in dashboard_queries():
        until(
            lambda query=query: (ask(prometheus, "query", query=query) or {}).get("result"),
            what=f"data for {title}: {query}",
        )


def test_counters_survive_kills_of_the_relay_the_driver_and_the_supervisor(
    project: Project, port: int
) -> None:
    project.behave(orders={"beat_s": 0.5})
    project.supervise()
    project.deploy("orders")
    seen = until(lambda: (found := batches(port)) > 2 and found, what="batches")

    relay = until(lambda: relay_of(project), what="a relay")
    relay.send_signal(signal.SIGKILL)
    seen = until(
        lambda: (n := batches(port)) > 0 and batches_not_below(n, seen), what="a new relay"
    )

    driver = project.one_driver("orders")
    os.kill(driver, signal.SIGKILL)
    project.one_driver("orders", beside=driver)
    seen = until(lambda: batches_not_below(batches(port), seen + 2), what="more batches")
    assert restarts(port) == 1.0

    project.children[-1].kill()
    project.children[-1].wait()
    project.supervise()
    seen = until(lambda: (n := batches(port)) > 0 and batches_not_below(n, seen), what="new pages")
    assert restarts(port) == 1.0


def batches_not_below(found: float, least: float) -> float:
    """The number, once it is high enough. A counter that was reset would be far below."""
    return found if found >= least else 0.0


def restarts(port: int) -> float | None:
    return pages.value(pages.read(port), "headrace_pipeline_restarts_total", pipeline="orders")


def dashboard_queries() -> list[tuple[str, str]]:
    """Title and query of each panel, with the values that Grafana would insert."""
    board = json.loads(packaged_files.read(packaged_files.DASHBOARD))
    found = []
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", "1m")
            for name in ("instance", "pipeline", "query"):
                query = query.replace(f'"${name}"', '".*"')
            assert "$" not in query, query
            found.append((panel["title"], query))
    assert len(found) > 25
    return found
