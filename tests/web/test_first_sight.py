"""What the page shows at first sight, in a real Chromium: never better than it is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page

import browsing
from cli.stage import Project, eventually
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.json_file import write_json
from headrace.model.events import Event, EventKind
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.progress import from_spark
from headrace.state import api_keys
from headrace.state.api_keys import KeyKind, Role
from headrace.store import db, progress
from web.conftest import with_history
from web.serving import served

pytestmark = pytest.mark.e2e

TIMESTAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"
BATCH = {"batchId": 100, "numInputRows": 20, "inputRowsPerSecond": 10.0,
         "processedRowsPerSecond": 40.0, "durationMs": {"triggerExecution": 500}}  # fmt: skip
TOML = '[project]\nname = "shop"\n[sinks.archive]\nkind = "parquet"\npath = "data/archive"\n'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as found:
        yield found


def deployed(folder: Path) -> Project:
    """One source, three queries, one of which reads another back, and a critical alert."""
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text(TOML)
    project = Project(folder)
    run = with_history(project)
    with project.places.events(run).open("a") as file:
        file.write(Event(1003.5, EventKind.PROGRESSED, "kept", {"progress": BATCH}).to_line())
        file.write("\n")
    now = time.time()
    table = folder / "results/hello/counts/v1"
    live = {"kind": "live", "key": ["minute"], "chart": "bar", "x": "minute", "y": ["n"],
            "path": str(table)}  # fmt: skip
    rest = ("append", {}, None, "exactly-once", "")
    queries = (
        Query("kept", "hello.py:2", ("lines",), {"kind": "parquet", "path": "data/archive"}, *rest),
        Query("counts", "hello.py:3", ("kept",), live, *rest),
        Query("copied", "hello.py:4", ("lines",), {"kind": "console"}, *rest),
    )
    nodes = (Node("lines", "source", "hello.py:1", (), {"kind": "socket"}),)
    body = Definition("hello", "dev", "aaaa1111", "hello.py", nodes, queries)
    write_json(project.places.definition("aaaa1111", "dev", "hello"), body.to_json())
    minutes = [datetime.fromtimestamp(now // 60 * 60 - 60 * n, UTC) for n in (3, 2, 1, 0, -1)]
    rows = pa.table({"minute": minutes, "n": [50, 60, 55, 58, 9]})
    LiveSnapshots(table, ("minute",), 1000, {}).add(3, rows, at=now, is_whole=True)
    return project


def open_page(project: Project, browser: Browser, url: str) -> browsing.Watched:
    secret = api_keys.make(project.places, KeyKind.LOGIN, "tester", Role.OPERATE, time.time(), 600)
    seen = browsing.watched(browser, timezone_id="America/New_York")
    seen.page.goto(f"{url}/?token={secret}")
    return seen


def test_the_page_tells_the_truth_at_first_sight(tmp_path: Path, browser: Browser) -> None:
    project = deployed(tmp_path / "project")
    with served(project) as url:
        seen = open_page(project, browser, url)
        page = seen.page
        page.wait_for_selector("[data-live=counts] rect")

        check_overview(page)
        check_current_minute(project, page)
        page.goto(f"{url}/pipelines/hello?range=15m")
        page.wait_for_selector("#chart-rates .main-svg")
        check_pipeline(page)
        check_current_step(project, page)
        check_graph(page)
        page.goto(f"{url}/live/hello.counts")
        page.wait_for_selector("#chart .main-svg")
        assert re.search(f"Pale bar: the window at {TIMESTAMP}", page.inner_text("#chart-note"))
        seen.check()
        page.context.close()


def check_overview(page: Page) -> None:
    headline = page.inner_text("#health")
    assert "1 open alert (critical)" in headline
    assert "1 restart in the last 24 h" in headline
    assert "Healthy" not in headline
    assert page.locator("#verdict.bad").count() == 1
    tile = page.inner_text("[data-live=counts]")
    assert re.search(f"n at {TIMESTAMP} so far; previous: 58", tile), tile
    assert page.locator("[data-live=counts] rect.incomplete").count() == 1
    assert page.locator("[data-live=counts] rect").count() == 5
    card = page.locator("[data-pipeline=hello]")
    assert "the query keeps up" in (
        card.locator("abbr:text('capacity')").get_attribute("title") or ""
    )


def check_current_minute(project: Project, page: Page) -> None:
    """Of the card's chart, while batches arrive. It is left out in its first 15 s."""
    chart = page.locator("[data-pipeline=hello] svg.spark")
    part = chart.locator("path.in.incomplete")

    eventually(lambda: add_batch(project, page) or part.count() == 1)

    assert "L" in (part.get_attribute("d") or ""), "a line"
    assert part.evaluate("path => getComputedStyle(path).strokeDasharray") != "none"
    assert (chart.get_attribute("aria-label") or "").endswith(" so far")


def check_current_step(project: Project, page: Page) -> None:
    traces = "Object.fromEntries(document.getElementById('chart-rates').data.map(t => [t.name, t]))"

    def part() -> object:
        add_batch(project, page)
        return page.evaluate(traces).get("input, so far")

    assert eventually(part)["line"]["dash"] == "dot"
    assert "incomplete" in page.inner_text("#chart-note")


def add_batch(project: Project, page: Page) -> None:
    """At most two a second; meanwhile the page goes on."""
    with closing(db.open_history(project.places.history)) as conn:
        last = progress.newest(conn, "hello", "kept", 1)[0]
        body = from_spark(BATCH | {"batchId": last.batch + 1})
        progress.add(conn, "hello", last.run, "kept", time.time(), body)
    page.wait_for_timeout(500)


def check_pipeline(page: Page) -> None:
    assert page.locator("th abbr", has_text="capacity").get_attribute("title")
    assert "keeps up" in page.inner_text("#about-capacity")
    assert "Why is it slow?" not in page.inner_text("main")
    started = page.locator("h2:has-text('Runs') + * time").first.get_attribute("title")
    assert re.fullmatch(TIMESTAMP, started or "")
    axis = page.evaluate("document.getElementById('chart-rates').layout.xaxis")
    assert axis["title"]["text"] == "UTC"
    label = page.locator("#chart-rates .xtick text").last.text_content() or ""
    hour, minute = map(int, label.split(":")[:2])
    now = datetime.now(UTC)
    assert (now.hour * 60 + now.minute - hour * 60 - minute) % 1440 < 20, "not in local time"


def check_graph(page: Page) -> None:
    """Sinks with their names, in one column at the right; rates on edges."""
    sinks = page.locator(".node.sink")
    assert sorted(sinks.locator("text:not(.sub)").all_text_contents()) == [
        "archive", "console", "counts",
    ]  # fmt: skip
    left = {round(sinks.nth(n).bounding_box()["x"]) for n in range(3)}  # type: ignore[index]
    others = page.locator(".node:not(.sink)")
    rest = [others.nth(n).bounding_box()["x"] for n in range(others.count())]  # type: ignore[index]
    assert len(left) == 1
    assert max(rest) < min(left)
    rates = page.locator(".graph text.rate").all_text_contents()
    assert rates
    assert all(text.endswith("/s") for text in rates)
