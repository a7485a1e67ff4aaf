"""The user's own listeners: what is refused, and that a bad one holds nobody up. Without a JVM."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming import StreamingQueryListener

from headrace.define.declarations import Collector, Declaration
from headrace.driver import user_listeners
from headrace.driver.user_listeners import UserListeners
from headrace.errors import DefinitionError, Error
from headrace.model.pipeline import Place

HERE = Path(__file__)


class Text(str):
    __slots__ = ()

    def toString(self) -> str:  # noqa: N802 (Java's name)
        return str(self)


class Idle:
    """What py4j passes to `onQueryIdle`, as far as PySpark reads it."""

    def __init__(self) -> None:
        self.id = self.runId = lambda: Text(uuid.uuid4())
        self.timestamp = lambda: "2026-01-01T00:00:00.000Z"


class Heard(StreamingQueryListener):
    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.events: list[Any] = []
        self.meanwhile = meanwhile

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Not called here."""

    onQueryProgress = onQueryTerminated = onQueryStarted  # noqa: N815

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.events.append(event)
        self.meanwhile()


def created(*functions: Callable[..., Any]) -> UserListeners:
    collector = Collector(root=HERE.parent, project=HERE.parent)
    place = Place(HERE.name, 7)
    found = [Declaration(one.__name__, "listener", one, place) for one in functions]
    made = UserListeners()
    session: Any = "the session"
    made.create(found, collector, session)
    return made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_function_gets_the_session_and_its_listener_hears() -> None:
    sessions: list[Any] = []
    heard = Heard()

    def make(spark: Any) -> Heard:
        sessions.append(spark)
        return heard

    listeners = created(make)
    listeners.tell("onQueryIdle", Idle())
    until(lambda: bool(heard.events))
    listeners.close()

    assert sessions == ["the session"]
    assert type(heard.events[0]).__name__ == "QueryIdleEvent"


def test_what_is_no_listener_is_refused_with_its_line_and_all_at_once() -> None:
    def number() -> int:
        return 5

    def broken() -> None:
        raise OSError("no dashboard")

    class Abstract(StreamingQueryListener):
        """Lacks its methods."""

    with pytest.raises(Error) as caught:
        created(number, broken, Abstract)

    problems: list[DefinitionError] = caught.value.problems  # type: ignore[attr-defined]
    assert [one.code for one in problems] == ["not-a-listener", *["listener-failed"] * 2]
    assert problems[0].where == f"{HERE.name}:7"
    assert "The listener 'number' returned 5" in problems[0].what
    assert "OSError: no dashboard" in problems[1].what
    assert problems[1].where == f"{HERE.name}:{broken.__code__.co_firstlineno + 1}"
    assert "abstract" in problems[2].what


def test_a_stuck_listener_misses_events_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(user_listeners, "QUEUE_MAX", 3)
    monkeypatch.setattr(user_listeners, "CLOSE_S", 0.2)
    release = threading.Event()
    heard, stuck = Heard(), Heard(lambda: release.wait(60))

    def well() -> Heard:
        return heard

    def slow() -> Heard:
        return stuck

    listeners = created(slow, well)
    for number in range(8):
        listeners.tell("onQueryIdle", Idle())
        until(lambda seen=number: len(heard.events) > seen and bool(stuck.events))  # type: ignore[misc]
    with caplog.at_level(logging.WARNING):
        listeners.close()
    release.set()

    assert len(stuck.events) == 1
    assert (
        "the listener slow (test_user_listeners.py:7) raised 0 errors and missed 7" in caplog.text
    )


def test_the_first_error_is_logged_with_its_line_and_the_rest_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise SystemExit(3)

    def broken() -> Heard:
        return Heard(fail)

    listeners = created(broken)
    for _ in range(3):
        listeners.tell("onQueryIdle", Idle())
    listeners.tell("onQueryIdle", object())  # no event of Spark
    listeners.close()

    line = fail.__code__.co_firstlineno + 1
    raised = f"raised SystemExit: 3 (test_user_listeners.py:{line}, in onQueryIdle)"
    assert caplog.text.count(raised) == 1
    assert "raised 4 errors and missed 0 events" in caplog.text
