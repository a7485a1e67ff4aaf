"""Silences and acknowledgements in alerts.db."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.alerts import OpenAlert
from headrace.model.notices import NoticeKind
from headrace.store import alert_changes, alerts, db, silences
from headrace.store.alerts import StoredAlert
from headrace.store.silences import Silence


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[db.Store]:
    with closing(db.open_alerts(tmp_path / "alerts.db")) as conn:
        yield conn


def opened(conn: db.Store, severity: str = "warning", query: str | None = "hot") -> StoredAlert:
    alert = OpenAlert("k", "lag", "orders-eu", "Lag", severity, query)
    alerts.open_once(conn, alert, 5.0)
    found = alerts.by_id(conn, 1)
    assert found is not None
    return found


def silence(pipeline: str = "*", query: str | None = None, rule: str = "*") -> Silence:
    return Silence(0, pipeline, query, rule, "maintenance", "ann", 10.0, 20.0)


def kinds(conn: db.Store) -> list[NoticeKind]:
    return [change.kind for change in alert_changes.read(conn, "me", 10)]


def test_an_alert_is_acknowledged_once_by_one_person(conn: db.Store) -> None:
    opened(conn)

    assert alerts.acknowledge(conn, 1, "ann", 6.0)
    assert not alerts.acknowledge(conn, 1, "ben", 7.0)

    found = opened(conn)
    assert (found.acknowledged_at, found.acknowledged_by) == (6.0, "ann")
    assert found.to_json()["acknowledged_by"] == "ann"
    assert kinds(conn) == [NoticeKind.TRIGGER, NoticeKind.ACKNOWLEDGE]
    assert alert_changes.read(conn, "me", 10)[1].title == "acknowledged by ann: Lag"


def test_only_an_open_alert_can_be_acknowledged(conn: db.Store) -> None:
    opened(conn)
    alerts.resolve(conn, "k", 6.0)

    assert not alerts.acknowledge(conn, 1, "ann", 7.0)
    assert not alerts.acknowledge(conn, 99, "ann", 7.0)
    assert kinds(conn) == [NoticeKind.TRIGGER, NoticeKind.RESOLVE]


def test_an_acknowledgement_ends_when_the_alert_becomes_more_severe(conn: db.Store) -> None:
    opened(conn, "warning")
    alerts.acknowledge(conn, 1, "ann", 6.0)

    assert opened(conn, "info").acknowledged_by == "ann"
    assert opened(conn, "critical").acknowledged_at is None


@pytest.mark.parametrize(
    ("made", "takes"),
    [
        (silence(), True),
        (silence("orders-*"), True),
        (silence("orders"), False),
        (silence(query="h*"), True),
        (silence(query="cold"), False),
        (silence(rule="lag"), True),
        (silence(rule="stalled"), False),
    ],
)
def test_a_silence_takes_what_matches_all_its_globs(
    conn: db.Store, made: Silence, takes: bool
) -> None:
    assert made.takes(opened(conn)) is takes


def test_a_silence_of_a_query_leaves_alerts_of_the_pipeline(conn: db.Store) -> None:
    alert = opened(conn, query=None)

    assert silence().takes(alert)
    assert not silence(query="hot").takes(alert)


def test_a_silence_lasts_until_its_end_or_until_a_person_ends_it(conn: db.Store) -> None:
    alert = opened(conn)
    first, second = (silences.add(conn, silence()) for _ in range(2))
    active = silences.list_silences(conn, 10.0)

    assert [one.id for one in active] == [second, first]
    assert silences.find(active, alert, 9.9) is None
    assert silences.find(active, alert, 19.9) is not None
    assert silences.find(active, alert, 20.0) is None

    assert silences.end(conn, first, 12.0)
    assert not silences.end(conn, first, 13.0)
    assert not silences.end(conn, second, 20.0), "it is over"
    assert not silences.end(conn, 99, 12.0)
    assert [one.id for one in silences.list_silences(conn, 13.0)] == [second]
    assert silences.list_silences(conn, 20.0) == []
    assert [one.id for one in silences.list_silences(conn, 20.0, is_all=True)] == [second, first]
    ended = silences.by_id(conn, first)
    assert ended is not None
    assert ended.ended_at == 12.0
    assert not ended.is_active(11.0)
