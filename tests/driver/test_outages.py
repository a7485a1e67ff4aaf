"""When a source counts as silent, what is said about it, and when that is over."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.driver import outages
from headrace.driver.events import EventsFile
from headrace.driver.outages import OutageTracker
from headrace.model.events import Event, EventKind

ASKING = {"message": "Getting offsets from KafkaV2[Subscribe[orders]]", "trigger_active": True}
WORKING = {"message": "Processing new data", "trigger_active": True}
BETWEEN = {"message": "Waiting for next trigger", "trigger_active": False}
REFUSED = "connection refused"


class Watched:
    """One query; `look` says what it is doing at a moment."""

    def __init__(self, folder: Path, connect: Callable[[str], str | None]) -> None:
        self._path = folder / "events.jsonl"
        self.outages = OutageTracker(EventsFile(self._path), connect)
        self.outages.note("q", ["a:9092", "b:9092"])

    def look(self, at: float, status: dict[str, Any], heard_at: float | None = None) -> None:
        self.outages.check("q", status, heard_at, at)
        wait = self.outages._waits.get("q")
        deadline = time.monotonic() + 60
        while wait and wait.attempt and not wait.attempt.is_done:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def told(self) -> list[Event]:
        return [Event.from_line(line) for line in self._path.read_text().splitlines()]

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.told()]


def test_a_source_that_says_nothing_is_named_with_what_a_client_meets_there(
    tmp_path: Path,
) -> None:
    query = Watched(tmp_path, lambda _: REFUSED)
    for at in (100.0, 111.0):
        query.look(at, ASKING)
    assert query.kinds() == []

    for at in (113.0, 114.0, 115.0, 130.0):
        query.look(at, ASKING)
    (began,) = query.told()
    assert began.kind is EventKind.OUTAGE_BEGAN
    assert began.data["error"] == "Kafka a:9092: connection refused; b:9092: connection refused"
    assert began.data["source"] == "KafkaV2[Subscribe[orders]]"

    query.look(131.0, BETWEEN)
    assert query.kinds() == [EventKind.OUTAGE_BEGAN, EventKind.OUTAGE_ENDED]
    assert query.told()[-1].data["is_answered"]


def test_a_query_that_was_idle_meanwhile_is_answered_however_often_it_is_seen_asking(
    tmp_path: Path,
) -> None:
    query = Watched(tmp_path, lambda _: REFUSED)
    for at in range(100, 160):
        query.look(float(at), ASKING, heard_at=float(at - at % 10))

    assert query.kinds() == []


def test_a_broker_that_hangs_is_told_from_one_that_is_down(tmp_path: Path) -> None:
    query = Watched(tmp_path, lambda _: None)
    for at in (100.0, 113.0, 114.0):
        query.look(at, ASKING)

    (began,) = query.told()
    assert began.data["error"].endswith("accepts connections, but does not answer requests")


def test_a_long_batch_is_an_outage_only_while_nothing_can_be_reached(tmp_path: Path) -> None:
    answers: dict[str, str | None] = {"a:9092": REFUSED, "b:9092": None}
    query = Watched(tmp_path, lambda address: answers[address])
    for at in (100.0, 113.0, 114.0):
        query.look(at, WORKING)
    assert query.kinds() == [], "one of two brokers is there"

    answers["b:9092"] = REFUSED
    for at in (120.0, 121.0):
        query.look(at, WORKING)
    assert query.kinds() == [EventKind.OUTAGE_BEGAN]

    answers["a:9092"] = None
    for at in (130.0, 131.0):
        query.look(at, WORKING)
    assert query.kinds() == [EventKind.OUTAGE_BEGAN, EventKind.OUTAGE_ENDED]


def test_tasks_that_finish_are_no_outage(tmp_path: Path) -> None:
    query = Watched(tmp_path, lambda _: REFUSED)
    for at in range(100, 140):
        query.look(float(at), {**WORKING, "tasks_done": at // 5})

    assert query.kinds() == []


def test_an_outage_that_outlives_the_run_ends_with_it_unanswered(tmp_path: Path) -> None:
    query = Watched(tmp_path, lambda _: REFUSED)
    for at in (100.0, 113.0, 114.0):
        query.look(at, ASKING)
    query.look(115.0, {"message": "Terminated with exception: x", "trigger_active": False})
    assert query.kinds() == [EventKind.OUTAGE_BEGAN]

    query.outages.end_all()
    assert query.told()[-1].data["is_answered"] is False


def test_what_a_client_meets_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert outages.connect(f"127.0.0.1:{port}") is None
    assert outages.connect(f"127.0.0.1:{port}") == REFUSED
    assert outages.connect("127.0.0.1:none") == "not an address of the form HOST:PORT"

    def unknown(*_: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    assert outages.connect("nowhere.invalid:9092") == "no such host: nowhere.invalid"
