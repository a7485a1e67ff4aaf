"""Alerts in a real Chromium, with a real supervisor, relay and HTTP service; drivers without Spark.

tests/web/test_alert_pages.py shows the pages themselves.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser

import browsing
from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.model.requests import Action
from headrace.state import api_keys, page
from headrace.state.api_keys import KeyKind, Role
from headrace.store import alerts, audit, db, deliveries, silences
from headrace.store.alerts import StoredAlert
from supervisor.conftest import LIMITS, Project, until

pytestmark = pytest.mark.e2e


@dataclass
class Pager:
    """PagerDuty on loopback."""

    got: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, received: Received) -> Reply:
        self.got.append(received.json())
        return reply_as_service(received)

    def triggers(self, pipeline: str) -> int:
        mine = [one for one in self.got if one["dedup_key"].endswith(f"needs-attention:{pipeline}")]
        return sum(one["event_action"] == "trigger" for one in mine)


@dataclass
class Paged:
    """`orders` has failed, and the alert was sent."""

    project: Project
    pager: Pager
    url: str

    def alert(self, number: int) -> StoredAlert | None:
        with closing(db.open_readonly(self.project.places.alerts)) as conn:
            return alerts.by_id(conn, number)

    def open_ids(self, pipeline: str) -> list[int]:
        with closing(db.open_readonly(self.project.places.alerts)) as conn:
            found = alerts.list_alerts(conn, pipeline=pipeline)
        return [one.id for one in found if one.rule == "needs-attention"]

    def sent(self, number: int) -> list[str]:
        with closing(db.open_readonly(self.project.places.alerts)) as conn:
            found = deliveries.of_alert(conn, number)
        return [one.kind for one in found if one.state == "sent"]

    def open_page(self, browser: Browser, path: str, role: Role = Role.OPERATE) -> browsing.Watched:
        places = self.project.places
        secret = api_keys.make(places, KeyKind.LOGIN, "ann", role, time.time(), 600)
        seen = browsing.watched(browser)
        seen.page.goto(f"{self.url}{path}?token={secret}")
        return seen


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as found:
        yield found


@pytest.fixture
def paged(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paged]:
    monkeypatch.setenv("HEADRACE_WEB", "on")
    monkeypatch.setenv("PAGERDUTY_KEY", "0123456789abcdef0123456789abcdef")
    pager = Pager()
    with Receiver(pager) as receiver:
        channel = '[notify.pager]\nkind = "pagerduty"\nrouting_key = "${env:PAGERDUTY_KEY}"\n'
        toml = f'{LIMITS}\n{channel}url = "{receiver.url}"\nrules = ["needs-attention"]\n'
        (project.path / "headrace.toml").write_text(toml)
        project.behave(orders={"mode": "fail"})
        project.supervise()
        project.deploy("orders")
        found = until(lambda: page.listening(project.places), 60, "the page listens")
        paged = Paged(project, pager, found.url.rstrip("/"))
        until(lambda: pager.triggers("orders"), what="the notice")
        until(lambda: paged.sent(paged.open_ids("orders")[0]), what="its delivery is recorded")
        yield paged


def test_an_alert_is_acknowledged_and_its_delivery_log_shows_what_was_sent(
    paged: Paged, browser: Browser
) -> None:
    (number,) = paged.open_ids("orders")
    seen = paged.open_page(browser, "/alerts")
    page = seen.page
    page.click(f"#acknowledge-{number}")
    page.wait_for_selector(f"[data-alert='{number}'] [data-state=acknowledged]")
    shown = page.inner_text(f"[data-alert='{number}'] [data-state]")
    result = page.inner_text("#acted")
    still_there = page.locator(f"#acknowledge-{number}").count()
    page.click(f"#alert-{number}")
    page.wait_for_selector("#delivery-log td")
    log = page.inner_text("#delivery-log")
    facts = page.inner_text("#facts")
    seen.check()
    page.context.close()

    stored = paged.alert(number)
    assert stored is not None
    assert stored.acknowledged_by == "ann (page)"
    assert shown == "acknowledged by ann (page)"
    assert f"alert {number} is acknowledged" in result
    assert still_there == 0
    for text in ("pager", "trigger", "sent", "202"):
        assert text in log
    assert "headrace start orders" in facts
    assert "Does not restart the pipeline." in facts
    with closing(db.open_readonly(paged.project.places.history)) as conn:
        done = [(one.by, one.what) for one in audit.list_entries(conn)]
    assert ("ann (page)", "acknowledge") in done


def test_a_silenced_pipeline_sends_no_notice_until_the_silence_ends(
    paged: Paged, browser: Browser
) -> None:
    (number,) = paged.open_ids("orders")
    seen = paged.open_page(browser, "/alerts")
    page = seen.page
    page.click(f"#silence-{number}")
    page.click("#silence-yes")  # the reason is missing: the browser says so
    assert page.locator("#dialog[open]").count() == 1
    page.get_by_label("All alerts of pipeline orders").check()
    page.get_by_label("4 hours").check()
    page.fill("#silence-reason", "moving the <b>source</b>")
    page.click("#silence-yes")
    page.wait_for_selector("#dialog:not([open])", state="attached")
    page.wait_for_selector(f"[data-alert='{number}'] [data-state=silenced]")
    listed = page.inner_text("section[aria-labelledby=silences]")
    with closing(db.open_readonly(paged.project.places.alerts)) as conn:
        (silence,) = silences.list_silences(conn, time.time())

    assert (silence.pipeline, silence.query, silence.rule) == ("orders", None, "*")
    assert (silence.by, silence.reason) == ("ann (page)", "moving the <b>source</b>")
    assert 4 * 3600 - 120 < silence.until - time.time() <= 4 * 3600
    assert "moving the <b>source</b>" in listed

    paged.project.behave()
    paged.project.ask(Action.START, "orders")
    until(lambda: not paged.open_ids("orders"), what="the alert is resolved")
    paged.project.behave(orders={"mode": "fail"}, payments={"mode": "fail"})
    paged.project.ask(Action.RESTART, "orders")
    (again,) = until(lambda: paged.open_ids("orders"), what="another alert")
    page.wait_for_selector(f"[data-alert='{again}'] [data-state=silenced]")
    # A page of another pipeline shows that the channel works, and comes after any earlier one.
    paged.project.deploy("payments")
    until(lambda: paged.pager.triggers("payments"), what="the page of payments")
    assert paged.sent(again) == []
    assert paged.pager.triggers("orders") == 1

    page.click(f"#end-{silence.id}")
    page.wait_for_selector(f"[data-alert='{again}'] [data-state=open]")
    until(lambda: paged.sent(again), what="it is still open, so it is sent now")
    seen.check()
    page.context.close()


def test_what_others_do_shows_at_once_and_a_channel_can_be_tested(
    paged: Paged, browser: Browser
) -> None:
    (number,) = paged.open_ids("orders")
    seen = paged.open_page(browser, "/alerts")
    page = seen.page
    page.wait_for_selector(f"[data-alert='{number}'] [data-state=open]")
    command = [sys.executable, "-m", "headrace", "--project", str(paged.project.path)]
    subprocess.run([*command, "alerts", "ack", str(number)], check=True, timeout=60)
    page.wait_for_selector(f"[data-alert='{number}'] [data-state=acknowledged]", timeout=20_000)
    shown = page.inner_text(f"[data-alert='{number}'] [data-state]")

    before = len(paged.pager.got)
    page.click("#test-pager")
    page.wait_for_selector("#acted:has-text('pager accepted the test')")
    result = page.inner_text("#acted")
    seen.check()
    page.context.close()

    assert "(command line)" in shown
    assert "trigger: 202" in result
    assert "resolve: 202" in result
    tests = [one for one in paged.pager.got[before:] if ":test:" in one["dedup_key"]]
    assert [one["event_action"] for one in tests] == ["trigger", "resolve"]
