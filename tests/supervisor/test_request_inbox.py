"""Requests are served once each, whatever the disk and the request are like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.model.requests import Action, Request
from headrace.model.state_paths import StatePaths
from headrace.state import requests
from headrace.supervisor.request_inbox import Inbox
from headrace.supervisor.store_writer import StoreWriter


class Office:
    """A desk, and what it was asked to change, in order. r-disk and r-bug break the change."""

    def __init__(self, folder: Path) -> None:
        self.places = StatePaths(folder)
        self.history = StoreWriter(self.places)
        self.served: list[str] = []
        self.desk = Inbox(self.places, self.history, self.change, self.guarded)
        self.places.requests.mkdir()
        self.places.answers.mkdir()

    @contextmanager
    def guarded(self, step: str, now: float) -> Iterator[None]:
        with suppress(ZeroDivisionError):
            yield

    def change(self, request: Request, now: float) -> str:
        self.served.append(request.id)
        if request.id == "r-disk":
            raise OSError("the disk said no")
        if request.id == "r-bug":
            raise ZeroDivisionError
        return f"done {request.version}"

    def leave(self, id: str, at: float, **more: str) -> None:
        requests.leave(self.places, Request(id, Action.RESTART, "ann", at, "orders", **more))


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.history.close()


@pytest.mark.parametrize(
    ("bad", "why"), [("r-disk", "the disk said no"), ("r-bug", "See the supervisor's log.")]
)
def test_a_request_that_cannot_be_served_is_answered_and_stops_no_other(
    office: Office, bad: str, why: str
) -> None:
    office.leave(bad, 1.0)
    office.leave("r2", 2.0)

    for now in (1.0, 2.0):
        office.desk.serve_waiting(now)

    assert office.served == [bad, "r2"]
    answer = requests.answer_of(office.places, bad, 0)
    assert answer is not None
    assert answer.error is not None
    assert (answer.ok, answer.error["slug"], answer.error["why"]) == (False, "not-served", why)
    assert requests.answer_of(office.places, "r2", 0) is not None


def test_a_request_whose_answer_cannot_be_written_is_served_once_and_answered_later(
    office: Office,
) -> None:
    office.places.answers.rmdir()
    office.places.answers.write_text("no folder: nothing can be written below it")
    office.leave("r1", 1.0)
    office.leave("r2", 2.0)

    for now in (1.0, 2.0, 3.0):
        office.desk.serve_waiting(now)
    assert list(office.places.requests.iterdir()) == []  # nor would the next supervisor serve it
    office.places.answers.unlink()
    office.desk.serve_waiting(4.0)

    assert office.served == ["r1", "r2"]
    assert [p.stem for p in sorted(office.places.answers.iterdir())] == ["r1", "r2"]


def test_an_answer_that_quotes_what_is_no_text_is_given_all_the_same(office: Office) -> None:
    office.leave("r1", 1.0)
    path = office.places.requests / "r1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": "\ud800"}))

    office.desk.serve_waiting(1.0)
    office.desk.serve_waiting(2.0)

    assert office.served == ["r1"]
    answer = requests.answer_of(office.places, "r1", 0)
    assert answer is not None
    assert "done" in answer.text
