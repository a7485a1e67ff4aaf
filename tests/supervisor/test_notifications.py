"""Who is notified of what: real supervisor, relay and HTTP, with fake drivers."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import closing
from typing import Any

import pytest

from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.model.requests import Action
from supervisor.conftest import LIMITS, Project, until

pytestmark = pytest.mark.e2e


class Pager:
    """PagerDuty on loopback: keeps each event and when it came."""

    def __init__(self) -> None:
        self.got: list[tuple[float, dict[str, Any]]] = []

    def __call__(self, received: Received) -> Reply:
        self.got.append((time.time(), received.json()))
        return reply_as_service(received)

    @property
    def actions(self) -> list[str]:
        return [event["event_action"] for _, event in self.got]


def notify(project: Project, url: str, monkeypatch: pytest.MonkeyPatch, more: str = "") -> None:
    monkeypatch.setenv("PAGERDUTY_KEY", "0123456789abcdef0123456789abcdef")
    channel = '[notify.pager]\nkind = "pagerduty"\nrouting_key = "${env:PAGERDUTY_KEY}"\n'
    (project.path / "headrace.toml").write_text(f'{LIMITS}\n{channel}url = "{url}"\n{more}')


def test_a_poison_batch_pages_once_and_is_resolved_with_the_same_key(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager = Pager()
    hung = closing(socket.create_server(("127.0.0.1", 0)))  # accepts, and never answers
    port = hung.thing.getsockname()[1]
    slow = f'[notify.slow]\nkind = "slack"\nurl = "http://127.0.0.1:{port}"\n'
    with hung, Receiver(pager) as receiver:
        notify(project, receiver.url, monkeypatch, slow)
        project.behave(orders={"mode": "fail"})
        project.supervise()
        project.deploy("orders")

        until(lambda: pager.got, what="a page")
        assert project.state("orders")[0] == "needs-attention"
        project.behave()
        project.ask(Action.START, "orders")
        until(lambda: len(pager.got) > 1, what="the end of the page")

    assert pager.actions == ["trigger", "resolve"]
    (at, opened), (_, resolved) = pager.got
    assert opened["dedup_key"] == resolved["dedup_key"]
    assert opened["payload"]["severity"] == "critical"
    assert "needs attention" in opened["payload"]["summary"]
    details = opened["payload"]["custom_details"]
    assert details["Headrace"] == "Does not restart the pipeline."
    assert "headrace start orders" in details["What to do"]
    assert details["Since"]
    last = project.outcome(project.runs("orders")[2].run)
    assert last is not None
    assert at - last.at < 30, "generous: the machine may be busy; bench measures it"


def test_a_restart_and_a_stop_by_hand_page_nobody(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager = Pager()
    with Receiver(pager) as receiver:
        notify(project, receiver.url, monkeypatch)
        project.supervise()
        project.deploy("orders")
        first = project.one_driver("orders")
        os.kill(first, signal.SIGKILL)
        project.one_driver("orders", beside=first)
        until(lambda: is_recovered(project.recorded("orders")), what="its recovery")
        recorded = project.recorded("orders")
        project.ask(Action.STOP, "orders")
        until(lambda: project.state("orders")[0] == "stopped", what="stopped")
        # A page of another pipeline shows that the channel works, and comes after any earlier one.
        project.behave(payments={"mode": "fail"})
        project.deploy("payments")
        until(lambda: pager.got, what="the page of payments")

    assert ["payments" in event["dedup_key"] for _, event in pager.got] == [True]
    kinds = [kind for kind in recorded if not kind.startswith("alert")]
    failed = ["run_ended", "restart_scheduled", "run_launched"]
    assert kinds == ["deploy_requested", "run_launched", *failed]


def is_recovered(recorded: list[str]) -> bool:
    """It was launched again, and no alert about the failure is open any more."""
    is_open = recorded.count("alert_opened") > recorded.count("alert_resolved")
    return recorded.count("run_launched") == 2 and not is_open
