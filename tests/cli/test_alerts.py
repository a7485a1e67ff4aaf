"""`alerts`: from the store, with or without a supervisor; channels on loopback."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time

import pytest

from cli.stage import Project
from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.alerts.notifiers import http
from headrace.model.alerts import AlertRow, OpenAlert
from headrace.store import alert_changes, alerts, db, deliveries, silences
from headrace.store.deliveries import Delivery, DeliveryState
from headrace.store.silences import Silence


def opened(project: Project) -> None:
    now = time.time()
    with contextlib.closing(db.open_alerts(project.places.alerts)) as conn:
        alerts.open_once(conn, OpenAlert("stalled:other", "stalled", "other", "stuck"), now)
        row = AlertRow("id", 0, 0, ("7",), "Cluster [7]: hot", "critical", now - 300, now, count=75)
        alerts.take(conn, "hello", "kept", [row], now)
        cold = AlertRow("id", 1, 0, ("8",), "Cluster 8: hot", "critical", now, now)
        over = AlertRow("id", 1, 1, ("8",), "Cluster 8: cool", "critical", now, now, resolved=True)
        alerts.take(conn, "hello", "kept", [cold, over], now)


def test_before_the_first_alert_there_is_none(project: Project) -> None:
    assert project.headrace("alerts", "list").stdout == "No open alerts.\n"
    assert project.json("alerts", "list") == {"alerts": []}


def test_open_alerts_are_listed_newest_first(project: Project) -> None:
    opened(project)

    head, row, rule = project.headrace("alerts", "list").stdout.splitlines()

    assert head.split() == ["id", "state", "severity", "title", "of", "opened", "updated", "count"]
    assert " ".join(row.split()) == (
        "2 open critical Cluster [7]: hot hello/kept 5 min ago 5 min ago 75"
    )
    assert rule.split()[:5] == ["1", "open", "warning", "stuck", "other"]


def test_resolved_ones_come_with_all(project: Project) -> None:
    opened(project)

    lines = project.headrace("alerts", "list", "--all").stdout.splitlines()

    assert [line.split()[1] for line in lines] == ["state", "resolved", "open", "open"]


def test_of_one_pipeline_or_query_as_json(project: Project) -> None:
    opened(project)
    project.deployed()

    for name in ("hello", "hello/kept"):
        (alert,) = project.json("alerts", "list", name)["alerts"]

        assert alert["key"] == "hello/kept/7"
        assert (alert["pipeline"], alert["query"], alert["rule"]) == ("hello", "kept", "row")
        assert (alert["count"], alert["severity"]) == (75, "critical")
        assert alert["resolved_at"] is None
        assert {"id", "title", "opened_at", "updated_at", "data", "reopened"} <= set(alert)


def test_an_unknown_name_names_the_near_miss(project: Project) -> None:
    body = project.json("alerts", "list", "helo", code=2)

    assert body["error"]["slug"] == "unknown-name"
    assert 'Did you mean "hello"?' in body["error"]["why"]


def test_an_alert_is_shown_with_its_deliveries(project: Project) -> None:
    opened(project)
    with contextlib.closing(db.open_alerts(project.places.alerts)) as conn:
        first = alert_changes.read(conn, "me", 1)
        sent = Delivery("pager", "trigger", "k", DeliveryState.SENT, 0.0, 2, "202 accepted")
        deliveries.record(conn, first, sent)

    text = project.headrace("alerts", "show", "1").stdout
    body = project.json("alerts", "show", "1")

    assert "1970-01-01 00:00:00Z" in text
    assert "202 accepted" in text
    assert body["title"] == "stuck"
    assert body["deliveries"] == [
        {"channel": "pager", "kind": "trigger", "key": "k", "state": "sent", "at": 0.0,
         "attempts": 2, "reply": "202 accepted"}
    ]  # fmt: skip
    assert (
        "This alert was not sent to any channel." in project.headrace("alerts", "show", "2").stdout
    )


def test_an_unknown_alert_is_named(project: Project) -> None:
    opened(project)

    assert project.json("alerts", "show", "99", code=3)["error"]["slug"] == "unknown-alert"


@pytest.mark.parametrize(
    "command",
    [
        ("ack", "1"),
        ("silence", "hello", "--for", "2h", "--reason", "upgrade"),
        ("unsilence", "1"),
    ],
)
def test_a_change_needs_a_supervisor(project: Project, command: tuple[str, ...]) -> None:
    opened(project)

    error = project.json("alerts", *command, code=3)["error"]

    assert error["slug"] == "no-supervisor"
    assert error["fix"] == "headrace up"


@pytest.mark.parametrize(
    ("given", "slug", "text"),
    [
        (("helo", "--for", "2h"), "unknown-name", 'Did you mean "hello"?'),
        (("--pipeline", "helo", "--for", "2h"), "unknown-name", 'Did you mean "hello"?'),
        (("--pipeline", "none-*", "--for", "2h"), "unknown-name", 'No pipeline matches "none-*".'),
        (("--rule", "staled", "--for", "2h"), "unknown-name", 'Did you mean "stalled"?'),
        (("hello", "--pipeline", "h*", "--for", "2h"), "bad-silence", "not both"),
        (("--for", "2h"), "bad-silence", "names no alerts"),
        (("hello", "--for", "0s"), "bad-silence", "no length"),
        (("hello", "--for", "soon"), "bad-duration", "Invalid duration: 'soon'."),
    ],
)
def test_a_silence_with_a_mistake_is_refused(
    project: Project, given: tuple[str, ...], slug: str, text: str
) -> None:
    opened(project)

    error = project.json("alerts", "silence", *given, "--reason", "upgrade", code=2)["error"]

    assert error["slug"] == slug
    assert text in f"{error['what']} {error['why']}"


@pytest.mark.parametrize("missing", ["--for", "--reason"])
def test_a_silence_needs_an_end_and_a_reason(project: Project, missing: str) -> None:
    given = {"--for": "2h", "--reason": "upgrade"}
    del given[missing]

    done = project.headrace(
        "alerts", "silence", "hello", *(x for two in given.items() for x in two)
    )

    assert done.exit_code == 2
    assert f"Missing option '{missing}'" in done.stderr


def test_lists_show_what_is_acknowledged_and_silenced(project: Project) -> None:
    opened(project)
    now = time.time()
    with contextlib.closing(db.open_alerts(project.places.alerts)) as conn:
        alerts.acknowledge(conn, 1, "ann", now)
        over = Silence(0, "*", None, "*", "over", "ben", now - 9, now + 60, now - 1)
        silences.add(conn, over)
        silences.add(conn, Silence(0, "hello", None, "row", "upgrade", "ann", now - 9, now + 60))

    states = [line.split()[1] for line in project.headrace("alerts", "list").stdout.splitlines()]
    row, rule = project.json("alerts", "list")["alerts"]
    shown = [project.headrace("alerts", "show", number).stdout for number in ("1", "2")]
    active = project.headrace("alerts", "silences").stdout
    every = project.json("alerts", "silences", "--all")["silences"]

    assert states == ["state", "silenced", "acknowledged"]
    assert (row["silenced_until"], row["acknowledged_by"]) == (now + 60, None)
    assert (rule["silenced_until"], rule["acknowledged_by"]) == (None, "ann")
    assert "Acknowledged by ann at " in shown[0]
    assert "Silence 2 by ann until " in shown[1]
    assert "upgrade" in active
    assert "over" not in active
    assert [one["reason"] for one in every] == ["upgrade", "over"]


def test_without_silences_there_are_none(project: Project) -> None:
    assert project.headrace("alerts", "silences").stdout == "No active silences.\n"
    assert project.json("alerts", "silences") == {"silences": []}


def test_a_heartbeat_is_tried(project: Project) -> None:
    got: list[Received] = []
    with Receiver(lambda one: got.append(one) or Reply()) as receiver:
        with (project.folder / "headrace.toml").open("a") as file:
            file.write(f'\n[notify.alive]\nkind = "heartbeat"\nurl = "{receiver.url}/x"\n')
        text = project.headrace("alerts", "test", "alive").stdout

    assert text == "alive: ping accepted: 200 ok\n"
    assert [(one.method, one.path) for one in got] == [("GET", "/x")]


def channel(project: Project, url: str) -> None:
    table = f'\n[notify.hook]\nkind = "webhook"\nurl = "{url}"\n'
    with (project.folder / "headrace.toml").open("a") as file:
        file.write(table)


def test_a_channel_is_tried(project: Project) -> None:
    got: list[Received] = []

    def answer(received: Received) -> Reply:
        got.append(received)
        return reply_as_service(received)

    with Receiver(answer) as receiver:
        channel(project, receiver.url)
        text = project.headrace("alerts", "test", "hook").stdout
        body = project.json("alerts", "test", "hook")

    assert text == "hook: trigger accepted: 200 ok\nhook: resolve accepted: 200 ok\n"
    assert body == {"channel": "hook", "replies": {"trigger": "200 ok", "resolve": "200 ok"}}
    kinds = [one.json()["kind"] for one in got]
    assert kinds == ["trigger", "resolve"] * 2
    assert got[0].json()["title"] == "Test notice for channel hook"


def test_the_reply_of_a_service_that_rejects_is_shown(project: Project) -> None:
    with Receiver(lambda _: Reply(403, b"wrong token")) as receiver:
        channel(project, receiver.url)
        error = project.json("alerts", "test", "hook", code=1)["error"]

    assert error["slug"] == "notify"
    assert error["why"] == "403 Forbidden: wrong token"


def test_an_unknown_channel_names_the_near_miss(project: Project) -> None:
    channel(project, "http://127.0.0.1:1")

    error = project.json("alerts", "test", "hok", code=2)["error"]

    assert error["slug"] == "unknown-channel"
    assert "hook" in error["fix"]


@pytest.mark.e2e
def test_listen_prints_what_arrives(project: Project) -> None:
    command = [sys.executable, "-m", "headrace", "alerts", "listen", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        assert child.stdout is not None
        url = child.stderr.readline().split()[2].rstrip(".")
        assert (
            http.post_json(f"{url}/x", {"event_action": "trigger", "dedup_key": "k"})[:3] == "202"
        )
        line = json.loads(child.stdout.readline())
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0

    assert line["path"] == "/x"
    assert json.loads(line["body"])["dedup_key"] == "k"
