"""Alerts, silences and channels over HTTP: what is shown, who may act, and what bad input gets."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing
from typing import Any

import pytest

from cli.stage import Project
from headrace import config
from headrace.alerts.local_receiver import Received, Receiver, Reply
from headrace.errors import NotifyError
from headrace.json_file import write_json
from headrace.model.alerts import OpenAlert
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.requests import Request
from headrace.project import channel_test
from headrace.state.api_keys import KeyKind, Role
from headrace.store import alert_changes, alerts, db, deliveries, silences
from headrace.store.deliveries import Delivery, DeliveryState
from headrace.store.silences import Silence
from headrace.web import actions, json_responses
from web.conftest import TOML, Visitor, undocumented

BASE = "/api/alerts"
CHANNELS = """
[notify.team]
kind = "slack"
url = "${env:SLACK_URL}"
severity = ["critical"]
[notify.odd]
kind = "slak"
[notify.hook]
kind = "webhook"
url = "https://u:pw12345678@hook.test/"
repeat_every = "30 minutes"
[notify.alive]
kind = "heartbeat"
url = "${env:PING_URL}"
"""


@pytest.fixture
def project(project: Project) -> Project:
    """With channels."""
    (project.folder / "headrace.toml").write_text(TOML + CHANNELS)
    return project


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody replies to requests here."""
    monkeypatch.setattr(actions, "REPLY_S", 0.0)
    monkeypatch.setattr(json_responses, "CACHED_S", 0.0)


def with_alerts(visitor: Visitor) -> None:
    """1: open. 2: acknowledged. 3: silenced. 4: resolved. 1 was sent to a channel."""
    visitor.project.deployed()
    now = time.time()
    with closing(db.open_alerts(visitor.project.places.alerts)) as conn:
        for number, rule in enumerate(["needs-attention", "restarting", "stalled", "row"], 1):
            data = {"What to do": f"Fix {number}.", "Headrace": "Does not restart it."}
            alert = OpenAlert(
                f"k{number}", rule, "hello", f"Title {number}", "critical", "kept", data
            )
            alerts.open_once(conn, alert, now - 100 + number)
        alerts.acknowledge(conn, 2, "ann (command line)", now - 50)
        silences.add(
            conn, Silence(0, "hello", None, "stalled", "maintenance", "bob", now, now + 60)
        )
        alerts.resolve(conn, "k4", now)
        (first, *_) = alert_changes.read(conn, alert_changes.EVENTS, 10)
        reply = "500: password=hunter2secret is wrong"
        sent = Delivery("team", "trigger", "h:k1", DeliveryState.WAITING, now - 5, 3, reply)
        deliveries.record(conn, [first], sent)


def left(visitor: Visitor) -> Request:
    """The request that was left for the supervisor."""
    (path,) = visitor.project.places.requests.glob("*.json")
    return Request.from_json(json.loads(path.read_text()))


def nothing_left(visitor: Visitor) -> bool:
    return not list(visitor.project.places.requests.glob("*"))


# ---- what is shown


def test_alerts_say_who_acknowledged_them_and_until_when_they_are_silenced(inside: Visitor) -> None:
    with_alerts(inside)

    seen = inside.get(BASE)
    all_ = inside.get(f"{BASE}?all=1")
    shown = {one["id"]: one for one in seen["alerts"]}

    assert list(shown) == [3, 2, 1]
    assert seen["is_cut"] is False
    assert shown[2]["acknowledged_by"] == "ann (command line)"
    assert shown[1]["acknowledged_by"] is None
    assert shown[3]["silenced_until"] > time.time()
    assert shown[1]["silenced_until"] is None
    assert [one["id"] for one in all_["alerts"]] == [4, 3, 2, 1]
    assert undocumented(f"GET {BASE}", seen) == []


def test_an_alert_has_one_shape_on_the_page_and_on_the_command_line(inside: Visitor) -> None:
    with_alerts(inside)

    listed = inside.get(BASE)["alerts"]
    by_command = inside.project.json("alerts", "list")["alerts"]
    of_pipeline = inside.get("/api/pipelines/hello")["alerts"]

    assert listed == by_command == of_pipeline
    assert inside.get(f"{BASE}/2").items() >= listed[1].items()
    assert inside.get(f"{BASE}/2").items() >= inside.project.json("alerts", "show", "2").items()


def test_one_alert_has_its_deliveries_without_secrets(inside: Visitor) -> None:
    with_alerts(inside)

    first = inside.get(f"{BASE}/1")

    (delivery,) = first["deliveries"]
    assert (delivery["channel"], delivery["kind"]) == ("team", "trigger")
    assert (delivery["state"], delivery["attempts"]) == ("waiting", 3)
    assert delivery["reply"].startswith("500: password=")
    assert "hunter2secret" not in json.dumps(first)
    assert inside.get(f"{BASE}/3")["silence"]["reason"] == "maintenance"
    assert inside.get(f"{BASE}/3")["deliveries"] == []
    assert undocumented(f"GET {BASE}/{{alert}}", first) == []


def test_an_alert_names_the_outputs_that_are_affected(inside: Visitor) -> None:
    with_alerts(inside)
    rest = ("append", {}, None, "exactly-once", "")
    queries = (
        Query("kept", "hello.py:2", ("lines",), {"kind": "parquet", "path": "data/kept"}, *rest),
        Query("counts", "hello.py:3", ("daily",), {"kind": "live"}, *rest),
        Query("copied", "hello.py:4", ("lines",), {"kind": "console"}, *rest),
    )
    nodes = (Node("lines", "source", "hello.py:1"), Node("daily", "view", "hello.py:2", ("kept",)))
    body = Definition("hello", "dev", "aaaa1111", "hello.py", nodes, queries)
    write_json(inside.project.places.definition("aaaa1111", "dev", "hello"), body.to_json())

    affected = [one["name"] for one in inside.get(f"{BASE}/1")["outputs"]]

    assert affected == ["data/kept", "counts"], "and what reads the output of the query"
    assert inside.get(f"{BASE}/4")["outputs"] == [], "the row of a query is about the user's data"


def test_silences_are_listed_until_they_end(inside: Visitor) -> None:
    with_alerts(inside)

    seen = inside.get("/api/silences")
    (one,) = seen["silences"]
    with closing(db.open_alerts(inside.project.places.alerts)) as conn:
        silences.end(conn, one["id"], time.time())

    assert (one["rule"], one["reason"], one["by"]) == ("stalled", "maintenance", "bob")
    assert inside.get("/api/silences") == {"silences": []}
    assert len(inside.get("/api/silences?all=1")["silences"]) == 1
    assert inside.get(BASE)["alerts"][0]["silenced_until"] is None
    assert undocumented("GET /api/silences", seen) == []


def test_channels_show_their_route_and_state_and_nothing_secret(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_alerts(inside)
    monkeypatch.setenv("SLACK_URL", "https://chat.test/canary-7f3a9c")

    seen = inside.get("/api/channels")

    team, odd, hook, alive = seen["channels"]
    assert (team["kind"], team["severity"], team["problem"]) == ("slack", ["critical"], None)
    assert (team["state"], team["attempts"], team["sent_at"]) == ("waiting", 3, None)
    assert "unknown kind" in odd["problem"]
    assert (hook["repeat_s"], hook["state"]) == (1800.0, None)
    assert (alive["kind"], alive["repeat_s"], alive["problem"]) == ("heartbeat", 60.0, None)
    text = json.dumps(seen)
    assert not any(word in text for word in ("canary", "pw12345678", "SLACK_URL", "hunter2secret"))
    assert undocumented("GET /api/channels", seen) == []


def test_a_channel_that_waits_is_shown_as_waiting_although_another_notice_was_sent_later(
    inside: Visitor,
) -> None:
    with_alerts(inside)
    with closing(db.open_alerts(inside.project.places.alerts)) as conn:
        changes = alert_changes.read(conn, alert_changes.EVENTS, 10)
        later = Delivery("team", "trigger", "h:k2", DeliveryState.SENT, time.time(), 1, "200 ok")
        deliveries.record(conn, changes[1:2], later)

    team, *_ = inside.get("/api/channels")["channels"]

    assert (team["state"], team["sent_at"]) == ("waiting", later.at)


# ---- actions


def test_an_alert_is_acknowledged_by_a_request_in_the_name_of_the_user(inside: Visitor) -> None:
    with_alerts(inside)
    inside.project.supervised()

    answer = inside.post(f"{BASE}/1/acknowledge", {})

    asked = left(inside)
    assert (asked.what, asked.alert, asked.by) == ("acknowledge", 1, "tester (page)")
    assert answer == {"request": asked.id, "is_answered": False, "text": None}


def test_a_silence_is_requested_with_its_scope_end_and_reason(inside: Visitor) -> None:
    inside.project.supervised()
    body = {"pipeline": "hello", "query": "kept", "rule": "stalled", "for": "2 hours",
            "reason": "  the source moves  "}  # fmt: skip

    before = time.time()
    inside.post("/api/silences", body)

    asked = left(inside)
    assert asked.silence is not None
    until = asked.silence["until"]
    assert asked.silence == {"pipeline": "hello", "query": "kept", "rule": "stalled",
                             "until": until, "reason": "the source moves"}  # fmt: skip
    assert before + 7200 <= until <= time.time() + 7200
    assert (asked.what, asked.by) == ("silence", "tester (page)")


def test_the_end_of_a_silence_is_requested(inside: Visitor) -> None:
    inside.project.supervised()

    inside.post("/api/silences/7/end", {})

    assert (left(inside).what, left(inside).silence) == ("end_silence", {"id": 7})


def test_a_key_that_may_view_sees_everything_and_changes_nothing(visitor: Visitor) -> None:
    visitor.log_in(Role.VIEW)
    with_alerts(visitor)
    visitor.project.supervised()

    for path in (BASE, f"{BASE}/1", "/api/silences", "/api/channels"):
        visitor.get(path)
    for path in (f"{BASE}/1/acknowledge", "/api/silences", "/api/silences/1/end",
                 "/api/channels/team/test"):  # fmt: skip
        answer = visitor.post(path, {"reason": "x", "for": "1 hour"}, 403)
        assert answer["error"]["slug"] == "not-allowed"
    assert nothing_left(visitor)


def test_another_site_changes_nothing(inside: Visitor) -> None:
    with_alerts(inside)
    inside.project.supervised()
    for path in (f"{BASE}/1/acknowledge", "/api/silences", "/api/silences/1/end",
                 "/api/channels/team/test"):  # fmt: skip
        foreign = {"origin": "http://evil.test", "sec-fetch-site": "cross-site"}
        assert inside.http.post(path, json={}, headers=foreign).status_code == 403
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert inside.http.post(path, content="reason=x", headers=form).status_code == 415
        assert inside.http.post(path, json={}, headers={"x-headrace-proof": "x"}).status_code == 401
    assert nothing_left(inside)


def test_without_a_supervisor_nothing_can_be_acknowledged(inside: Visitor) -> None:
    with_alerts(inside)

    answer = inside.post(f"{BASE}/1/acknowledge", {}, 409)

    assert (answer["error"]["slug"], answer["error"]["fix"]) == ("no-supervisor", "headrace up")


GOOD = {"pipeline": "hello", "reason": "maintenance", "for": "1 hour"}
BAD_SILENCES: list[tuple[dict[str, Any], str]] = [
    ({"reason": None}, "bad-silence"),
    ({"reason": "  \n"}, "bad-silence"),
    ({"reason": "x" * 501}, "bad-value"),
    ({"reason": "half \ud800 a pair"}, "bad-value"),
    ({"reason": "nul \0"}, "bad-value"),
    ({"reason": ["maintenance"]}, "bad-value"),
    ({"pipeline": "hel[lo"}, "bad-silence"),
    ({"query": "[]"}, "bad-silence"),
    ({"pipeline": None}, "bad-silence"),
    ({"rule": {"a": 1}}, "bad-value"),
    ({"rule": "x" * 201}, "bad-value"),
    ({"for": None}, "bad-silence"),
    ({"until": 2e9}, "bad-silence"),
    ({"for": "soon"}, "bad-duration"),
    ({"for": "9" * 5000}, "bad-duration"),
    ({"for": -1}, "bad-duration"),
    ({"for": None, "until": "tomorrow"}, "bad-silence"),
    ({"for": None, "until": True}, "bad-silence"),
    ({"for": None, "until": 10**400}, "bad-silence"),
]


@pytest.mark.parametrize(("change", "slug"), BAD_SILENCES)
def test_a_bad_silence_is_refused_with_a_reason(
    inside: Visitor, change: dict[str, Any], slug: str
) -> None:
    inside.project.supervised()
    body = json.dumps({**GOOD, **change})

    done = inside.http.post(
        "/api/silences", content=body, headers={"content-type": "application/json"}
    )

    assert done.status_code == 400, done.text
    error = done.json()["error"]
    assert set(error) == {"slug", "what", "why", "where", "fix"}
    assert error["slug"] == slug
    assert nothing_left(inside)


def test_deep_and_invalid_json_is_refused(inside: Visitor) -> None:
    inside.project.supervised()
    for content in ("[" * 100_000, '{"a":' * 50_000, "{", "[]", '{"until": NaN}'):
        done = inside.http.post(
            "/api/silences", content=content, headers={"content-type": "application/json"}
        )
        assert done.status_code == 400, content[:20]
        assert done.json()["error"]["what"]
    assert nothing_left(inside)


@pytest.mark.parametrize("number", ["99", "x", "-1", "1.0", "9" * 5000, "%D9%A1", "1%00"])
def test_unknown_alerts_and_silences_are_not_found(inside: Visitor, number: str) -> None:
    with_alerts(inside)
    inside.project.supervised()

    assert inside.get(f"{BASE}/{number}", 404)["error"]["slug"] == "unknown-alert"
    answer = inside.post(f"{BASE}/{number}/acknowledge", {}, 404)
    assert answer["error"]["slug"] == "unknown-alert"
    if number != "99":  # only the supervisor knows which there are
        answer = inside.post(f"/api/silences/{number}/end", {}, 404)
        assert answer["error"]["slug"] == "unknown-silence"
    assert nothing_left(inside)


def test_an_unknown_channel_gets_a_suggestion(inside: Visitor) -> None:

    answer = inside.post("/api/channels/taem/test", {}, 404)

    assert answer["error"]["slug"] == "unknown-channel"
    assert "team" in answer["error"]["why"]


def test_a_link_to_an_alert_keeps_its_target_through_the_login(visitor: Visitor) -> None:
    """Without a login, the address stays and the page explains how to log in."""
    asked = visitor.http.get("/alerts/12", headers={"accept": "text/html"})
    secret = visitor.key(KeyKind.LOGIN)
    done = visitor.http.get(f"/alerts/12?token={secret}", follow_redirects=False)

    assert asked.status_code == 401
    assert "headrace token" in asked.text
    assert done.headers["location"].partition("#")[0] == "/alerts/12"


# ---- the test of a channel, in a child process


@pytest.mark.thorough
def test_a_channel_is_tested_and_the_reply_is_shown(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[Received] = []

    def answer(received: Received) -> Reply:
        got.append(received)
        return Reply(content=b"ok, token=hunter2secret")

    with Receiver(answer) as receiver:
        monkeypatch.setenv("SLACK_URL", f"{receiver.url}/services/canary-7f3a9c")
        body = inside.post("/api/channels/team/test", {})

    assert [one.path for one in got] == ["/services/canary-7f3a9c"] * 2
    assert set(body["replies"]) == {"trigger", "resolve"}
    assert body["replies"]["trigger"].startswith("200 ok")
    assert "hunter2secret" not in json.dumps(body)
    assert undocumented("POST /api/channels/{channel}/test", body) == []


@pytest.mark.thorough
def test_a_channel_that_rejects_its_test_shows_the_reply(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(lambda received: Reply(403, b"invalid_token")) as receiver:
        monkeypatch.setenv("SLACK_URL", f"{receiver.url}/canary-7f3a9c")
        answer = inside.post("/api/channels/team/test", {}, 502)

    assert "invalid_token" in answer["error"]["why"]
    assert "canary" not in json.dumps(answer)


@pytest.mark.thorough
def test_a_missing_secret_is_named(inside: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_URL", raising=False)

    answer = inside.post("/api/channels/team/test", {}, 502)

    assert answer["error"]["slug"] == "missing-secret"
    assert "SLACK_URL" in answer["error"]["what"]


@pytest.mark.thorough
def test_a_test_of_a_service_that_hangs_is_ended(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as hung:
        monkeypatch.setenv("SLACK_URL", f"http://127.0.0.1:{hung.getsockname()[1]}/canary-7f3a9c")
        settings = config.load(inside.project.folder)
        started = time.monotonic()
        with pytest.raises(NotifyError, match="took longer than 2 s") as caught:
            channel_test.run(settings, "team", timeout_s=2.0)

    assert time.monotonic() - started < 60
    assert "canary" not in str(caught.value)


def test_tests_of_channels_are_limited(inside: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = inside.http.app.site.feed  # type: ignore[attr-defined]
    monkeypatch.setattr(feed, "tests", 2)
    busy = inside.post("/api/channels/team/test", {}, 429)
    monkeypatch.setattr(feed.test_limit, "most", 1)
    often = inside.post("/api/channels/team/test", {}, 429)

    assert "already being tested" in busy["error"]["what"]
    assert "Too many tests" in often["error"]["what"]
