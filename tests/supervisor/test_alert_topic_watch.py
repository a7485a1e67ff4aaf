"""Alert rows that come by a topic, as the supervisor sees them: histories without a broker."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from headrace.connectors import alert_rows
from headrace.model.alerts import TopicAlerts, TopicRow
from headrace.model.progress_exports import NEWS_S
from headrace.model.runs import Desired, Wanted
from headrace.model.state_paths import StatePaths
from headrace.state import alert_topic_status as recorded
from headrace.state import desired
from headrace.store import alert_topics, alerts, db, events
from headrace.supervisor.alert_files import AlertFileReader
from headrace.supervisor.alert_topic_watch import LATE_S, find_late
from headrace.supervisor.store_writer import StoreWriter

BY = TopicAlerts("metrics", "hot", "headraceAlerts", since=1000.0)
SHAPE = alert_rows.AlertTemplate(("c",), "Cluster {c}", "critical", 30.0)


class Bench:
    """The relay writes, time passes, the supervisor looks."""

    def __init__(self, folder: Path) -> None:
        self.places = StatePaths(folder)
        self.now = 1000.0
        self.history = StoreWriter(self.places)
        self.taking = AlertFileReader(self.places, self.history, lambda: self.now)
        desired.write(self.places, Desired("metrics", Wanted.RUNNING, "v", "dev", "metrics.py"))

    def relay(self, *, until: float | None, problem: str | None = None) -> None:
        by = TopicAlerts(BY.pipeline, BY.query, BY.topic, BY.since, until, problem)
        recorded.write(self.places, [by])

    def row(self, at: float) -> None:
        (made,) = alert_rows.lines([{"c": 1}], SHAPE, alert_rows.AlertBatch("topic", 0, at))
        with closing(db.open_alerts(self.places.alerts)) as conn:
            alert_topics.take(conn, "t", [TopicRow("metrics", "hot", made, 0, 0, None)], {0: 1}, at)

    def take(self, seconds: float) -> None:
        self.now += seconds
        self.taking.take(lambda *_: self.now, self.now)

    def open(self) -> list[str]:
        with closing(db.open_readonly(self.places.alerts)) as conn:
            return [one.title for one in alerts.list_alerts(conn, "open")]


def test_what_the_relay_changed_becomes_an_event(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.relay(until=1000.0)
    bench.row(1000.0)

    bench.take(1)
    bench.take(1)

    with closing(db.open_readonly(bench.places.history)) as conn:
        said = [(one.kind, one.text, one.at) for one in events.recent(conn, "metrics", 10)]
    assert said == [("alert_opened", "Cluster 1", 1000.0)]


def test_an_alert_is_not_over_by_itself_while_rows_may_wait(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.row(1000.0)  # over after 30 s of peace
    bench.relay(until=1010.0, problem="the broker does not answer")

    bench.take(40)
    assert bench.open() == ["Cluster 1"]

    bench.relay(until=1041.0)
    bench.take(2)
    assert bench.open() == []


def test_an_old_topic_with_rows_that_wait_counts_like_the_new_one(tmp_path: Path) -> None:
    """After a deployment that changed the topic."""
    bench = Bench(tmp_path)
    bench.row(1000.0)
    new = TopicAlerts("metrics", "hot", "other", since=1000.0, until=1100.0)
    recorded.write(bench.places, [new, BY])

    bench.take(LATE_S + 1)

    why = "the relay is not responding (see relay.log)"
    assert bench.open() == [
        f"Alert rows from hot in the topic headraceAlerts are not being read: {why}",
        "Cluster 1",
    ]


def test_rows_that_nobody_takes_are_an_alert_until_they_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.relay(until=1000.0, problem="127.0.0.1:1 does not answer.")
    bench.take(LATE_S)
    assert bench.open() == []

    bench.take(1)
    bench.take(1)
    assert bench.open() == [
        "Alert rows from hot in the topic headraceAlerts are not being read: "
        "127.0.0.1:1 does not answer."
    ]

    bench.relay(until=bench.now)
    bench.take(1)
    assert bench.open() == []


def test_rows_that_were_deleted_before_they_were_taken_are_an_alert_for_a_day(
    tmp_path: Path,
) -> None:
    """Also of a pipeline that is stopped meanwhile; that all others are taken does not end it."""
    bench = Bench(tmp_path)
    desired.write(bench.places, Desired("metrics", Wanted.STOPPED, "v", "dev", "metrics.py"))
    recorded.write(bench.places, [replace(BY, until=1e6, lost=1200, lost_at=1000.0)])

    bench.take(1)
    bench.take(NEWS_S - 2)
    assert bench.open() == [
        "1,200 rows in the topic headraceAlerts were deleted before they were read:"
        " alerts from hot may be missing or may stay open"
    ]

    bench.take(1)
    assert bench.open() == []


def test_a_pipeline_that_is_stopped_waits_for_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    desired.write(bench.places, Desired("metrics", Wanted.STOPPED, "v", "dev", "metrics.py"))
    bench.relay(until=None)

    bench.take(LATE_S + 1)

    assert bench.open() == []


def test_what_an_earlier_relay_left_is_given_time() -> None:
    assert find_late([BY], since=5000.0, at=5000.0 + LATE_S) == {}
    (found,) = find_late([BY], since=5000.0, at=5001.0 + LATE_S).values()
    assert "the relay is not responding" in found[1]


def test_a_flood_is_told_in_part_and_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    shape = alert_rows.AlertTemplate(("c",), "Cluster {c}", "critical")
    rows = []
    for number in range(50):
        batch = alert_rows.AlertBatch("topic", 0, 1000.0)
        (made,) = alert_rows.lines([{"c": number}], shape, batch)
        rows.append(TopicRow("metrics", "hot", made, 0, number, None))
    with closing(db.open_alerts(bench.places.alerts)) as conn:
        alert_topics.take(conn, "t", rows, {0: 50}, 1000.0)

    bench.take(1)
    bench.take(1)

    with closing(db.open_readonly(bench.places.history)) as conn:
        said = [one.text for one in events.recent(conn, "metrics", 100)]
    assert len(said) == 21
    assert said[-1] == "30 more"
