"""The threads of the channels: settings that change, acknowledgements and heartbeats."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.alerts.notifiers.heartbeat import Heartbeat
from headrace.model.alerts import OpenAlert
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay import acknowledgements, channel_thread, heartbeats
from headrace.relay.acknowledgements import KEYS_MAX, choose_keys
from headrace.relay.channels import Channels
from headrace.relay.heartbeats import HeartbeatThread
from headrace.state import supervisor_lookup
from headrace.store import alerts, db, silences
from headrace.store.alerts import StoredAlert
from headrace.store.silences import Silence

KEY = "0123456789abcdef0123456789abcdef"


def until(condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
    return answer


class Service:
    """Keeps what it gets; answers GET with `api`."""

    def __init__(self) -> None:
        self.got: list[Received] = []
        self.api: Reply | None = None

    def __call__(self, received: Received) -> Reply:
        self.got.append(received)
        is_asked = received.method == "GET" and self.api is not None
        return self.api if is_asked and self.api else reply_as_service(received)

    @property
    def actions(self) -> list[str]:
        posts = [one.json() for one in self.got if one.method == "POST"]
        return [one.get("event_action") or one["kind"] for one in posts]


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channels]:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    monkeypatch.setenv("PLANTED_TOKEN", "t0ken-for-the-api")
    monkeypatch.setattr(acknowledgements, "EVERY_S", 0.1)
    monkeypatch.setattr(channel_thread, "IDLE_S", 0.1)
    made = Channels()
    yield made
    made.close()


def work(folder: Path, notify: str) -> Workspace:
    (folder / "headrace.toml").write_text(notify)
    StatePaths(folder / ".headrace").state.mkdir(mode=0o700, exist_ok=True)
    return open_workspace(folder, "dev")


def hook(name: str, url: str) -> str:
    return f'[notify.{name}]\nkind = "webhook"\nurl = "{url}"\n'


def opened(folder: Path, key: str = "k1", severity: str = "critical", at: float = 0.0) -> None:
    with closing(db.open_alerts(folder / ".headrace/alerts.db")) as conn:
        alert = OpenAlert(key, "row", "metrics", f"Load of {key}", severity, "hot")
        alerts.open_once(conn, alert, at or time.time())


def stored(folder: Path, number: int = 1) -> StoredAlert:
    with closing(db.open_alerts(folder / ".headrace/alerts.db")) as conn:
        found = alerts.by_id(conn, number)
    assert found is not None
    return found


def test_a_mistake_in_one_channel_stops_no_other(tmp_path: Path, channels: Channels) -> None:
    service = Service()
    with Receiver(service) as receiver:
        good, bad = hook("good", receiver.url), '[notify.bad]\nkind = "slak"\n'
        problems = channels.tick(work(tmp_path, bad + good))
        opened(tmp_path)
        until(lambda: service.actions == ["trigger"], "a notice")

        assert problems == ["[notify.bad] has an unknown kind: 'slak'."]
        broken = work(tmp_path, bad + good.replace("webhook", "webhok"))
        assert len(channels.tick(broken)) == 2
        opened(tmp_path, "k2")
        until(lambda: len(service.actions) == 2, "a notice of the last valid settings")

        repaired = work(tmp_path, hook("bad", receiver.url) + good)
        assert channels.tick(repaired) == []
        until(lambda: len(service.actions) == 4, "what is open, to the repaired channel")
        channels.tick(work(tmp_path, good))
        opened(tmp_path, "k3")
        until(lambda: len(service.actions) == 5, "a notice to the one that is left")


def test_a_silence_that_a_person_ends_sends_what_is_open(
    tmp_path: Path, channels: Channels
) -> None:
    service, now = Service(), time.time()
    with Receiver(service) as receiver:
        channels.tick(work(tmp_path, hook("good", receiver.url)))
        with closing(db.open_alerts(tmp_path / ".headrace/alerts.db")) as conn:
            one = Silence(0, "metrics", None, "*", "upgrade", "ann", now - 1, now + 3_600)
            number = silences.add(conn, one)
            opened(tmp_path)
            opened(tmp_path, "k2")
            sql = "SELECT count(*) FROM deliveries WHERE state = 'silenced'"
            until(lambda: conn.execute(sql).fetchone()[0] == 2, "both are silenced")
            assert service.got == []

            silences.end(conn, number, time.time())
            until(lambda: service.actions == ["trigger"] * 2, "both notices")


def incidents(at: float, name: str = "Ann") -> Reply:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    person = {"at": when, "acknowledger": {"type": "user_reference", "summary": name}}
    return Reply.of_json({"incidents": [{"status": "acknowledged", "acknowledgements": [person]}]})


def test_acknowledging_in_pagerduty_acknowledges_here(tmp_path: Path, channels: Channels) -> None:
    service, team = Service(), Service()
    service.api = Reply.of_json({"incidents": []})
    with Receiver(service) as receiver, Receiver(team) as other:
        pager = (
            '[notify.pager]\nkind = "pagerduty"\nrouting_key = "${env:PLANTED_KEY}"\n'
            f'url = "{receiver.url}"\napi_url = "{receiver.url}"\n'
            'api_token = "${env:PLANTED_TOKEN}"\n'
        )
        channels.tick(work(tmp_path, pager + hook("team", other.url)))
        opened(tmp_path, severity="warning")
        until(lambda: any(one.method == "GET" for one in service.got), "a question")
        assert stored(tmp_path).acknowledged_by is None

        service.api = incidents(time.time() + 5)
        until(lambda: stored(tmp_path).acknowledged_by, "the acknowledgement")
        until(lambda: team.actions == ["trigger", "acknowledge"], "the others know")
        assert stored(tmp_path).acknowledged_by == "pagerduty: Ann"
        assert team.got[1].json()["by"] == "pagerduty: Ann"
        assert service.actions == ["trigger"], "PagerDuty knows"

        service.api = incidents(time.time() - 3_600)  # of the milder alert
        opened(tmp_path, severity="critical")
        until(lambda: service.actions == ["trigger"] * 2, "the second notice")
        count = len(service.got)
        until(lambda: len(service.got) > count + 3, "further questions")
        assert stored(tmp_path).acknowledged_by is None


def test_a_service_that_refuses_the_token_is_a_problem_and_delays_nothing(
    tmp_path: Path, channels: Channels
) -> None:
    service = Service()
    service.api = Reply(401, b"bad token t0ken-for-the-api")
    with Receiver(service) as receiver:
        current = work(
            tmp_path,
            '[notify.pager]\nkind = "pagerduty"\nrouting_key = "${env:PLANTED_KEY}"\n'
            f'url = "{receiver.url}"\napi_url = "{receiver.url}"\n'
            'api_token = "${env:PLANTED_TOKEN}"\n',
        )
        channels.tick(current)
        opened(tmp_path)
        problems = until(lambda: channels.tick(current), "a problem")
        opened(tmp_path, "k2")
        until(lambda: service.actions == ["trigger"] * 2, "both notices")

    (problem,) = problems
    assert problem.startswith("acknowledgements in pager cannot be read: 401 Unauthorized")
    assert "t0ken" not in problem


def test_each_key_is_asked_in_its_turn() -> None:
    keys = [f"k{number:03}" for number in range(50)]
    asked: list[str] = []

    for _ in range(3):
        asked += choose_keys(list(reversed(keys)), asked[-1] if asked else "")

    assert len(asked) == 3 * KEYS_MAX
    assert set(asked[:50]) == set(keys)
    assert choose_keys([], "k1") == []
    assert choose_keys(["a"], "z") == ["a"]


@pytest.fixture
def places(tmp_path: Path) -> StatePaths:
    found = StatePaths(tmp_path / ".headrace")
    found.state.mkdir()
    return found


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pings_stop_when_the_supervisor_hangs_and_go_on_afterwards(
    places: StatePaths, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "RETRY_S", 0.05)
    service = Service()
    places.supervisor_process.write_text("{}")

    def mark(age_s: float) -> None:
        at = time.time() - age_s
        os.utime(places.supervisor_process, (at, at))

    with Receiver(service) as receiver:
        thread = HeartbeatThread("alive", Heartbeat(f"{receiver.url}/x", 1, method), places)
        try:
            until(lambda: len(service.got) >= 2, "pings")
            mark(heartbeats.HUNG_S + 5)
            until(lambda: thread.problem, "no ping")
            count = len(service.got)
            assert thread.problem == "the supervisor is not working, so no ping is sent"
            supervisor_lookup.mark_alive(places)
            until(lambda: len(service.got) > count, "a ping")
            until(lambda: thread.problem is None, "no problem")
            places.supervisor_process.unlink()
            until(lambda: thread.problem, "no ping without a supervisor")
        finally:
            thread.end()

    assert {(one.method, one.path, one.content) for one in service.got} == {(method, "/x", b"")}


def test_a_ping_that_fails_is_tried_again(
    places: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "RETRY_S", 0.05)
    places.supervisor_process.write_text("{}")
    replies = [Reply(503), Reply(404)]

    with Receiver(lambda _: replies.pop(0) if replies else Reply()) as receiver:
        thread = HeartbeatThread("alive", Heartbeat(receiver.url, "1 hour"), places)
        try:
            until(lambda: not replies and thread.problem is None, "a ping that works")
        finally:
            thread.end()
