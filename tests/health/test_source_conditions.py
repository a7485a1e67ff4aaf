"""Findings about sources: one that does not answer, files that changed before they were read."""

from __future__ import annotations

import pytest

from headrace.health import judgement
from headrace.health.conditions import table
from headrace.health.judgement import Subject
from headrace.health.run_view import RunView, fold_all
from headrace.model.events import Event, EventKind
from headrace.model.limits import HealthLimits
from headrace.model.runs import Desired
from headrace.model.status import QueryStatus, State

WANTED = Desired("orders", "running", "v1", "dev", "orders.py", by="ann")
REFUSED = "Kafka 127.0.0.1:9092: connection refused"


def judged(*events: Event) -> tuple[State, str, QueryStatus]:
    view = fold_all(events, RunView(pid=1))
    found = table.by_query(view, HealthLimits())
    subject = Subject(WANTED, view, findings=found)
    now = view.last_line_at or 0.0
    (query,) = judgement.query_statuses(subject, now)
    return *judgement.judge(subject, now), query


def read_all(at: float) -> list[Event]:
    """A query that has read all there is."""
    done = {"orders": {"0": 50}}
    source = {"description": "KafkaV2", "endOffset": done, "latestOffset": done}
    progress = {"batchId": 0, "numInputRows": 50, "sources": [source]}
    return [
        Event(at, EventKind.QUERY_STARTED, "kept", {"place": "orders.py:7"}),
        Event(at + 1, EventKind.PROGRESSED, "kept", {"progress": progress}),
        Event(at + 2, EventKind.IDLED, "kept"),
    ]


def out(at: float, error: str = REFUSED) -> Event:
    data = {"error": error, "addresses": ["127.0.0.1:9092"], "source": "KafkaV2", "since": at - 12}
    return Event(at, EventKind.OUTAGE_BEGAN, "kept", data)


def test_a_silent_source_is_named_and_what_waits_there_is_unknown() -> None:
    state, why, query = judged(*read_all(100.0), out(120.0))

    assert (state, why) == (
        State.STALLED,
        f"kept: its source has not answered for 12 s: {REFUSED}",
    )
    (found,) = query.findings
    assert (found.slug, found.severity) == ("source-unanswered", "problem")
    assert found.what == f"The source has not answered since 1970-01-01 00:01:48Z: {REFUSED}."
    assert (found.since, found.where) == (108.0, "127.0.0.1:9092")
    assert "Nothing is listening" in str(found.cause)
    assert (query.lag_rows, query.is_lag_unknown) == (None, True)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("Kafka h:1: no such host: h", "name is wrong"),
        ("Kafka h:1: no connection within 3 s", "firewall"),
        ("Kafka h:1: accepts connections, but does not answer requests", "TLS"),
        ("FileStreamSource[x]: no answer", "not reachable"),
    ],
)
def test_what_a_client_met_tells_the_likely_cause(error: str, cause: str) -> None:
    _, _, query = judged(*read_all(100.0), out(120.0, error))

    assert cause in str(query.findings[0].cause)


def test_a_source_that_answers_again_leaves_no_finding() -> None:
    ended = Event(140.0, EventKind.OUTAGE_ENDED, "kept", {"for_s": 20.0, "is_answered": True})
    state, _, query = judged(*read_all(100.0), out(120.0), ended)

    assert (state, query.findings) == (State.RUNNING, ())
    assert (query.lag_rows, query.is_lag_unknown) == (0, False)


def changed(at: float, **data: object) -> Event:
    return Event(at, EventKind.INPUTS_CHANGED, "kept", {"batch": 3, **data})


def test_vanished_files_are_counted_named_and_degrade_the_query() -> None:
    files = [f"/in/{number}.json" for number in range(4)]
    first = changed(110.0, vanished=1, vanished_files=files[:1])
    more = changed(111.0, vanished=3, vanished_files=files[1:])
    state, why, query = judged(*read_all(100.0), first, more)

    assert state is State.DEGRADED
    (found,) = query.findings
    assert found.what == (
        "4 input files vanished before being read, so their rows are missing. Files: "
        "/in/0.json, /in/1.json, /in/2.json and 1 more."
    )
    assert found.what.rstrip(".") in why
    assert "under new names" in str(found.fix)
    assert (found.since, found.where) == (110.0, "orders.py:7")


def test_a_rewritten_file_is_a_warning() -> None:
    state, _, query = judged(
        *read_all(100.0), changed(110.0, rewritten=1, rewritten_files=["/in/a.json"])
    )

    assert state is State.RUNNING
    (found,) = query.findings
    assert (found.slug, found.severity) == ("input-rewritten", "warning")
    assert "1 input file changed after being listed" in found.what
    assert "/in/a.json" in found.what


def test_events_with_strange_fields_harm_nobody() -> None:
    strange = changed(110.0, vanished="x", vanished_files=7, rewritten=None, rewritten_files=[1])
    odd = Event(111.0, EventKind.OUTAGE_BEGAN, "kept", {"since": "x", "addresses": 5})
    _, _, query = judged(*read_all(100.0), strange, odd)

    (found,) = query.findings
    assert (found.slug, found.since) == ("source-unanswered", 111.0)
