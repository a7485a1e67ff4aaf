"""Who has acknowledged an incident in PagerDuty: its REST API v2, on loopback."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.alerts.channels import build_channel
from headrace.alerts.local_receiver import Received, Receiver, Reply
from headrace.alerts.notifiers.notifier import (
    Acknowledgement,
    DeliveryError,
    ReportsAcknowledgements,
)
from headrace.alerts.notifiers.pagerduty import read_acknowledgement
from headrace.errors import Error


def incident(*acknowledged: tuple[str, str], status: str = "acknowledged") -> dict[str, Any]:
    """As the API documents it, without fields that do not matter here."""
    return {
        "id": "PT4KHLK",
        "type": "incident",
        "status": status,
        "incident_key": "home1:k1",
        "acknowledgements": [
            {
                "at": at,
                "acknowledger": {"id": "PXPGF42", "type": "user_reference", "summary": name},
            }
            for name, at in acknowledged
        ],
    }


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("PLANTED_KEY", "0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("PLANTED_TOKEN", "t0ken+for+the+API")
    return {
        "kind": "pagerduty",
        "routing_key": "${env:PLANTED_KEY}",
        "api_token": "${env:PLANTED_TOKEN}",
    }


def test_the_last_acknowledgement_of_a_key_is_found(pager: dict[str, Any]) -> None:
    got: list[Received] = []
    ann, ben = ("Ann", "2027-01-15T08:00:00Z"), ("Ben", "2027-01-15T10:01:00+02:00")
    body = {"incidents": [incident(ben, ann), incident(("Old", "2020-01-01T00:00:00Z"))]}

    def answer(received: Received) -> Reply:
        got.append(received)
        return Reply.of_json(body)

    with Receiver(answer) as receiver:
        notifier = build_channel("pager", {**pager, "api_url": f"{receiver.url}/"}).notifier
        assert isinstance(notifier, ReportsAcknowledgements)
        found = notifier.find_acknowledgement("home1:orders/hot/a&b=c")

    assert notifier.has_api
    assert found == Acknowledgement("pagerduty: Ben", 1_800_000_060.0)
    (one,) = got
    address = urlsplit(one.path)
    assert (one.method, address.path) == ("GET", "/incidents")
    assert parse_qs(address.query) == {
        "incident_key": ["home1:orders/hot/a&b=c"], "statuses[]": ["acknowledged"], "limit": ["5"],
    }  # fmt: skip
    assert one.headers["authorization"] == "Token token=t0ken+for+the+API"
    assert one.headers["accept"] == "application/vnd.pagerduty+json;version=2"
    assert one.headers["content-type"] == "application/json"


def test_without_a_token_nobody_is_asked(pager: dict[str, Any]) -> None:
    del pager["api_token"]

    notifier = build_channel("pager", pager).notifier

    assert isinstance(notifier, ReportsAcknowledgements)
    assert not notifier.has_api


def test_the_token_must_be_a_reference(pager: dict[str, Any]) -> None:
    with pytest.raises(Error, match="a secret in plain text"):
        build_channel("pager", {**pager, "api_token": "u+abc"})


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", {}, {"incidents": None}, {"incidents": [7, {}]},
        {"incidents": [incident(("Ann", "soon"))]},
        {"incidents": [incident(("Ann", "2027-01-15T08:00:00Z"), status="resolved")]},
        {"incidents": [{"status": "acknowledged", "acknowledgements": [None, {"at": 7}]}]},
    ],
)  # fmt: skip
def test_a_reply_without_an_acknowledgement_is_none(body: Any) -> None:
    assert read_acknowledgement(body) is None


def test_a_name_is_optional_and_short() -> None:
    at = "2027-01-15T08:00:00Z"
    unnamed = {"status": "acknowledged", "acknowledgements": [{"at": at, "acknowledger": None}]}
    long = incident(("x" * 5_000, at))

    nobody, long_name = (read_acknowledgement({"incidents": [one]}) for one in (unnamed, long))

    assert nobody == Acknowledgement("pagerduty: a user", 1_800_000_000.0)
    assert long_name is not None
    assert len(long_name.by) < 200


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(401, b'{"error": "bad token t0ken+for+the+API"}'), "401 Unauthorized"),
        (Reply(200, b"<html>t0ken+for+the+API"), "is not JSON"),
        (Reply(200, b"[" * 2_000_000), "is not JSON"),
        (Reply(302, headers={"Location": "https://example.org/?t=t0ken"}), "example.org"),
    ],
)
def test_a_bad_reply_is_an_error_without_secrets(
    pager: dict[str, Any], reply: Reply, text: str
) -> None:
    with Receiver(lambda _: reply) as receiver:
        notifier = build_channel("pager", {**pager, "api_url": receiver.url}).notifier
        assert isinstance(notifier, ReportsAcknowledgements)
        with pytest.raises(DeliveryError) as caught:
            notifier.find_acknowledgement("k")

    assert text in caught.value.text
    assert "t0ken" not in caught.value.text
