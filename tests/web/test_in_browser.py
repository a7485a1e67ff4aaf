"""Hostile content in a real Chromium, from a real web process: shown as text, never executed."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Route

import browsing
from cli.stage import Project, failed, started
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.json_file import read_json, write_json
from headrace.model.alerts import OpenAlert
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.progress import from_spark
from headrace.model.runs import RunSpec
from headrace.state import api_keys, lag
from headrace.state.api_keys import KeyKind, Role
from headrace.store import alerts, db, events, progress, runs
from headrace.web import main
from web.serving import served

pytestmark = pytest.mark.e2e

PAYLOADS = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "'-window.hit=1-'",
    "javascript:window.hit=1",
    "</textarea><script>window.hit=1</script>",
    "{{constructor.constructor('window.hit=1')()}}",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "<a href=javascript:window.hit=1>x</a>",
    "</title><script>window.hit=1</script>",
    "<style>@import'http://127.0.0.1:1/x'</style>",
    "\u202eevil\u0000\u001b[31m<b>",
]
ALL = " ".join(PAYLOADS)
RUN = "hello-20260101T000001-ab01"


def hostile(folder: Path) -> Project:
    """A project in which every value that comes from data is a payload."""
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text('[project]\nname = "<img src=x onerror=window.hit=1>"\n')
    project = Project(folder)
    project.deployed(by=ALL[:200])
    columns = ["user", *PAYLOADS[:6]]
    path = str(folder / "results/hello/counts/v1")
    live = {"kind": "live", "key": ["user"], "chart": "bar", "x": "user", "y": [PAYLOADS[1]],
            "path": path}  # fmt: skip
    ddl = ", ".join(f"`{c}` string" for c in columns)
    query = Query("counts", ALL, ("s",), live, "append", {}, None, "exactly-once", ALL, ddl)
    node = Node(PAYLOADS[1], "source", ALL, (), {"kind": PAYLOADS[0]})
    warning = {"what": ALL}
    body = Definition("hello", "dev", "aaaa1111", "hello.py", (node,), (query,), (warning,))
    write_json(project.places.definition("aaaa1111", "dev", "hello"), body.to_json())
    rows = {name: [*PAYLOADS, ALL] for name in columns}
    LiveSnapshots(Path(path), ("user",), 1000, {}).add(3, pa.table(rows), at=1.0, is_whole=True)
    error = {"slug": PAYLOADS[0], "what": ALL, "why": ALL, "where": ALL, "fix": ALL}
    ended = failed()
    ended = type(ended)(**{**ended.to_json(), "error": error, "query": PAYLOADS[1]})
    project.ran(number=1, exit=ended, log=ALL + "\n", events=started())
    now = time.time()
    conn = db.open_history(project.places.history)
    spec = RunSpec(RUN, "hello", str(folder), str(project.places.state), ALL, "dev", ALL, at=now)
    runs.record_start(conn, spec)
    runs.record_end(conn, RUN, ended, now)
    events.add(conn, now, "hello", RUN, "run_ended", ALL)
    batch = {"batchId": 1, "numInputRows": 5, "durationMs": {"triggerExecution": 5}}
    progress.add(conn, "hello", RUN, PAYLOADS[1], now, from_spark(batch))
    conn.close()
    parts = (PartitionLag(PAYLOADS[1], 0, 5, 0, 9),)
    lag.write(project.places, [QueryLag("hello", PAYLOADS[0], now, parts, problem=ALL)])
    conn = db.open_alerts(project.places.alerts)
    alerts.open_once(
        conn, OpenAlert("k", "row", "hello", ALL, PAYLOADS[2], PAYLOADS[0], {"a": ALL}), now
    )
    conn.close()
    return project


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as found:
        yield found


def link(project: Project, url: str, role: Role = Role.OPERATE) -> str:
    secret = api_keys.make(project.places, KeyKind.LOGIN, "tester", role, time.time(), 600)
    return f"{url}/?token={secret}"


PAGES = [
    "/", "/pipelines/hello", f"/runs/{RUN}", "/live", "/live/hello.counts", "/sql",
    "/quarantine", "/checkpoints", "/alerts?all=1", "/audit",
]  # fmt: skip


def test_hostile_content_is_text_on_every_page(tmp_path: Path, browser: Browser) -> None:
    project = hostile(tmp_path / "project")
    with served(project) as url:
        seen = browsing.watched(browser)
        page = seen.page
        page.goto(link(project, url))
        for path in PAGES:
            page.goto(url + path)
            page.wait_for_function("() => !document.body.innerText.includes('Loading…')")
            if path == "/sql":
                page.fill("#sql", "SELECT * FROM counts")
                page.keyboard.press("Control+Enter")
                page.wait_for_selector("#as-of")
            page.wait_for_timeout(700)  # an event of an <img> that failed would come by now
            assert page.evaluate("window.hit") is None, path
            assert (
                page.evaluate("document.querySelectorAll('main script, main iframe').length") == 0
            )
            if path in ("/pipelines/hello", f"/runs/{RUN}", "/alerts?all=1"):
                assert PAYLOADS[0] in page.inner_text("main"), path
        seen.check()
        page.context.close()


def test_the_editor_never_overwrites_what_the_user_types(tmp_path: Path, browser: Browser) -> None:
    """The list of tables arrives late: an example query fills only an untouched editor."""
    project = hostile(tmp_path / "project")
    held: list[Route] = []
    with served(project) as url:
        page = browsing.watched(browser).page
        page.goto(link(project, url))
        page.goto(url + "/sql")
        page.wait_for_selector("#table-counts", state="attached")
        assert page.input_value("#sql").startswith("SELECT * FROM ")

        page.route("**/api/sql", lambda route: held.append(route))
        with page.expect_request("**/api/sql"):
            page.goto(url + "/sql")
        page.click("#sql")
        held[0].continue_()
        page.wait_for_selector("#table-counts", state="attached")
        assert page.input_value("#sql") == ""
        page.context.close()


def test_an_empty_project_is_explained_on_every_page(tmp_path: Path, browser: Browser) -> None:
    """No pipeline, no data, no store: each page says so and stays up."""
    folder = tmp_path / "empty"
    folder.mkdir()
    project = Project(folder)
    project.places.state.mkdir()
    with served(project) as url:
        seen = browsing.watched(browser)
        page = seen.page
        page.goto(link(project, url))
        page.wait_for_selector("#health")
        assert "Nothing is deployed" in page.inner_text("main")
        for path in PAGES[3:]:
            if path.startswith("/live/"):
                continue
            page.goto(url + path)
            page.wait_for_function("() => !document.body.innerText.includes('Loading…')")
            assert browsing.overflow(page) <= 0
        page.goto(url + "/live/nothing")
        page.wait_for_selector(".card.bad")
        assert "No live table" in page.inner_text("#problem")
        page.context.close()


def test_kafka_lag_is_shown_and_updated(tmp_path: Path, browser: Browser) -> None:
    project = hostile(tmp_path / "project")

    def looked(read: int, **more: Any) -> None:
        parts = (PartitionLag("logs", 0, read, 0, 9_000, 90.0, 3600.0),
                 PartitionLag("logs", 1, 50, 0, 50))  # fmt: skip
        found = QueryLag("hello", "counts", time.time(), parts, **more)
        lag.write(project.places, [found])

    looked(2_000, catch_up_s=120.0)
    with served(project) as url:
        seen = browsing.watched(browser)
        page = seen.page
        page.goto(link(project, url))
        page.goto(f"{url}/pipelines/hello")
        row = page.locator("h2:has-text('Kafka lag') + * tr", has_text="counts").first
        row.wait_for()
        cells = row.inner_text()
        assert "7,000" in cells
        assert "2 min" in cells
        assert "59 min" in cells or "58 min" in cells, "until the broker deletes the oldest"
        page.click("summary:has-text('2 partitions')")
        assert "logs 0" in page.inner_text("#parts-counts")

        looked(8_999)
        page.wait_for_function("() => !document.body.innerText.includes('7,000')")
        assert page.locator("#parts-counts[open]").count() == 1, "what was opened stays open"
        looked(8_999, problem="127.0.0.1:1 does not answer.")
        page.wait_for_selector("text=127.0.0.1:1 does not answer.")
        seen.check()
        page.context.close()


def test_a_failed_request_keeps_the_content_and_recovers(tmp_path: Path, browser: Browser) -> None:
    """With errors that the browser injects in place of the server's responses."""
    project = hostile(tmp_path / "project")
    body = '{"error": {"slug": "store", "what": "The store is locked."}}'

    def fail(route: Route) -> None:
        route.fulfill(status=503, content_type="application/json", body=body)

    with served(project) as url:
        page = browsing.watched(browser).page
        page.goto(link(project, url))
        page.goto(f"{url}/pipelines/hello")
        page.wait_for_selector("h1 + .state")

        for path, place in (("hello/history", "#chart-note"), ("hello", "#problem")):
            page.route(f"**/api/pipelines/{path}*", fail)
            page.wait_for_selector(f"{place} .card.bad")
            assert "The store is locked." in page.inner_text(place)
            assert page.locator("h1 + .state").count() == 1, "what was there stays"
            page.unroute(f"**/api/pipelines/{path}*")
            page.wait_for_selector(f"{place} .card.bad", state="detached")
        page.context.close()


def test_changed_settings_end_the_process_and_invalid_ones_do_not(tmp_path: Path) -> None:
    """The supervisor then starts it with the new settings."""
    project = hostile(tmp_path / "project")
    toml, good = project.folder / "headrace.toml", '[project]\nname = "other"\n'
    with served(project) as url:
        answer = read_json(project.places.web) or {}
        process = psutil.Process(int(answer["pid"]))
        toml.write_text("[project")
        time.sleep(2 * main.SETTINGS_S + 1)
        assert httpx2.get(f"{url}/healthz").status_code == 200
        toml.write_text(good)
        assert process.wait(30) == 0


SHORT_TIMEOUTS = """
import sys
from headrace.web import main, timeouts
timeouts.HEAD_S = timeouts.BODY_S = 1.0
sys.exit(main.main(sys.argv[1:]))
"""


def test_a_client_that_does_not_send_its_request_is_disconnected(tmp_path: Path) -> None:
    """Nothing, half a head, half a body; other requests are served meanwhile."""
    project = hostile(tmp_path / "project")
    command = (sys.executable, "-c", SHORT_TIMEOUTS, str(project.folder))
    half = b"POST /login HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
    with served(project, command) as url:
        host = url.removeprefix("http://")
        address, port = host.split(":")
        first = half.replace(b"{}", host.encode())
        for said in (b"", first, first + b"Content-Length: 50\r\n\r\n{"):
            with socket.create_connection((address, int(port)), 10) as slow:
                slow.sendall(said)
                assert httpx2.get(f"{url}/healthz").status_code == 200
                slow.settimeout(10)
                while slow.recv(4096):  # an answer or none, but then the end
                    pass
        with httpx2.Client(base_url=url) as kept:
            for _ in range(3):  # one connection, longer than that in all
                assert kept.get("/healthz").status_code == 200
                time.sleep(0.6)


def test_without_a_login_the_page_explains_how_to_get_one(tmp_path: Path, browser: Browser) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder)
    project.places.state.mkdir()
    with served(project) as url:
        page = browsing.watched(browser).page
        page.goto(url)
        assert "headrace token" in page.inner_text("main")
        secret = api_keys.make(project.places, KeyKind.LOGIN, "tester", Role.VIEW, time.time(), 600)
        page.fill("#token", secret)
        page.click("button:text-is('Log in')")
        page.wait_for_selector("#health")
        assert "token" not in page.url
        page.click("#logout")
        page.wait_for_selector("#token")
        page.context.close()


def test_a_session_that_ended_shows_the_login_and_no_stale_data(
    tmp_path: Path, browser: Browser
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder)
    project.places.state.mkdir()
    project.deployed()
    with served(project) as url:
        page = browsing.watched(browser).page
        page.goto(link(project, url))
        page.wait_for_selector("[data-pipeline=hello]")
        assert page.url == f"{url}/", "no key stays in the address"
        page.evaluate("localStorage.removeItem('proof')")  # the cookie alone is half a login
        page.reload()
        page.wait_for_selector("#token", timeout=20_000)
        page.goto(link(project, url))
        page.wait_for_selector("[data-pipeline=hello]")
        api_keys.revoke_all(project.places)
        page.wait_for_selector("#token", timeout=20_000)
        page.context.close()
