"""The pages of alerts in a real Chromium, from a real web process: filters, one alert, the dialog
for a silence, keys that may only view, links from other sites."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import browsing
from cli.stage import Project
from headrace.model.alerts import OpenAlert
from headrace.state import api_keys
from headrace.state.api_keys import KeyKind, Role
from headrace.store import alert_changes, alerts, db, deliveries, silences
from headrace.store.deliveries import Delivery, DeliveryState
from headrace.store.silences import Silence
from web.conftest import with_history
from web.serving import served

pytestmark = pytest.mark.e2e

TOML = """
[project]
name = "shop"
[notify.pager]
kind = "pagerduty"
routing_key = "${env:PAGERDUTY_KEY}"
severity = ["critical"]
[notify.team]
kind = "slack"
url = "${env:SLACK_URL}"
pipelines = ["orders-*"]
repeat_every = "30 minutes"
[notify.odd]
kind = "slak"
[notify.alive]
kind = "heartbeat"
url = "${env:PING_URL}"
"""
FIX = "Cast the column to double. Then run `headrace start hello`."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as found:
        yield found


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """Alerts in every state: 1 open (a row), 2 open, 3 acknowledged, 4 silenced, 5 resolved."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "headrace.toml").write_text(TOML)
    project = Project(tmp_path / "shop")
    with_history(project)
    now = time.time()
    data = {"Headrace": "Does not restart the pipeline.", "What to do": FIX}
    with closing(db.open_alerts(project.places.alerts)) as conn:
        for number, (rule, severity) in enumerate(
            [("needs-attention", "critical"), ("restarting", "warning"), ("stalled", "error"),
             ("store", "warning")], 2,
        ):  # fmt: skip
            title = f"Title {number}: the query `kept` has a problem"
            pipeline, query = ("hello", "kept") if rule != "store" else ("", None)
            one = OpenAlert(f"k{number}", rule, pipeline, title, severity, query, data)
            alerts.open_once(conn, one, now - 3600 + number)
        alerts.acknowledge(conn, 3, "ann (command line)", now - 50)
        for end in (now + 7.2 * 3600, now + 3000):
            silence = Silence(0, "hello", "kept", "stalled", "maintenance", "bob", now - 9, end)
            silences.add(conn, silence)
        alerts.resolve(conn, "k5", now - 100)
        changes = {one.alert.id: one for one in alert_changes.read(conn, alert_changes.EVENTS, 10)}
        for channel, at, state, attempts, reply in (
            ("pager", now - 3500, DeliveryState.FAILED, 1, "404 Not Found: no_service"),
            ("team", now - 3400, DeliveryState.SENT, 7, "200 ok"),
        ):
            sent = Delivery(channel, "trigger", "h:k2", state, at, attempts, reply)
            deliveries.record(conn, [changes[2]], sent)
    return project


def link(project: Project, role: Role = Role.OPERATE) -> str:
    return api_keys.make(project.places, KeyKind.LOGIN, "ann", role, time.time(), 600)


def opened(project: Project, browser: Browser, url: str, path: str, role: Role = Role.OPERATE,
           size: tuple[int, int] = browsing.WIDE) -> browsing.Watched:  # fmt: skip
    seen = browsing.watched(browser, size)
    seen.page.goto(f"{url}{path}?token={link(project, role)}")
    loaded(seen.page)
    return seen


def loaded(page: Page) -> None:
    page.wait_for_function("() => !document.body.innerText.includes('Loading…')")
    page.wait_for_selector("#connection.on")


def shown_alerts(page: Page) -> list[str]:
    return [str(one.get_attribute("data-alert")) for one in page.locator("[data-alert]").all()
            if one.evaluate("one => one.tagName") == "LI"]  # fmt: skip


def serious(page: Page) -> list[tuple[str, list[str]]]:
    found = Axe().run(page).response["violations"]
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def test_alerts_are_filtered_and_counted(shop: Project, browser: Browser) -> None:
    with served(shop) as url:
        seen = opened(shop, browser, url, "/alerts")
        page = seen.page
        page.wait_for_selector("#count:has-text('open')")
        assert page.inner_text("#count") == "4 open, 1 acknowledged, 1 silenced"
        assert shown_alerts(page) == ["4", "3", "2", "1"]
        states = [page.inner_text(f"[data-alert='{n}'] [data-state]") for n in "3421"]
        assert states == ["acknowledged by ann (command line)", "silenced for 7 h", "open", "open"]

        for state, wanted in {
            "unacknowledged": ["4", "2", "1"], "acknowledged": ["3"], "silenced": ["4"],
            "resolved": ["5"], "all": ["5", "4", "3", "2", "1"],
        }.items():  # fmt: skip
            page.select_option("#filter-state", state)
            page.wait_for_function(
                "many => document.querySelectorAll('li[data-alert]').length === many",
                arg=len(wanted),
            )
            assert shown_alerts(page) == wanted
        page.select_option("#filter-severity", "warning")
        page.wait_for_function("() => document.querySelectorAll('li[data-alert]').length === 2")
        page.select_option("#filter-pipeline", "hello")
        page.wait_for_function("() => document.querySelectorAll('li[data-alert]').length === 1")
        page.reload()
        page.wait_for_selector("li[data-alert='3']")
        assert shown_alerts(page) == ["3"], "the choice is in the address"
        channels = page.inner_text("section[aria-labelledby=channels]")
        assert "severity critical" in channels
        assert "pipelines orders-*; again every 30 min" in channels
        assert "404 Not Found: no_service" in channels
        assert "unknown kind" in channels
        assert "pinged every 60 s while Headrace works" in channels
        seen.check()
        page.context.close()


def test_one_alert_says_what_happened_what_to_do_and_what_was_sent(
    shop: Project, browser: Browser
) -> None:
    with served(shop) as url:
        seen = opened(shop, browser, url, "/alerts/2")
        page = seen.page
        page.wait_for_selector("#facts")
        facts = page.inner_text("#facts").split("\n")
        log = [row.inner_text().split("\t") for row in page.locator("#delivery-log tr").all()]
        page.goto(f"{url}/alerts/1")
        page.wait_for_selector("#facts")
        row = page.inner_text("main")
        page.goto(f"{url}/alerts/99")
        page.wait_for_selector("#problem .card.bad")
        unknown = page.inner_text("#problem")
        seen.complaints = [one for one in seen.complaints if "404" not in one]
        seen.check()
        page.context.close()

    headings = ["What happened", "Since", "What Headrace does", "What to do", "Query", "Rule"]
    assert [one for one in facts if one in headings] == headings
    assert "Cast the column to double. Then run headrace start hello." in facts
    assert log[0] == ["time", "channel", "notice", "state", "attempts", "reply"]
    assert log[1][1:] == ["team", "trigger", "sent", "7", "200 ok"]
    assert log[2][1:] == ["pager", "trigger", "failed", "1", "404 Not Found: no_service"]
    assert "This alert was not sent to any channel." in row
    assert "Alert 99 does not exist." in unknown


def test_a_key_that_may_only_view_has_no_buttons(shop: Project, browser: Browser) -> None:
    with served(shop) as url:
        seen = opened(shop, browser, url, "/alerts", Role.VIEW)
        page = seen.page
        page.wait_for_selector("[data-channel=pager]")
        assert page.locator("main button").count() == 0
        page.goto(f"{url}/alerts/2")
        page.wait_for_selector("#facts")
        assert page.locator("main button").count() == 0
        seen.check()
        page.context.close()


def test_the_pages_fit_are_accessible_and_work_with_the_keyboard(
    shop: Project, browser: Browser
) -> None:
    with served(shop) as url:
        seen = opened(shop, browser, url, "/alerts")
        page = seen.page
        for size, scheme in (
            (browsing.WIDE, "light"), (browsing.WIDE, "dark"), (browsing.NARROW, "light")
        ):  # fmt: skip
            page.set_viewport_size({"width": size[0], "height": size[1]})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for path, ready in (("/alerts?state=all", "#test-pager"), ("/alerts/2", "#facts")):
                page.goto(url + path)
                page.wait_for_selector(ready)
                assert browsing.overflow(page) <= 0, (path, size)
                assert serious(page) == []
                page.focus("#silence-2")
                page.keyboard.press("Enter")
                page.wait_for_selector("#dialog[open] #silence-form")
                page.get_by_label("Until another time").check()
                page.fill("[name=until]", "2030-01-01T09:00")
                assert "Ends at 2030-01-01" in page.inner_text("#silence-ends")
                assert browsing.overflow(page) <= 0, (path, size)
                assert serious(page) == []
                page.keyboard.press("Escape")
                page.wait_for_selector("#dialog:not([open])", state="attached")
                assert page.evaluate("document.activeElement.id") == "silence-2"
        seen.check()
        page.context.close()


def test_without_a_supervisor_an_action_says_why_it_cannot_be_done(
    shop: Project, browser: Browser
) -> None:
    with served(shop) as url:
        seen = opened(shop, browser, url, "/alerts")
        page = seen.page
        page.click("#acknowledge-2")
        page.wait_for_selector("#acted .card.bad")
        assert "No supervisor is running" in page.inner_text("#acted")
        page.click("#silence-2")
        page.fill("#silence-reason", "maintenance")
        page.click("#silence-yes")
        page.wait_for_selector("#silence-problem .card.bad")
        assert page.locator("#dialog[open]").count() == 1, "what was typed stays"
        page.context.close()


class LinksHere(BaseHTTPRequestHandler):
    """A page of another site, such as a chat, with a link in its query string."""

    def do_GET(self) -> None:
        body = f"<a id=notice href='{self.path.partition('?')[2]}'>notice</a>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_link_in_a_notice_leads_to_its_alert(shop: Project, browser: Browser) -> None:
    """From a page of another site, with which the browser does not send the cookie; and after a
    login has ended."""
    chat = HTTPServer(("127.0.0.1", 0), LinksHere)
    thread = threading.Thread(target=chat.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        with served(shop) as url:
            target = f"{url}/alerts/2?a=1"
            seen = opened(shop, browser, url, "/")
            page = seen.page
            for _ in range(2):  # also a second time in the same tab
                page.goto(f"http://localhost:{chat.server_port}/?{target}")
                page.click("#notice")
                page.wait_for_selector("#facts")
                assert page.url == target

            api_keys.revoke_all(shop.places)
            page.wait_for_selector("#token")
            page.fill("#token", link(shop))
            page.click("button:text-is('Log in')")
            page.wait_for_selector("#facts")
            assert page.url == target
            page.context.close()
    finally:
        chat.shutdown()
        chat.server_close()
        thread.join()


def test_a_login_never_leads_to_another_site(shop: Project, browser: Browser) -> None:
    with served(shop) as url:
        for to in ("//evil.test/", "/.//evil.test/", "https://evil.test/", "http://[",
                   "/\t/evil.test", "javascript:alert(1)", "/login"):  # fmt: skip
            page = browsing.watched(browser).page
            page.goto(f"{url}/login?{urlencode({'to': to})}")
            page.fill("#token", link(shop))
            page.click("button:text-is('Log in')")
            page.wait_for_selector("#token", state="detached")
            assert page.url.startswith(f"{url}/"), to
            page.context.close()
