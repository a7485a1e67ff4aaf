"""Every action of the page in a real Chromium and by a real supervisor; drivers without Spark.

tests/e2e/test_demo.py does the same with a real demo.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

import browsing
from headrace.state import api_keys, desired, page
from headrace.state.api_keys import KeyKind, Role
from headrace.store import audit, db
from supervisor.conftest import Project, until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as found:
        yield found


@pytest.fixture
def shown(
    project: Project, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> Iterator[browsing.Watched]:
    """The page of a pipeline that runs, had an earlier version, and may be acted on."""
    monkeypatch.setenv("HEADRACE_WEB", "on")
    project.behave(orders={"mode": "idle"})
    project.supervise()
    assert project.deploy("orders", "v1").ok
    project.one_driver("orders")
    assert project.deploy("orders", "v2").ok
    until(lambda: project.state("orders")[0] == "running", what="the second version runs")
    seen = opened(project, browser, Role.OPERATE)
    yield seen
    seen.check()
    seen.page.context.close()


def opened(project: Project, browser: Browser, role: Role) -> browsing.Watched:
    found = until(lambda: page.listening(project.places), 30, "the page listens")
    secret = api_keys.make(project.places, KeyKind.LOGIN, "ann", role, time.time(), 60)
    seen = browsing.watched(browser)
    seen.page.goto(f"{found.url}/pipelines/orders?token={secret}")
    seen.page.wait_for_selector("h1 + .state")
    return seen


def shows(page: Page, state: str) -> None:
    page.wait_for_function(
        "wanted => document.querySelector('h1 + .state')?.innerText === wanted",
        arg=state,
        timeout=20_000,
    )


def test_each_action_is_confirmed_done_shown_and_audited(
    project: Project, shown: browsing.Watched
) -> None:
    page = shown.page
    shows(page, "running")

    page.click("#do-stop")
    page.click("dialog >> text=Cancel")
    assert desired.read(project.places, "orders").wanted == "running"  # type: ignore[union-attr]

    page.click("#do-stop")
    assert "end of its batch" in page.inner_text("dialog")
    page.click("#dialog-yes")
    shows(page, "stopped")
    assert "orders" in page.inner_text("#acted"), "the result stays visible"

    page.click("#do-start")
    page.click("#dialog-yes")
    shows(page, "running")

    before = {spec.run for spec in project.runs("orders")}
    page.click("#do-restart")
    page.click("#dialog-yes")
    until(lambda: {s.run for s in project.runs("orders")} - before, what="another run")
    shows(page, "running")

    page.click("#do-rollback")
    page.click("#dialog-yes")
    until(lambda: project.runs("orders")[-1].version == "v1", what="the first version runs")
    shows(page, "running")

    with contextlib.closing(db.open_readonly(project.places.history)) as conn:
        done = [(one.by, one.what) for one in reversed(audit.list_entries(conn, "orders"))]
    assert done[-4:] == [("ann (page)", what) for what in ("stop", "start", "restart", "rollback")]


def test_a_key_with_the_role_view_has_no_buttons(
    project: Project, shown: browsing.Watched, browser: Browser
) -> None:
    other = opened(project, browser, Role.VIEW)

    assert "your key is read-only" in other.page.inner_text("main")
    assert other.page.locator("#do-stop").count() == 0
    other.page.context.close()


def test_a_failure_is_explained_on_the_pipelines_page(
    project: Project, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_WEB", "on")
    project.behave(orders={"mode": "refuse"})
    project.supervise()
    assert project.deploy("orders").ok
    until(lambda: project.state("orders")[0] == "needs-attention", what="it gives up")

    page = opened(project, browser, Role.OPERATE).page

    shows(page, "needs-attention")
    assert page.locator(".card.bad").count() >= 1
    page.context.close()
