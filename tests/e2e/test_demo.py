"""`make demo` whole, in the order of its life, the page in a real Chromium.

Run for a minute, its JVM killed while one looks, and counted; then its project kept up as a
service, the generator beside it: looked at, asked, acted on, and counted again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import browsing
import gone
from e2e import demos, rig
from e2e.demos import PIPELINE
from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.cli import demo_session
from headrace.demo.file_transport import FileTransport
from headrace.demo.log_lines import OVERLOADED, SILENT
from headrace.demo.paths import DemoPaths
from headrace.json_file import read_json
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import open_workspace

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

STATE = f"[data-pipeline={PIPELINE}] .state"
PAGES = (
    "/", "/pipelines/metrics", "/live", "/live/metrics.logins", "/sql", "/alerts?all=1",
    "/quarantine", "/checkpoints", "/audit",
)  # fmt: skip


@dataclass
class Notices:
    """PagerDuty on loopback, through both lives of the demo."""

    url: str = ""
    got: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, received: Received) -> Reply:
        self.got.append(received.json())
        return reply_as_service(received)

    def receive_from(self, folder: Path) -> None:
        (folder / "key").write_text("0123456789abcdef0123456789abcdef")
        channel = (
            '[notify.pager]\nkind = "pagerduty"\n'
            f'routing_key = "${{file:{folder}/key}}"\nurl = "{self.url}"\n'
        )
        toml = folder / "headrace.toml"
        toml.write_text(f"{toml.read_text()}\n{channel}")

    def actions(self, query: str) -> list[str]:
        """What was sent about the demo's cluster, which has one key for all its episodes."""
        key = f"/{query}/{OVERLOADED if query == 'overloaded' else SILENT}"
        return [one["event_action"] for one in self.got if one["dedup_key"].endswith(key)]


@dataclass
class Running:
    """The demo's project with its page."""

    project: rig.Project
    link: str

    @property
    def url(self) -> str:
        return self.link.partition("/?")[0]

    @property
    def places(self) -> StatePaths:
        return StatePaths(self.project.state)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "shop"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def notices() -> Iterator[Notices]:
    """A receiver of one's own, as the demo says how to try it."""
    found = Notices()
    with Receiver(found) as receiver:
        found.url = receiver.url
        yield found


@pytest.fixture(scope="module")
def told(folder: Path, browser: Browser, notices: Notices) -> dict[str, Any]:
    """What the last line of `make demo` says."""
    with demos.demo(folder, "--for", "60s", "--rate", "100", "--json", HEADRACE_WEB="on") as run:
        link = rig.eventually("the link is printed", lambda: printed_link(run.said), 60)
        assert "headrace alerts listen" in run.said
        notices.receive_from(folder)
        rig.eventually("every query has worked", lambda: demos.has_committed(run.project), 150)
        see_it_die(Running(run.project, link), browser)
        said = demos.told(run.ended(600))
        assert "wrote" in run.said
    return said


def printed_link(said: str) -> str | None:
    found = re.search(r"page: (http\S+)", said)
    return found[1] if found else None


def see_it_die(demo: Running, browser: Browser) -> None:
    """A JVM killed while one looks: the page says so, why, and when it is back."""
    seen = browsing.watched(browser)
    page = seen.page
    page.goto(demo.link)
    page.wait_for_selector(STATE)
    assert page.inner_text("#last-failure") == "Nothing has failed in the last seven days."

    os.kill(demo.project.status(PIPELINE)["jvm_pid"], signal.SIGKILL)

    for words in (
        f"() => document.querySelector('{STATE}').innerText !== 'running'",
        "() => document.querySelector('#last-failure').innerText.startsWith('Last failure')",
        f"() => document.querySelector('{STATE}').innerText === 'running'",
    ):
        page.wait_for_function(words, timeout=300_000)
    href = page.get_attribute("#last-failure a", "href")
    loaded(page, f"{demo.url}{href}")
    page.wait_for_selector("#what")
    assert "JVM" in page.inner_text("#what")
    page.fill("#search", "WARN")
    page.wait_for_function("() => document.querySelector('#found').innerText.includes('lines')")
    with page.expect_download() as taken:
        page.click("text=Download all files")
    assert taken.value.suggested_filename.endswith(".zip")
    seen.check()
    page.context.close()


def test_the_demo_loses_and_doubles_nothing_when_its_jvm_is_killed(
    told: dict[str, Any], folder: Path
) -> None:
    demos.assert_nothing_is_wrong(told, folder)
    assert told["restarts"] >= 1


def test_a_healthy_demo_is_never_called_degraded(told: dict[str, Any], folder: Path) -> None:
    found = demos.findings(rig.Project(folder))

    assert {(slug, query) for slug, query in found if slug != demos.BUSY} == set()


@pytest.fixture(scope="module")
def demo(told: dict[str, Any], folder: Path) -> Iterator[Running]:
    """The demo's project, edited, and kept up as anybody's; the generator goes on beside it."""
    project = rig.Project(folder)
    file = next((folder / "pipelines").glob("*.py"))
    file.write_text(file.read_text() + "\n# edited\n")
    module = [sys.executable, "-m", "headrace.demo.generator", str(folder)]
    env = {**os.environ, "HEADRACE_WEB": "on"}
    command = [*module, "--rate", "100", "--seed", "1"]
    places = DemoPaths(folder)
    medium = FileTransport(open_workspace(folder, "dev").settings, places)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as generator:
        try:
            project.headrace("up", env=env)
            rig.eventually("every query has worked", lambda: demos.has_committed(project), 150)
            yield Running(project, project.headrace("token", env=env).split()[-1])
            generator.communicate()  # it ends with its input
            rig.eventually("all is read", lambda: not medium.pending(), 120)
        finally:
            project.headrace("down", code=None)
    assert project.living() == []
    counted = demo_session.count_outputs(medium, places)
    assert counted.is_right, counted


@pytest.fixture(scope="module")
def visit(demo: Running, browser: Browser) -> Iterator[browsing.Watched]:
    """Logged in by a link of `headrace token`."""
    seen = browsing.watched(browser)
    seen.page.goto(demo.link)
    yield seen
    seen.page.context.close()


def loaded(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_function("() => !document.querySelector('main').innerText.includes('Loading…')")
    page.wait_for_selector(".connection.on")


def test_the_first_screen_answers_without_a_click(demo: Running, visit: browsing.Watched) -> None:
    page = visit.page
    page.wait_for_selector("[data-live=logins] b")

    assert "token" not in page.url
    # It has only just started: on a busy machine it has something to catch up with first.
    page.wait_for_function(
        f"""() => document.querySelector('#health').innerText
            .includes('{PIPELINE} is running and keeping up')
          && document.querySelector('[data-pipeline={PIPELINE}] .pace').innerText
            .includes('keeping up')""",
        timeout=300_000,
    )
    assert re.match(r"Last failure: metrics .* ago: .*JVM", page.inner_text("#last-failure"))
    assert "in the last 24 h" in page.inner_text("#health"), "the restart is counted"
    logins = page.inner_text("[data-live=logins] b")
    assert int(logins.replace(",", "")) > 0
    # In one step: it is redrawn with every change.
    bottom = page.evaluate(
        "() => document.querySelector('[data-live=logins]').getBoundingClientRect().bottom"
    )
    assert 0 < bottom < browsing.WIDE[1], "without scrolling"
    visit.check()


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole_wide_narrow_light_and_dark(
    demo: Running, visit: browsing.Watched, path: str
) -> None:
    page = visit.page
    for size, scheme in (
        (browsing.WIDE, "light"),
        (browsing.WIDE, "dark"),
        (browsing.NARROW, "light"),  # how wide it is has nothing to do with its colours
    ):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        loaded(page, demo.url + path)
        if path.startswith("/pipelines"):
            page.wait_for_selector("#chart-rates .main-svg")
        if path.startswith("/live/"):
            page.wait_for_selector("#chart .main-svg")
        assert browsing.overflow(page) <= 0, (path, size)
        if size == browsing.WIDE:
            assert_accessible(page)
    page.set_viewport_size({"width": browsing.WIDE[0], "height": browsing.WIDE[1]})
    visit.check()


def assert_accessible(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    told = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious]
    assert told == []


def test_values_change_by_themselves_within_two_seconds(
    demo: Running, visit: browsing.Watched
) -> None:
    """From the event's own time in the driver's file to the text in the browser. A busy machine
    delays single changes: three quick ones show that nothing else does."""
    page = visit.page
    loaded(page, f"{demo.url}/pipelines/metrics")
    name = "heartbeats"
    page.wait_for_selector(f"tr:has(b:text-is('{name}'))")
    waited: list[float] = []
    while sum(one < 2.0 for one in waited) < 3 and len(waited) < 40:
        shown = int(page.evaluate(BATCHES, name))
        page.wait_for_function(f"([name, was]) => ({BATCHES})(name) > was", arg=[name, shown])
        now = time.time()
        waited.append(now - committed_at(demo.project, name, int(page.evaluate(BATCHES, name))))

    assert sum(one < 2.0 for one in waited) == 3, waited


# The cell of the table of queries that counts its batches.
BATCHES = """name => Number([...document.querySelectorAll('tr')]
  .find(row => row.cells[0].innerText === name).cells[7].innerText.replaceAll(',', ''))"""


def committed_at(project: rig.Project, query: str, batches: int) -> float:
    """When the driver wrote down the so many-th batch of this run."""
    lines = (project.live_run(PIPELINE) / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines if '"progressed"' in line]
    times = [one["at"] for one in events if one.get("query") == query]
    return float(times[batches - 1])


def test_a_question_is_answered_with_its_time_and_as_a_chart(
    demo: Running, visit: browsing.Watched
) -> None:
    page = visit.page
    loaded_sql(page, demo)
    page.fill("#sql", "SELECT level, count(*) AS n FROM metrics GROUP BY level ORDER BY n DESC")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#as-of")

    assert "metrics as of" in page.inner_text("#as-of")
    assert "INFO" in page.inner_text("#answer")
    page.select_option("#kind", "bar")
    page.wait_for_selector("#answer .main-svg")
    assert "q=SELECT" in page.url
    page.fill("#sql", "SELECT * FROM metrix")
    page.click("#ask")
    page.wait_for_selector("#answer .card.bad")
    assert "Did you mean 'metrics'?" in page.inner_text("#answer")
    page.fill("#sql", "SELECT * FROM hear")
    page.locator("#sql").press("End")
    page.keyboard.type("t")
    page.wait_for_selector("#suggestions button")
    visit.complaints.clear()  # the browser tells of the 400 that was asked for


def loaded_sql(page: Page, demo: Running) -> None:
    page.goto(f"{demo.url}/sql")
    page.wait_for_selector("details")


def test_the_history_zooms_together_and_has_a_shared_address(
    demo: Running, visit: browsing.Watched
) -> None:
    page = visit.page
    loaded(page, f"{demo.url}/pipelines/metrics?range=1h&query=history")
    page.wait_for_selector("#chart-phases .main-svg")

    assert page.input_value("#query") == "history"
    assert page.get_attribute("#range-1h", "aria-pressed") == "true"
    page.click("#range-15m")
    page.wait_for_function("() => document.querySelector('#range-15m').ariaPressed === 'true'")
    assert "range=15m" in page.url
    page.wait_for_selector("#chart-rates .main-svg")
    zoomed = page.evaluate(
        """async () => {
          const one = document.getElementById('chart-rates');
          const two = document.getElementById('chart-phases');
          const [from, to] = one.layout.xaxis.range.map((v) => new Date(v).getTime());
          const middle = [new Date(from + (to - from) / 4), new Date(to - (to - from) / 4)];
          await window.Plotly.relayout(one, {'xaxis.range': middle});
          await new Promise((done) => setTimeout(done, 500));
          return [one, two].map((c) => c.layout.xaxis.range.map((v) => new Date(v).getTime()));
        }"""
    )
    assert zoomed[0] == zoomed[1]
    page.go_back()
    page.wait_for_function("() => document.querySelector('#range-1h')?.ariaPressed === 'true'")
    visit.check()


def test_keys_go_to_pages_and_back_works(demo: Running, visit: browsing.Watched) -> None:
    page = visit.page
    loaded(page, demo.url)
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/alerts")
    page.go_back()
    page.wait_for_selector("#health")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    visit.check()


def test_a_page_whose_process_died_says_so_and_heals(
    demo: Running, visit: browsing.Watched
) -> None:
    page = visit.page
    loaded(page, demo.url)
    told = read_json(demo.places.web)
    assert told is not None

    psutil.Process(int(told["pid"])).kill()

    page.wait_for_selector(".connection.lost", timeout=60_000)
    page.wait_for_selector(".connection.on", timeout=180_000)
    page.wait_for_function("() => document.querySelector('#notice').hidden")
    assert demo.project.status(PIPELINE)["state"] == "running", "no pipeline noticed"
    visit.complaints.clear()  # the browser tells of what could not be reached


def test_every_listener_is_of_this_machine_only(demo: Running) -> None:
    """Web, Spark, block managers: the whole tree of processes."""
    mine = [*psutil.Process().children(recursive=True), *demo.project.marked()]
    listening = [
        (one.pid, found.laddr.ip)
        for one in gone.alive(mine)
        for found in one.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN
    ]

    assert listening
    outside = [one for one in listening if one[1] not in ("127.0.0.1", "::1", "::ffff:127.0.0.1")]
    assert outside == []


def test_each_action_is_asked_for_confirmed_done_and_written_down(
    demo: Running, visit: browsing.Watched
) -> None:
    page, project = visit.page, demo.project
    loaded(page, f"{demo.url}/pipelines/metrics")
    shows(page, "running")
    before = project.status(PIPELINE)

    act(page, "restart")
    rig.eventually("another run", lambda: project.status(PIPELINE)["run"] != before["run"], 90)
    shows(page, "running")
    act(page, "stop")
    shows(page, "stopped")
    assert project.status(PIPELINE)["jvm_pid"] is None
    act(page, "start")
    shows(page, "running")
    assert project.status(PIPELINE)["version"] == before["version"]
    act(page, "rollback")
    rig.eventually(
        "an older version", lambda: project.status(PIPELINE)["version"] != before["version"], 90
    )
    shows(page, "running")

    loaded(page, f"{demo.url}/audit")
    for what in ("restart", "stop", "start", "rollback"):
        assert re.search(rf"\(page\)\s+{what}\s+metrics", page.inner_text("main"))
    visit.check()


@pytest.mark.parametrize("query", ["overloaded", "silent"])
def test_an_alert_of_the_demo_opens_and_is_resolved_with_one_key(
    demo: Running, notices: Notices, query: str
) -> None:
    rig.eventually(f"{query} ends", lambda: "resolve" in notices.actions(query), 240)

    actions = notices.actions(query)
    assert actions == [["trigger", "resolve"][n % 2] for n in range(len(actions))]
    for rule in ("needs-attention", "restarting", "run-failed"):
        keys = [one["dedup_key"] for one in notices.got if rule in one["dedup_key"]]
        assert keys == [], "neither the kill nor the stop by hand pages anyone"


def act(page: Page, what: str) -> None:
    page.click(f"#do-{what}")
    page.click("#dialog-yes")


def shows(page: Page, state: str) -> None:
    page.wait_for_function(
        "wanted => document.querySelector('h1 + .state')?.innerText === wanted",
        arg=state,
        timeout=300_000,
    )
