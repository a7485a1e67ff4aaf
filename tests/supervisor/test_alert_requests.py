"""Requests about alerts, as the supervisor serves them. Real SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ControlError
from headrace.model.alerts import OpenAlert
from headrace.model.requests import Action, Request
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db, silences
from headrace.supervisor import alert_requests
from headrace.supervisor.store_writer import StoreWriter

AT = 1_800_000_000.0
WHOLE = {"pipeline": "orders", "query": None, "rule": "*", "until": AT + 60, "reason": "upgrade"}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[StoreWriter]:
    made = StoreWriter(StatePaths(tmp_path))
    made.open_alert(OpenAlert("k", "lag", "orders", "Lag"), AT - 10, 0.0)
    yield made
    made.close()


def serve(history: StoreWriter, what: Action, **fields: Any) -> str:
    request = Request("r1", what, "ann", AT, **fields)
    return alert_requests.serve(request, history, AT, 0.0)


def test_an_alert_is_acknowledged(history: StoreWriter) -> None:
    first = serve(history, Action.ACKNOWLEDGE, alert=1)
    again = serve(history, Action.ACKNOWLEDGE, alert=1)

    assert first == "alert 1 is acknowledged"
    assert again == "alert 1 was already acknowledged by ann at 2027-01-15 08:00:00Z"


def test_a_silence_is_added_and_ended(history: StoreWriter, tmp_path: Path) -> None:
    added = serve(history, Action.SILENCE, silence=WHOLE)
    ended = serve(history, Action.END_SILENCE, silence={"id": 1})
    again = serve(history, Action.END_SILENCE, silence={"id": 1})

    assert added == "silence 1 is active until 2027-01-15 08:01:00Z"
    assert ended == "silence 1 has ended"
    assert again == "silence 1 had already ended at 2027-01-15 08:00:00Z"
    (known,) = db.read(tmp_path / "alerts.db", lambda c: silences.list_silences(c, AT, True)) or []
    assert (known.pipeline, known.by, known.reason) == ("orders", "ann", "upgrade")


@pytest.mark.parametrize(
    ("what", "fields", "slug"),
    [
        (Action.ACKNOWLEDGE, {"alert": 99}, "unknown-alert"),
        (Action.ACKNOWLEDGE, {"alert": "x"}, "bad-request"),
        (Action.ACKNOWLEDGE, {"alert": 2**70}, "bad-request"),
        (Action.END_SILENCE, {"silence": {"id": 99}}, "unknown-silence"),
        (Action.END_SILENCE, {"silence": {"id": True}}, "bad-request"),
        (Action.END_SILENCE, {}, "bad-request"),
        (Action.SILENCE, {"silence": [1]}, "bad-request"),
        (Action.SILENCE, {"silence": {**WHOLE, "until": "soon"}}, "bad-request"),
        (Action.SILENCE, {"silence": {**WHOLE, "until": AT - 1}}, "bad-silence"),
        (Action.SILENCE, {"silence": {**WHOLE, "until": 1e17}}, "bad-silence"),
        (Action.SILENCE, {"silence": {**WHOLE, "reason": " "}}, "bad-silence"),
        (Action.SILENCE, {"silence": {**WHOLE, "pipeline": 7}}, "bad-request"),
        (Action.SILENCE, {"silence": {**WHOLE, "query": "x" * 5_000}}, "bad-request"),
    ],
)
def test_a_bad_request_is_refused(
    history: StoreWriter, what: Action, fields: dict[str, Any], slug: str
) -> None:
    with pytest.raises(ControlError) as caught:
        serve(history, what, **fields)

    assert caught.value.code == slug


def test_a_resolved_alert_cannot_be_acknowledged(history: StoreWriter) -> None:
    history.resolve_alert("k", AT - 1, 0.0)

    with pytest.raises(ControlError) as caught:
        serve(history, Action.ACKNOWLEDGE, alert=1)

    assert caught.value.code == "alert-resolved"


def test_a_store_that_cannot_be_written_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    history = StoreWriter(StatePaths(tmp_path / "file"))

    with pytest.raises(ControlError) as caught:
        serve(history, Action.ACKNOWLEDGE, alert=1)
    history.close()

    assert caught.value.code == "not-served"
    assert caught.value.why


def test_an_acknowledgement_is_an_event_with_its_author(
    history: StoreWriter, tmp_path: Path
) -> None:
    serve(history, Action.ACKNOWLEDGE, alert=1)

    history.record_alert_changes(0.0)

    found = db.read(
        tmp_path / "history.db", lambda c: db.rows(c, "SELECT kind, text FROM events ORDER BY id")
    )
    assert [tuple(row) for row in found or ()] == [
        ("alert_opened", "Lag"), ("alert_acknowledged", "acknowledged by ann: Lag"),
    ]  # fmt: skip
    alert = db.read(tmp_path / "alerts.db", lambda c: alerts.by_id(c, 1))
    assert alert is not None
    assert alert.acknowledged_by == "ann"
