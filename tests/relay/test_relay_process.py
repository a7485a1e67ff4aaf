"""The relay as a real process: what it sends, when it is killed, and what it never shows."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.model.alerts import OpenAlert
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db, deliveries
from headrace.store.deliveries import Delivery

pytestmark = pytest.mark.e2e

KEY = "0123456789abcdef0123456789abcdef"
PAGER = '[notify.pager]\nkind = "pagerduty"\nrouting_key = "${env:PLANTED_KEY}"\nurl = "{url}"\n'


def until(condition: Callable[[], Any], what: str, timeout_s: float = 90.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
    return answer


class Project:
    def __init__(self, folder: Path, notify: str) -> None:
        self.folder, self.places = folder, StatePaths(folder / ".headrace")
        self.places.state.mkdir(mode=0o700)
        (folder / "headrace.toml").write_text(notify)
        self.log = folder / "relay.out"

    @contextmanager
    def relay(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "headrace.relay.main", str(self.folder)]
        environment = {**os.environ, "PLANTED_KEY": KEY}
        with (
            self.log.open("ab") as out,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=environment
            ) as child,
        ):
            try:
                yield child
            finally:
                child.communicate(timeout=60)  # it ends when its standard input closes

    def open_alert(self, key: str, title: str = "Load is high", **data: str) -> None:
        with closing(db.open_alerts(self.places.alerts)) as conn:
            alert = OpenAlert(key, "row", "metrics", title, "critical", "hot", data)
            alerts.open_once(conn, alert, time.time())

    def deliveries(self, alert: int = 1) -> list[Delivery]:
        with closing(db.open_alerts(self.places.alerts)) as conn:
            return deliveries.of_alert(conn, alert)


class Pager:
    """PagerDuty on loopback."""

    def __init__(self, before: Callable[[int], Reply | None] = lambda count: None) -> None:
        self.got: list[Received] = []
        self._before = before

    def __call__(self, received: Received) -> Reply:
        self.got.append(received)
        return self._before(len(self.got)) or reply_as_service(received)

    @property
    def keys(self) -> list[str]:
        return [one.json()["dedup_key"] for one in self.got]


def test_a_relay_that_is_killed_after_sending_sends_once_more_with_the_same_key(
    tmp_path: Path,
) -> None:
    victim: list[int] = []

    def kill_first(count: int) -> None:
        """The service has the notice, and the relay cannot record it any more."""
        if count == 1:
            os.kill(victim[0], signal.SIGKILL)

    pager = Pager(kill_first)
    with Receiver(pager) as receiver:
        project = Project(tmp_path, PAGER.replace("{url}", receiver.url))
        project.open_alert("k1")
        with project.relay() as child:
            victim.append(child.pid)
            assert child.wait(90) == -signal.SIGKILL
        assert [one.state for one in project.deliveries()] == []
        with project.relay():
            until(lambda: [one for one in project.deliveries() if one.state == "sent"], "a mark")
        with project.relay():
            project.open_alert("k2")  # shows that the third relay has looked at the first alert
            until(lambda: len(pager.got) >= 3, "the second alert")

    first, again, other = pager.keys
    assert first == again != other


def test_channels_that_misbehave_delay_no_other(tmp_path: Path) -> None:
    pager = Pager()
    hung = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
    rude = Pager(lambda count: Reply(200, b"\0\xff" * 5_000_000))
    away = Pager(lambda count: Reply(307, headers={"Location": "http://127.0.0.1:9/x"}))
    slack = '[notify.{name}]\nkind = "slack"\nurl = "{url}"\n'
    with (
        closing(hung),
        Receiver(pager) as receiver,
        Receiver(rude) as garbage,
        Receiver(away) as redirect,
    ):
        urls = {
            "hung": f"http://127.0.0.1:{hung.getsockname()[1]}",
            "rude": garbage.url,
            "away": redirect.url,
            "refused": "http://127.0.0.1:9",
        }
        tables = [slack.format(name=name, url=url) for name, url in urls.items()]
        tables.append('[notify.wrong]\nkind = "slak"\n')
        tables.append('[notify.missing]\nkind = "slack"\nurl = "${env:NO_SUCH_SECRET}"\n')
        project = Project(tmp_path, "".join([*tables, PAGER.replace("{url}", receiver.url)]))
        project.open_alert("k1")
        with project.relay():
            until(lambda: len(pager.got) == 1, "the first page")
            by: dict[str, Delivery] = {}

            def has_all() -> bool:
                by.update((one.channel, one) for one in project.deliveries())
                return {"pager", "rude", "away", "refused", "missing"} <= by.keys()

            until(has_all, "a delivery of each channel that answers")
            sent_at = time.monotonic()
            project.open_alert("k2")
            until(lambda: len(pager.got) == 2, "the second page")
            took_s = time.monotonic() - sent_at
            until(lambda: "unknown kind" in project.log.read_text(), "a warning in the log")

    log = project.log.read_text()
    assert by["rude"].state == "sent"
    assert len(by["rude"].reply) < 1_000
    assert (by["away"].state, by["refused"].state) == ("failed", "waiting")
    assert "redirects are not followed" in by["away"].reply
    assert by["missing"].reply == "The secret ${env:NO_SUCH_SECRET} is missing."
    assert "channel missing cannot send: The secret ${env:NO_SUCH_SECRET} is missing." in log
    assert took_s < 30, "generous: the machine may be busy"


def test_planted_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    """In the alert, its row, the URL and the replies; not in the one field that carries the key."""
    pager = Pager(lambda count: Reply(400, f"bad key {KEY}, see ?token={KEY}".encode()))
    hook = Pager(lambda count: Reply(503, f"{KEY} try later".encode()) if count == 1 else None)
    with Receiver(pager) as receiver, Receiver(hook) as other:
        tables = PAGER.replace("{url}", receiver.url)
        tables += f'[notify.hook]\nkind = "webhook"\nurl = "{other.url}/${{env:PLANTED_KEY}}"\n'
        project = Project(tmp_path, tables)
        project.open_alert(f"user {KEY}", f"Login with {KEY} failed", row=f"password={KEY}")
        with project.relay():

            def is_settled() -> bool:
                states = {one.channel: str(one.state) for one in project.deliveries()}
                return states == {"pager": "failed", "hook": "sent"}

            until(is_settled, "both channels are done")
            until(lambda: "rejected a notice" in project.log.read_text(), "the log")

    event = pager.got[0].json()
    assert event.pop("routing_key") == KEY
    assert KEY not in str(event)
    assert "[hidden]" in event["payload"]["summary"]
    assert hook.got[1].path == f"/{KEY}"
    assert KEY not in hook.got[1].content.decode()
    assert KEY not in str([one.to_json() for one in project.deliveries()])
    assert KEY not in project.log.read_text()
