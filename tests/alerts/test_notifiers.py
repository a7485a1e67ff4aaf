"""What each service gets on the wire, and what its replies mean. Real HTTP and SMTP on loopback."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from email import message_from_bytes
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

from headrace import secrets
from headrace.alerts.channels import build_channel
from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.alerts.notifiers import http
from headrace.alerts.notifiers import mail as mail_module
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.alerts.notifiers.pagerduty import dedup_key
from headrace.model.notices import Notice, NoticeKind

KEY = "0123456789abcdef0123456789abcdef"
NOTICE = Notice(
    NoticeKind.TRIGGER,
    key="home1/metrics/overloaded/4",
    title="Cluster 4: load 99.7",
    severity="critical",
    project="metrics",
    pipeline="metrics",
    rule="row",
    opened_at=1_800_000_000.0,
    at=1_800_000_000.0,
    query="overloaded",
    facts={"What to do": "Look at the cluster."},
    link="http://127.0.0.1:8321/alerts",
)
ACKNOWLEDGED = replace(NOTICE, kind=NoticeKind.ACKNOWLEDGE, by="ann", at=1_800_000_030.0)
OVER = replace(NOTICE, kind=NoticeKind.RESOLVE, at=1_800_000_060.0)


class Inbox:
    """A receiver that keeps what it gets, and answers with scripted replies first."""

    def __init__(self, *replies: Reply) -> None:
        self.got: list[Received] = []
        self._replies = list(replies)

    def __call__(self, received: Received) -> Reply:
        self.got.append(received)
        return self._replies.pop(0) if self._replies else reply_as_service(received)


def notifier(kind: str, **fields: Any) -> Any:
    return build_channel("mine", {"kind": kind, **fields}).notifier


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PLANTED", KEY)
    return "${env:PLANTED}"


def test_pagerduty_gets_trigger_and_resolve_with_one_dedup_key(planted: str) -> None:
    inbox = Inbox()

    with Receiver(inbox) as receiver:
        pager = notifier("pagerduty", routing_key=planted, url=receiver.url)
        reply = pager.send(NOTICE)
        pager.send(replace(NOTICE, kind=NoticeKind.ACKNOWLEDGE, by="ann"))
        pager.send(OVER)

    trigger, ack, resolve = (one.json() for one in inbox.got)
    assert reply.startswith("202 ")
    for event in (trigger, ack, resolve):
        assert_pagerduty_event(event)
    assert trigger["payload"]["severity"] == "critical"
    assert trigger["payload"]["summary"] == "[critical] metrics: Cluster 4: load 99.7"
    assert trigger["payload"]["custom_details"]["What to do"] == "Look at the cluster."
    assert trigger["payload"]["timestamp"] == "2027-01-15T08:00:00+00:00"
    assert trigger["links"] == [{"href": NOTICE.link, "text": "Open in Headrace"}]
    for event, action in ((ack, "acknowledge"), (resolve, "resolve")):
        assert event["event_action"] == action
        assert event["dedup_key"] == trigger["dedup_key"]
        assert event["routing_key"] == KEY


def test_pagerduty_limits_hold_for_long_texts(planted: str) -> None:
    long = replace(NOTICE, key="k" * 400, title="t" * 5_000, facts={"Row": "x" * 100_000})

    with Receiver(inbox := Inbox()) as receiver:
        notifier("pagerduty", routing_key=planted, url=receiver.url).send(long)

    assert_pagerduty_event(inbox.got[0].json())
    assert dedup_key("k" * 400) != dedup_key("k" * 401)
    assert len(inbox.got[0].content) < 512 * 1024


def assert_pagerduty_event(event: dict[str, Any]) -> None:
    """The published schema of the Events API v2, to the letter: its fields, types and limits."""
    allowed = {
        "routing_key", "event_action", "dedup_key", "payload", "client", "client_url", "links",
        "images",
    }  # fmt: skip
    assert event.keys() <= allowed
    assert re.fullmatch("[0-9a-f]{32}", event["routing_key"])
    assert event["event_action"] in ("trigger", "acknowledge", "resolve")
    assert isinstance(event["dedup_key"], str)
    assert 0 < len(event["dedup_key"]) <= 255
    if event["event_action"] != "trigger":
        assert event.keys() == {"routing_key", "event_action", "dedup_key"}
        return
    payload = event["payload"]
    assert payload.keys() <= {
        "summary", "source", "severity", "timestamp", "component", "group", "class",
        "custom_details",
    }  # fmt: skip
    texts = {**payload, "custom_details": "", "client": event["client"]}
    assert all(isinstance(text, str) for text in texts.values())
    assert 0 < len(payload["summary"]) <= 1024
    assert payload["source"]
    assert payload["severity"] in ("critical", "error", "warning", "info")
    assert datetime.fromisoformat(payload["timestamp"]).tzinfo is not None
    assert isinstance(payload["custom_details"], dict)
    assert event.get("client_url", "https://").startswith(("https://", "http://"))
    for link in event.get("links", ()):
        assert link.keys() == {"href", "text"}
        assert link["href"].startswith(("https://", "http://"))
    assert len(json.dumps(event)) < 512 * 1024


def test_slack_gets_escaped_text(planted: str) -> None:
    rude = replace(NOTICE, title="<!channel> & <script>")

    with Receiver(inbox := Inbox()) as receiver:
        assert notifier("slack", url=receiver.url).send(rude) == "200 ok"

    body = inbox.got[0].json()
    assert body["text"] == "[critical] metrics: &lt;!channel&gt; &amp; &lt;script&gt;"
    assert [block["type"] for block in body["blocks"]] == ["section", "section"]
    assert all(0 < len(block["text"]["text"]) <= 3000 for block in body["blocks"])
    assert f"<{NOTICE.link}|Open in Headrace>" in body["blocks"][1]["text"]["text"]
    assert "<!channel>" not in inbox.got[0].content.decode()


def test_teams_gets_an_adaptive_card() -> None:
    with Receiver(inbox := Inbox()) as receiver:
        notifier("teams", url=receiver.url).send(replace(NOTICE, title="[a](http://x)"))
        notifier("teams", url=receiver.url).send(OVER)

    (card,) = inbox.got[0].json()["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    title, facts = card["content"]["body"]
    assert title["text"] == "\\[critical\\] metrics: \\[a\\](http://x)"
    assert title["color"] == "attention"
    assert {"title": "What to do", "value": "Look at the cluster."} in facts["facts"]
    over = inbox.got[1].json()["attachments"][0]["content"]["body"]
    assert over[0]["color"] == "good"
    assert {"title": "Resolved", "value": "2027-01-15 08:01:00Z"} in over[1]["facts"]


def test_an_acknowledgement_is_a_short_message_that_names_the_person(planted: str) -> None:
    with Receiver(inbox := Inbox()) as receiver:
        notifier("slack", url=receiver.url).send(ACKNOWLEDGED)
        notifier("teams", url=receiver.url).send(ACKNOWLEDGED)
        notifier("webhook", url=receiver.url).send(ACKNOWLEDGED)

    slack, teams, hook = (one.json() for one in inbox.got)
    told = "Acknowledged by ann: [critical] metrics: Cluster 4: load 99.7"
    assert slack["text"] == told
    assert [block["text"]["text"] for block in slack["blocks"]] == [
        f"*{told}*", f"<{NOTICE.link}|Open in Headrace>",
    ]  # fmt: skip
    (title,) = teams["attachments"][0]["content"]["body"]
    assert title["text"] == told.replace("[", "\\[").replace("]", "\\]")
    assert (hook["kind"], hook["by"]) == ("acknowledge", "ann")


def test_a_webhook_is_signed_over_time_and_body(planted: str) -> None:
    with Receiver(inbox := Inbox()) as receiver:
        hook = notifier("webhook", url=f"{receiver.url}/hook?a=1", secret=planted)
        hook.send(NOTICE)
        hook.send(NOTICE)
        hook.send(OVER)

    first, again, over = inbox.got
    at, signature = first.headers["headrace-time"], first.headers["headrace-signature"]
    key = KEY.encode()
    right = hmac.new(key, at.encode() + b"." + first.content, hashlib.sha256).hexdigest()
    assert signature == f"sha256={right}"
    assert abs(time.time() - int(at)) < 60
    assert first.path == "/hook?a=1"
    assert first.json()["title"] == NOTICE.title
    assert first.json()["kind"] == "trigger"
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
    assert first.headers["idempotency-key"] != over.headers["idempotency-key"]


class Mailbox:
    def __init__(self, refuse: str | None = None) -> None:
        self.got: list[bytes] = []
        self._refuse = refuse

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:  # noqa: N802
        if self._refuse:
            return self._refuse
        self.got.append(envelope.content)
        return "250 OK"


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, str]]:
    box = Mailbox()
    server = Controller(box, hostname="127.0.0.1", port=free_port())
    server.start()
    yield box, f"127.0.0.1:{server.port}"
    server.stop()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def mail(smtp: str) -> Any:
    return notifier(
        "email", smtp=smtp, tls="none", **{"from": "headrace@example.org"}, to=["ops@example.org"]
    )


def test_mails_of_one_alert_are_one_thread(mailbox: tuple[Mailbox, str]) -> None:
    box, smtp = mailbox

    mail(smtp).send(replace(NOTICE, title="über 99\r\nBcc: evil@example.org"))
    mail(smtp).send(OVER)

    opened, resolved = (message_from_bytes(content) for content in box.got)
    assert opened["To"] == "ops@example.org"
    assert opened["Bcc"] is None
    assert opened["References"] == resolved["References"]
    assert opened["Message-ID"] != resolved["Message-ID"]
    assert resolved["Subject"] == "Resolved: [critical] metrics: Cluster 4: load 99.7"
    text = resolved.get_payload(decode=True).decode()
    assert "What to do: Look at the cluster." in text
    assert str(NOTICE.link) in text


@pytest.mark.parametrize(
    ("reply", "is_permanent"), [("451 try later", False), ("554 rejected", True)]
)
def test_a_mail_server_decides_whether_to_retry(reply: str, is_permanent: bool) -> None:
    server = Controller(Mailbox(reply), hostname="127.0.0.1", port=free_port())
    server.start()
    try:
        with pytest.raises(DeliveryError) as caught:
            mail(f"127.0.0.1:{server.port}").send(NOTICE)
    finally:
        server.stop()

    assert caught.value.is_permanent is is_permanent
    assert reply in caught.value.text


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # imported by apprise
def test_apprise_sends_through_any_of_its_services(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(inbox := Inbox()) as receiver:
        monkeypatch.setenv("PLANTED", f"json://127.0.0.1:{receiver.port}/x")
        assert notifier("apprise", url="${env:PLANTED}").send(NOTICE) == "accepted"

    body = inbox.got[0].json()
    assert body["title"] == "[critical] metrics: Cluster 4: load 99.7"
    assert body["type"] == "failure"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # imported by apprise
def test_apprise_refuses_an_unknown_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "nosuch://x")

    with pytest.raises(DeliveryError) as caught:
        notifier("apprise", url="${env:PLANTED}").send(NOTICE)

    assert caught.value.is_permanent


@pytest.mark.parametrize(
    ("reply", "is_permanent", "text"),
    [
        (Reply(400, b'{"message": "invalid routing key"}'), True, "invalid routing key"),
        (Reply(404), True, "404 Not Found"),
        (Reply(301, headers={"Location": "http://example.org/s3cr3t"}), True, "(to example.org)"),
        (Reply(408), False, "408"),
        (Reply(429), False, "429"),
        (Reply(500, b"<html>" + b"x" * 10_000_000), False, "500"),
        (Reply(503, bytes(range(256))), False, "503"),
    ],
)
def test_a_reply_decides_whether_to_retry(reply: Reply, is_permanent: bool, text: str) -> None:
    with Receiver(Inbox(reply)) as receiver, pytest.raises(DeliveryError) as caught:
        notifier("slack", url=receiver.url).send(NOTICE)

    assert caught.value.is_permanent is is_permanent
    assert text in caught.value.text
    assert len(caught.value.text) < 1_000


def test_retry_after_is_a_number_or_a_date() -> None:
    assert http.retry_after("7", 0.0) == 7.0
    assert http.retry_after("Fri, 15 Jan 2027 08:00:30 GMT", 1_800_000_000.0) == 30.0
    assert http.retry_after("Fri, 15 Jan 2027 08:00:30 GMT", 1_900_000_000.0) == 0.0
    assert http.retry_after("1e9", 0.0) == http.RETRY_AFTER_S_MAX
    for nonsense in (None, "", "soon", "nan"):
        assert http.retry_after(nonsense, 0.0) is None

    with (
        Receiver(Inbox(Reply(429, headers={"Retry-After": "12"}))) as receiver,
        pytest.raises(DeliveryError) as caught,
    ):
        notifier("slack", url=receiver.url).send(NOTICE)
    assert caught.value.retry_after_s == 12.0


class Rude:
    """A server that answers each connection with these bytes, one at a time, and then nothing."""

    def __init__(self, content: bytes, pause_s: float = 0.02) -> None:
        self._content, self._pause_s = content, pause_s
        self._over = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                conn, _ = self._server.accept()
                with conn, suppress(OSError):
                    for byte in self._content:
                        conn.sendall(bytes([byte]))
                        if self._over.wait(self._pause_s):
                            return
                    self._over.wait()

    def __enter__(self) -> Rude:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5)


@pytest.mark.parametrize(
    "content",
    [
        b"",  # accepts, and never answers
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 5_000,
        b"HTTP/1.1 200 OK\r\n" + b"X-Slow: very\r\n" * 1_000,  # never gets to the body
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000,  # a body that ends with the connection
    ],
    ids=["silent", "body", "headers", "endless"],
)
def test_an_endpoint_that_drips_is_given_up(
    monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """One byte at a time resets the timeout between packets, but not the deadline."""
    monkeypatch.setattr(http, "DEADLINE_S", 0.5)

    with Rude(content) as server, pytest.raises(DeliveryError, match="no complete reply") as caught:
        notifier("slack", url=f"http://{server.address}").send(NOTICE)

    assert not caught.value.is_permanent


def test_an_endpoint_that_does_not_speak_http_is_tried_again() -> None:
    greeting = b"SSH-2.0-OpenSSH_9.2\r\n\r\n"

    with Rude(greeting, 0.0) as server, pytest.raises(DeliveryError) as caught:
        notifier("slack", url=f"http://{server.address}").send(NOTICE)

    assert not caught.value.is_permanent
    assert "ProtocolError" in caught.value.text


@pytest.mark.parametrize("tls", ["none", "starttls", "tls"])
def test_a_mail_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, tls: str) -> None:
    monkeypatch.setattr(mail_module, "DEADLINE_S", 0.5)
    monkeypatch.setattr(mail_module, "TIMEOUT_S", 0.5 if tls == "tls" else 5.0)
    addresses = {"from": "headrace@example.org", "to": ["ops@example.org"]}

    with Rude(b"220-" + b"x" * 5_000) as server, pytest.raises(DeliveryError) as caught:
        notifier("email", smtp=server.address, tls=tls, **addresses).send(NOTICE)

    assert not caught.value.is_permanent


def test_no_part_of_a_secret_is_left_at_the_end_of_a_long_reply(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is shortened to a length at which the secret is cut in two."""
    monkeypatch.setattr(http, "REPLY_BYTES", 200)
    inbox = Inbox(*(Reply(400, b"." * (200 - cut) + KEY.encode() * 3) for cut in range(0, 64, 3)))

    with Receiver(inbox) as receiver:
        pager = notifier("pagerduty", routing_key=planted, url=receiver.url)
        texts = []
        for _ in range(0, 64, 3):
            with pytest.raises(DeliveryError) as caught:
                pager.send(NOTICE)
            texts.append(caught.value.text)

    assert [text for text in texts if KEY[:6] in text] == []


def test_an_invalid_url_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "http://example.org:s3cr3t/path")

    with pytest.raises(DeliveryError) as caught:
        notifier("slack", url="${env:PLANTED}").send(NOTICE)

    assert (caught.value.text, caught.value.is_permanent) == ("invalid URL (InvalidURL)", True)


def test_a_refused_connection_is_retried() -> None:
    with pytest.raises(DeliveryError) as caught:
        notifier("slack", url=f"http://127.0.0.1:{free_port()}").send(NOTICE)

    assert not caught.value.is_permanent
    assert "refused" in caught.value.text.lower()


def test_secrets_are_remembered_for_redaction(planted: str) -> None:
    with Receiver(Inbox()) as receiver:
        notifier("pagerduty", routing_key=planted, url=receiver.url).send(NOTICE)

    assert KEY in secrets.resolved_values()


def test_the_notice_is_json() -> None:
    assert json.loads(json.dumps(NOTICE.to_json()))["facts"] == dict(NOTICE.facts)
