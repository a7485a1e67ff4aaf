"""Alert rows by a topic, in the store: all or none, once, and told of once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.connectors import alert_rows
from headrace.errors import StoreError
from headrace.model.alerts import TopicRow
from headrace.store import alert_changes, alert_topics, alerts, db, recovery, retention
from headrace.store.retention import RetentionLimits

SHAPE = alert_rows.AlertTemplate(("c",), "Cluster {c}", "critical", None, "at")


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[db.Store]:
    with closing(db.open_alerts(tmp_path / "alerts.db")) as found:
        yield found


def row(
    cluster: int,
    *,
    resolved: bool = False,
    twin: bytes | None = None,
    offset: int = 1_000,
    moment: float = 100.0,
) -> TopicRow:
    given = {"c": cluster, "at": None, "resolved": resolved}
    (made,) = alert_rows.lines([given], SHAPE, alert_rows.AlertBatch("topic", 0, moment))
    return TopicRow("metrics", "hot", made, 0, offset, twin)


def remembered(conn: db.Store) -> int:
    return int(db.rows(conn, "SELECT count(*) AS n FROM topic_rows")[0]["n"])


def counts(conn: db.Store) -> dict[str, int]:
    return {one.title: one.count for one in alerts.list_alerts(conn, "open")}


def test_rows_open_count_and_resolve_and_the_place_goes_with_them(conn: db.Store) -> None:
    alert_topics.take(conn, "t", [row(1), row(1), row(2)], {0: 3}, 100.0)
    assert counts(conn) == {"Cluster 1": 2, "Cluster 2": 1}

    alert_topics.take(conn, "t", [row(1, resolved=True)], {0: 4, 1: 9}, 101.0)
    assert counts(conn) == {"Cluster 2": 1}
    assert alert_topics.positions(conn, "t") == {0: 4, 1: 9}
    assert alert_topics.positions(conn, "another topic") == {}


def test_a_twin_changes_nothing_until_it_is_forgotten(conn: db.Store) -> None:
    alert_topics.take(conn, "t", [row(1, twin=b"x"), row(1, twin=b"x")], {0: 2}, 100.0)
    resolving = row(1, resolved=True, twin=b"y")
    alert_topics.take(conn, "t", [resolving, row(1, twin=b"x")], {0: 4}, 101.0)
    assert counts(conn) == {}

    retention.prune_alerts(conn, 100.0 + retention.DEFAULTS.twins_days * retention.DAY_S + 1)
    alert_topics.take(conn, "t", [row(1, twin=b"x")], {0: 5}, 102.0)
    assert counts(conn) == {"Cluster 1": 1}
    assert alert_topics.positions(conn, "t") == {0: 5}, "places are kept for longer"


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_sent_again_changes_nothing(conn: db.Store, seed: int) -> None:
    """Also rows that resolved nothing at first, of which most are not remembered, and rows of one
    moment."""
    chance = random.Random(seed)
    moment, sent = 100.0, []
    for number in range(60):
        moment += chance.choice((0, 0, 1))
        given = {"resolved": chance.random() < 0.7, "twin": str(number).encode()}
        sent.append(row(chance.choice((1, 2)), moment=moment, **given))
    begin = chance.randrange(len(sent))
    alert_topics.take(conn, "t", sent, {0: 1}, 500.0)
    before = alerts.list_alerts(conn, "all")

    for _ in range(2):
        assert alert_topics.take(conn, "t", sent[begin:], {0: 1}, 501.0) == 0

    assert alerts.list_alerts(conn, "all") == before


def test_rows_that_resolve_nothing_are_not_kept_in_mind(conn: db.Store) -> None:
    for number in range(1_000):
        quiet = row(number % 3, resolved=True, twin=str(number).encode(), moment=100.0 + number)
        alert_topics.take(conn, "t", [quiet], {0: number}, 100.0 + number)

    assert remembered(conn) == 3, "the last of each key"


def test_a_row_from_before_an_alert_was_opened_does_not_resolve_it(conn: db.Store) -> None:
    alert_topics.take(conn, "t", [row(1, twin=b"x", moment=100.0)], {0: 1}, 100.0)

    alert_topics.take(conn, "t", [row(1, resolved=True, twin=b"y", moment=99.0)], {0: 2}, 101.0)
    assert counts(conn) == {"Cluster 1": 1}
    alert_topics.take(conn, "t", [row(1, resolved=True, twin=b"z", moment=100.0)], {0: 3}, 102.0)
    assert counts(conn) == {}


def test_so_many_rows_are_kept_in_mind_and_no_more(conn: db.Store) -> None:
    for number in range(25):
        one = row(1, twin=str(number).encode())
        alert_topics.take(conn, "t", [one], {0: number}, 100.0 + number)

    retention.prune_alerts(conn, 200.0, RetentionLimits(twins_max=10, bite_rows=3))

    assert remembered(conn) == 10
    alert_topics.take(conn, "t", [row(1, twin=b"24")], {0: 26}, 126.0)
    assert counts(conn) == {"Cluster 1": 25}, "the newest are kept"


def test_changes_are_read_in_order_until_the_reader_has_passed_them(conn: db.Store) -> None:
    alert_topics.take(conn, "t", [row(1), row(1), row(2), row(1, resolved=True)], {0: 4}, 100.0)

    first = alert_changes.read(conn, "me", 2)
    assert alert_changes.read(conn, "me", 2) == first, "it has not passed them"
    alert_changes.advance(conn, "me", first[-1].id)
    rest = alert_changes.read(conn, "me", 10)

    read = [(one.kind, one.title) for one in (*first, *rest)]
    assert read == [("trigger", "Cluster 1"), ("trigger", "Cluster 2"), ("resolve", "Cluster 1")]
    assert {(one.alert.pipeline, one.at) for one in first} == {("metrics", 100.0)}
    alert_changes.advance(conn, "me", rest[-1].id)
    assert alert_changes.read(conn, "me", 10) == []
    assert len(alert_changes.read(conn, "another", 10)) == 3


def test_a_second_relay_that_has_not_ended_yet_takes_nothing_twice(conn: db.Store) -> None:
    alert_topics.take(conn, "t", [row(1, offset=5), row(1, offset=6)], {0: 7}, 100.0)
    alert_topics.take(conn, "t", [row(1, offset=5)], {0: 6}, 101.0)

    assert counts(conn) == {"Cluster 1": 2}
    assert alert_topics.positions(conn, "t") == {0: 7}, "a place never goes back by itself"


def test_a_topic_that_ends_before_the_known_place_is_taken_from_there(conn: db.Store) -> None:
    """As after an election of a broker that had not all of it."""
    alert_topics.take(conn, "t", [row(1, offset=6)], {0: 7}, 100.0)
    alert_topics.reset_positions(conn, "t", {0: 2})
    alert_topics.take(conn, "t", [row(2, offset=2)], {0: 3}, 101.0)

    assert counts(conn) == {"Cluster 1": 1, "Cluster 2": 1}
    assert alert_topics.positions(conn, "t") == {0: 3}


def test_a_row_that_cannot_be_written_takes_the_place_back_with_it(conn: db.Store) -> None:
    bad = row(2)
    object.__setattr__(bad.row, "title", "half a \ud800 pair")

    with pytest.raises(StoreError):
        alert_topics.take(conn, "t", [row(1), bad], {0: 2}, 100.0)

    assert counts(conn) == {}
    assert alert_topics.positions(conn, "t") == {}


def test_from_a_damaged_file_also_the_places_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(db.open_alerts(path)) as old:
        alert_topics.take(old, "t", [row(1, twin=b"x")], {0: 7}, 100.0)
        taken = alert_rows.lines([{"c": 3, "at": None}], SHAPE, alert_rows.AlertBatch("id", 5, 1.0))
        alerts.take(old, "metrics", "hot", taken, 100.0)
    with closing(db.open_alerts(tmp_path / "new.db")) as new:
        assert recovery.salvage_alerts(path, new) == 2

        alert_topics.take(new, "t", [row(1, twin=b"x")], {0: 8}, 101.0)
        assert alerts.take(new, "metrics", "hot", taken, 102.0) == 0
        assert counts(new) == {"Cluster 1": 1, "Cluster 3": 1}
