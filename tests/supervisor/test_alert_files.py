"""Alert rows from files into the store: once, in order, and whatever happens in between."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors import alert as sink
from headrace.connectors import alert_rows
from headrace.model.alerts import AlertRow, OpenAlert
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.state import desired
from headrace.store import alerts, db, events
from headrace.supervisor import decision_rules
from headrace.supervisor.alert_files import (
    FILES_PER_TICK,
    AlertFileReader,
    WaitingFile,
    interleave,
    list_waiting,
)
from headrace.supervisor.loop import Clock, Supervisor
from headrace.supervisor.situation import PolicyLimits, Situation
from headrace.supervisor.store_writer import REOPEN_S, StoreWriter
from supervisor import rule_alerts
from supervisor.conftest import FAKE_DRIVER, Project

pytestmark = pytest.mark.thorough

ID = "86222327-93f0-460e"
SHAPE = alert_rows.AlertTemplate(("c",), "Cluster {c}: load {load}", "critical")


class Bench:
    """Drivers leave batches, time passes, the supervisor takes."""

    def __init__(self, folder: Path) -> None:
        self.places = StatePaths(folder)
        self.now = 1000.0
        self.worked: dict[tuple[str, str], float] = {}
        self.history = StoreWriter(self.places)
        self.taking = self.begin()

    def begin(self) -> AlertFileReader:
        self.taking = AlertFileReader(self.places, self.history, lambda: self.now)
        return self.taking

    def left(
        self, number: int, *rows: tuple[Any, float, bool], query: str = "hot", id_: str = ID,
        **shape: Any,
    ) -> Path:  # fmt: skip
        batch = alert_rows.AlertBatch(id_, number, self.now)
        given = [{"c": c, "load": load, "resolved": is_over} for c, load, is_over in rows]
        made = alert_rows.lines(given, replace(SHAPE, **shape), batch)
        folder = self.places.alert_rows / "metrics" / query
        sink.write(folder, batch, made)
        path = folder / f"{number}-{id_[:8]}.jsonl"
        os.utime(path, (self.now, self.now))
        return path

    def take(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.taking.take(lambda *name: self.worked.get(name), self.now)

    def alerts(self, state: Any = "all") -> list[alerts.StoredAlert]:
        conn = db.open_readonly(self.places.alerts)
        found = alerts.list_alerts(conn, state)
        conn.close()
        return found

    def recorded(self) -> list[tuple[str, str]]:
        conn = db.open_readonly(self.places.history)
        found = [(one.kind, one.text) for one in events.recent(conn, "metrics", 1000)]
        conn.close()
        return found

    @property
    def waiting(self) -> int:
        return len(list_waiting(self.places.alert_rows))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state")
    yield made
    made.history.close()


def test_a_burst_of_rows_is_one_alert_that_counts_them(bench: Bench) -> None:
    bench.left(0, *((7, 90.0 + n, False) for n in range(50)))
    bench.left(1, *((7, 99.0, False) for _ in range(25)))
    bench.take()

    (alert,) = bench.alerts()
    assert (alert.key, alert.pipeline, alert.query) == ("metrics/hot/7", "metrics", "hot")
    assert (alert.rule, alert.severity, alert.count) == ("row", "critical", 75)
    assert (alert.title, alert.data) == ("Cluster 7: load 99.0", {"c": 7, "load": 99.0})
    assert bench.waiting == 0
    assert bench.recorded() == [("alert_opened", "Cluster 7: load 139.0")]


def test_an_alert_is_resolved_by_its_row_and_opens_again_as_another(bench: Bench) -> None:
    bench.left(0, (7, 99.0, False), (8, 99.0, False), (7, 10.0, True), (9, 1.0, True))
    bench.left(1, (7, 98.0, False))
    bench.take()

    found = {(one.key, one.resolved_at is None, one.reopened) for one in bench.alerts()}
    assert found == {
        ("metrics/hot/7", False, 0),
        ("metrics/hot/8", True, 0),
        ("metrics/hot/7", True, 1),
    }
    assert [kind for kind, _ in bench.recorded()].count("alert_resolved") == 1


def test_a_key_that_flaps_is_many_episodes_of_one_alert(bench: Bench) -> None:
    bench.left(0, *((7, 1.0, bool(n % 2)) for n in range(2000)))
    bench.take()

    found = bench.alerts()
    assert len(found) == 1000
    assert [alert.reopened for alert in found] == list(range(999, -1, -1))
    assert len(bench.recorded()) == 22


def test_a_batch_written_again_changes_nothing(bench: Bench) -> None:
    bench.left(0, (7, 99.0, False))
    bench.left(1, (7, 99.0, False))
    bench.take()
    before = bench.alerts()

    bench.left(1, (7, 99.0, False), (8, 99.0, False))
    bench.begin()  # another supervisor
    bench.take()

    assert bench.alerts() == before
    assert bench.waiting == 0


def test_a_checkpoint_recreated_counts_its_batches_from_0(bench: Bench) -> None:
    bench.left(5, (7, 99.0, False))
    bench.take()

    bench.left(0, (8, 99.0, False), id_="aaaaaaaa-0000")
    bench.take()

    assert {alert.key for alert in bench.alerts()} == {"metrics/hot/7", "metrics/hot/8"}


def test_rows_left_out_are_an_alert_of_their_own(bench: Bench) -> None:
    batch = alert_rows.AlertBatch(ID, 0, bench.now)
    made = [alert_rows.truncation_alert(batch, 100_000)]
    sink.write(bench.places.alert_rows / "metrics" / "hot", batch, made)
    bench.take()

    assert bench.alerts()[0].key == "metrics/hot:rows-left-out"


@pytest.mark.parametrize("content", [b"", b"no JSON\n", b"\xff\n", b'{"batch":1}\n'])
def test_a_file_that_is_none_is_set_aside_and_holds_up_nothing(
    bench: Bench, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = bench.left(0, (7, 99.0, False))
    path.write_bytes(content)
    bench.left(1, (8, 99.0, False))
    bench.take()

    assert [alert.key for alert in bench.alerts()] == ["metrics/hot/8"]
    assert path.with_name(f"{path.name}.bad").read_bytes() == content
    assert "renamed to" in caplog.text


def test_rows_of_another_batch_than_the_name_says_are_set_aside(bench: Bench) -> None:
    path = bench.left(3, (7, 99.0, False))
    path.rename(path.with_name(path.name.replace("3-", "4-")))
    bench.take()

    assert list(path.parent.glob("*.bad"))


def test_a_file_that_cannot_be_read_holds_up_its_query_and_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    path = bench.left(0, (7, 99.0, False))
    content = path.read_bytes()
    path.unlink()
    path.mkdir()  # even root cannot read a folder as a file
    bench.left(1, (8, 99.0, False))
    bench.left(0, (9, 99.0, False), query="other", id_="bbbbbbbb-0000")
    bench.take()
    assert [alert.key for alert in bench.alerts()] == ["metrics/other/9"]

    path.rmdir()
    path.write_bytes(content)
    bench.take()

    assert {alert.key for alert in bench.alerts()} >= {"metrics/hot/7", "metrics/hot/8"}


def test_a_locked_store_loses_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "BUSY_S", 0.1)
    bench.left(0, (7, 99.0, False))
    bench.take()
    bench.history.close()
    other = sqlite3.connect(bench.places.alerts, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    bench.left(1, (8, 99.0, False))
    bench.take()
    assert bench.waiting == 1

    other.execute("ROLLBACK")
    other.close()
    bench.take(REOPEN_S + 1)

    assert bench.waiting == 0
    assert {alert.key for alert in bench.alerts()} == {"metrics/hot/7", "metrics/hot/8"}


def test_a_broken_store_is_recreated_and_takes_what_waits(bench: Bench) -> None:
    bench.places.state.mkdir(parents=True, exist_ok=True)
    bench.places.alerts.write_bytes(b"no database at all" * 100)
    bench.left(0, (7, 99.0, False))
    bench.take()

    assert [alert.key for alert in bench.alerts()] == ["metrics/hot/7"]
    assert list(bench.places.state.glob("alerts.db.corrupt-*"))


def test_all_of_a_batch_or_nothing(bench: Bench) -> None:
    bench.left(0, (1, 1.0, False))
    bench.take()
    with sqlite3.connect(bench.places.alerts) as conn:
        conn.execute(
            "CREATE TRIGGER full BEFORE INSERT ON alerts WHEN NEW.key = 'metrics/hot/3'"
            " BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    conn.close()
    bench.left(1, (2, 1.0, False), (3, 1.0, False))
    bench.take()
    assert len(bench.alerts()) == 1
    assert bench.waiting == 1

    with sqlite3.connect(bench.places.alerts) as conn:
        conn.execute("DROP TRIGGER full")
    conn.close()
    bench.take(REOPEN_S + 1)

    assert len(bench.alerts()) == 3
    assert bench.waiting == 0


def test_work_is_bounded_and_nothing_is_waited_for_while_more_is_there(bench: Bench) -> None:
    for number in range(FILES_PER_TICK + 5):
        bench.left(number, (number, 1.0, False))
    bench.take()
    assert bench.waiting == 5

    bench.take(0.25)
    assert bench.waiting == 0

    bench.left(99, (1, 1.0, False))
    bench.take(0.25)
    assert bench.waiting == 1
    bench.take(1.0)
    assert bench.waiting == 0


def test_a_flood_of_alerts_is_told_in_a_few_words(bench: Bench) -> None:
    bench.left(0, *((n, 1.0, False) for n in range(100)))
    bench.take()

    recorded = bench.recorded()
    assert len(recorded) == 21
    assert recorded[-1] == ("alert_opened", "80 more")


def test_batches_go_in_order_lives_after_each_other_and_queries_take_turns() -> None:
    def one(query: str, life: str, batch: int, at: float) -> WaitingFile:
        return WaitingFile(Path(f"{query}{life}{batch}"), "p", query, batch, life, at)

    waiting = [
        one("a", "new", 0, 50.0), one("a", "old", 10, 7.0), one("a", "old", 9, 9.0),
        one("b", "x", 3, 99.0),
    ]  # fmt: skip

    order = [(o.query, o.life, o.batch) for o in interleave(waiting)]

    assert order == [("a", "old", 9), ("b", "x", 3), ("a", "old", 10), ("a", "new", 0)]


# ---- over by itself


def test_it_is_over_when_its_query_has_worked_all_that_time(bench: Bench) -> None:
    bench.left(0, (7, 99.0, False), resolve_after_s=60.0)
    told_at = bench.now
    bench.take()

    bench.take(500)  # the pipeline is down: that proves nothing
    bench.worked["metrics", "hot"] = told_at + 59.0
    bench.take()
    assert bench.alerts()[0].resolved_at is None

    bench.worked["metrics", "hot"] = told_at + 60.0
    bench.take()

    assert bench.alerts()[0].resolved_at == bench.now
    assert [kind for kind, _ in bench.recorded()] == ["alert_opened", "alert_resolved"]


def test_another_row_makes_it_last_longer(bench: Bench) -> None:
    bench.left(0, (7, 99.0, False), resolve_after_s=60.0)
    bench.take()
    bench.take(40)
    bench.left(1, (7, 99.0, False), resolve_after_s=60.0)
    bench.worked["metrics", "hot"] = bench.now + 50
    bench.take(50)
    assert bench.alerts()[0].resolved_at is None

    bench.worked["metrics", "hot"] = bench.now + 50
    bench.take(50)

    assert bench.alerts()[0].resolved_at is not None


def test_a_row_that_still_waits_is_heard_before_it_is_over(bench: Bench) -> None:
    bench.left(0, (7, 99.0, False), resolve_after_s=60.0)
    bench.take()
    bench.now += 100
    for number in range(1, FILES_PER_TICK + 2):
        bench.left(number, (7, 99.0, False), resolve_after_s=60.0)
    bench.worked["metrics", "hot"] = bench.now

    bench.take()
    bench.take()

    (alert,) = bench.alerts()
    assert alert.resolved_at is None
    assert alert.count == FILES_PER_TICK + 2


# ---- beside the rules


def test_rules_neither_see_nor_resolve_alerts_of_rows(bench: Bench) -> None:
    rows = [(n, 1.0, False) for n in range(1100)]
    rule = OpenAlert("restarting:metrics", "restarting", "metrics", "metrics keeps restarting")
    bench.history.open_alert(rule, 1.0, bench.now)
    bench.left(0, *rows)
    bench.take()
    bench.history.close()
    fresh = StoreWriter(bench.places)

    keys = fresh.open_keys(bench.now)
    fresh.close()
    situation = Situation(Desired("metrics", "stopped", "v1", "dev", "m.py"), limits=PolicyLimits())
    verdict = decision_rules.decide(situation, 1.0)
    resolved = list(rule_alerts.changes(situation, verdict, keys, 1.0).resolved)

    assert keys == {"restarting:metrics"}
    assert resolved == ["restarting:metrics"]
    assert len(bench.alerts("open")) == 1000  # one page of them


def test_the_supervisor_takes_rows_and_the_last_ones_at_its_end(project: Project) -> None:
    desired.write(project.places, Desired("orders", "stopped", "v1", "dev", "orders.py"))
    now = [5000.0]
    clock = Clock(steady=lambda: now[0], wall=lambda: now[0])
    supervisor = Supervisor(project.path, clock=clock, driver_command=FAKE_DRIVER)

    def leave(number: int) -> None:
        batch = alert_rows.AlertBatch(ID, number, now[0])
        made = alert_rows.lines([{"c": number, "load": 1.0}], SHAPE, batch)
        sink.write(project.places.alert_rows / "orders" / "hot", batch, made)

    leave(0)
    supervisor.tick(now[0])
    conn = db.open_readonly(project.places.alerts)
    assert [alert.key for alert in alerts.list_alerts(conn)] == ["orders/hot/0"]
    leave(1)
    supervisor.close()

    assert len(alerts.list_alerts(conn)) == 2
    conn.close()
    assert project.recorded("orders").count("alert_opened") == 2


def test_one_line_of_the_file_is_json_for_people(bench: Bench) -> None:
    path = bench.left(0, (7, 99.0, False))

    body = json.loads(path.read_text())

    assert body["key"] == ["7"]
    assert AlertRow.from_line(path.read_text()).count == 1
