"""Acknowledge and silence by command: real supervisor, relay and HTTP, with fake drivers."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.cli.main import main
from headrace.model.requests import Action
from headrace.state import supervisor_lookup
from headrace.store import audit, db
from supervisor.conftest import LIMITS, Project, until

pytestmark = pytest.mark.e2e


class Service:
    """PagerDuty and a heartbeat on loopback."""

    def __init__(self) -> None:
        self.got: list[Received] = []

    def __call__(self, received: Received) -> Reply:
        self.got.append(received)
        return reply_as_service(received)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [one.json() for one in self.got if one.method == "POST"]

    @property
    def actions(self) -> list[str]:
        return [event["event_action"] for event in self.events]

    @property
    def pings(self) -> int:
        return sum(one.method == "GET" for one in self.got)


def headrace(project: Project, *command: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["--project", str(project.path), *command, "--json"])
    assert done.exit_code == 0, done.output
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def test_a_person_acknowledges_and_silences_alerts(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGERDUTY_KEY", "0123456789abcdef0123456789abcdef")
    service = Service()
    with Receiver(service) as receiver:
        pager = '[notify.pager]\nkind = "pagerduty"\nrouting_key = "${env:PAGERDUTY_KEY}"\n'
        alive = '[notify.alive]\nkind = "heartbeat"\nevery = 1\n'
        settings = f'{pager}url = "{receiver.url}"\n{alive}url = "{receiver.url}/ping"\n'
        (project.path / "headrace.toml").write_text(f"{LIMITS}\n{settings}")
        project.behave(orders={"mode": "fail"}, payments={"mode": "fail"})
        project.supervise()
        project.deploy("orders")
        until(lambda: service.actions == ["trigger"], what="a page")
        until(lambda: service.pings >= 2, what="pings")

        (alert,) = headrace(project, "alerts", "list")["alerts"]
        told = headrace(project, "alerts", "ack", str(alert["id"]))
        until(lambda: service.actions == ["trigger", "acknowledge"], what="PagerDuty knows")
        (alert,) = headrace(project, "alerts", "list")["alerts"]
        assert told == {"text": f"alert {alert['id']} is acknowledged"}
        assert alert["acknowledged_by"].endswith("command line)")

        arguments = ("--pipeline", "*", "--for", "1h", "--reason", "upgrade")
        headrace(project, "alerts", "silence", *arguments)
        project.deploy("payments")
        until(lambda: len(headrace(project, "alerts", "list")["alerts"]) == 2, what="an alert")
        late = headrace(project, "alerts", "list")["alerts"][0]
        assert late["silenced_until"] > time.time() + 3_000

        def logged() -> list[dict[str, Any]]:
            found = headrace(project, "alerts", "show", str(late["id"]))["deliveries"]
            return found if isinstance(found, list) else []

        until(logged, what="the delivery log")
        assert logged()[0]["reply"].startswith("silenced by ")
        (known,) = headrace(project, "alerts", "silences")["silences"]
        headrace(project, "alerts", "unsilence", str(known["id"]))
        until(lambda: len(service.events) == 3, what="the page after the silence")
        project.behave()
        project.ask(Action.START, "orders")
        until(lambda: len(service.events) == 4, what="the end of the first page")

    assert service.actions == ["trigger", "acknowledge", "trigger", "resolve"]
    keys = [event["dedup_key"] for event in service.events]
    assert keys[0] == keys[1] == keys[3] != keys[2]
    entries = db.read(project.places.history, audit.list_entries) or []
    by_request = {entry.what: entry.text for entry in entries}
    assert by_request.keys() >= {"acknowledge", "silence", "end_silence"}
    assert by_request["end_silence"] == f"silence {known['id']} has ended"


def test_a_supervisor_that_hangs_no_longer_marks_that_it_works(project: Project) -> None:
    """The age of the mark decides about pings."""
    child = project.supervise()

    def marked_at() -> float:
        return project.places.supervisor_process.stat().st_mtime

    first = marked_at()
    until(lambda: marked_at() > first, what="another mark")
    os.kill(child.pid, signal.SIGSTOP)
    try:
        until(
            lambda: (supervisor_lookup.seconds_since_alive(project.places, time.time()) or 0) > 3,
            what="an old mark",
        )
        last = marked_at()
        assert time.time() - last > 3
    finally:
        os.kill(child.pid, signal.SIGCONT)
    until(lambda: marked_at() > last, what="a mark of the supervisor that works again")
